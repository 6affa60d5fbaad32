# %% [markdown] id="title"
# # 08 Mixed precision
#
# A number with 32 bits costs twice the memory, twice the traffic and, on most accelerators, many times the
# arithmetic of one with 16 bits. So train with 16. It is not quite as easy as it sounds: some numbers vanish, some
# steps do nothing, and the memory may even grow. This lesson shows each of these on a real run, what people do
# about it, and what happens with eight.
#
# | | |
# |---|---|
# | You will be able to | say what formats of 16 and 8 bits can hold and what they lose; read the loss scale and the skipped iterations in a log; say why there is still a copy with 32 bits; tell `autocast` from what Megatron-LM does; predict what mixed precision does to speed and memory, and check it |
# | Minutes | 50 |
# | Devices | 1 |
# | Before | lessons 03 and 06 |

# %% id="begin"
import math

import pandas as pd
import torch
from torch import nn

from course_lib import Lab, check, claim, gpt, predict, show

lab = Lab()

# %% [markdown] id="formats-idea"
# ## Sixteen bits, two ways to spend them
#
# A floating-point number is written like 1.0110 × 2⁵. Some bits hold the power of two: they decide how large and
# how small a number may be. The rest hold the digits: they decide how close two numbers may lie and still be
# told apart.
#
# | format | bits for the power | bits for the digits | in all, with the sign |
# |---|---|---|---|
# | `float32` | 8 | 23 | 32 |
# | `float16`, "fp16" | 5 | 10 | 16 |
# | `bfloat16`, "bf16" | 8 | 7 | 16 |
#
# **Predict.** Here are five numbers: 0.00000002, 0.0001, 1.001, 300 and 70 000. A format *spoils* a number if it moves
# it by more than a two-thousandth (0.05 %). Which of the five does `float16` spoil, and which does `bfloat16`?

# %% id="formats-guess"
### BEGIN SOLUTION
### GAP guess_spoiled_by_float16 = ...  # a list, such as ["300", "70 000"]
### GAP guess_spoiled_by_bfloat16 = ...
guess_spoiled_by_float16 = ["1.001"]
guess_spoiled_by_bfloat16 = ["1.001", "300"]
### END SOLUTION

# %% id="formats-see"
numbers = {"0.00000002": 2e-8, "0.0001": 1e-4, "1.001": 1.001, "300": 300.0, "70 000": 70_000.0}
formats = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
spoiling = {
    "float16": predict("08: spoiled by float16", guess_spoiled_by_float16, choices=list(numbers)),
    "bfloat16": predict(
        "08: spoiled by bfloat16", guess_spoiled_by_bfloat16, choices=list(numbers)
    ),
}


def as_held(kind):
    """The numbers as this format holds them."""
    return torch.tensor(list(numbers.values())).to(kind).double().tolist()


held = pd.DataFrame({name: as_held(kind) for name, kind in formats.items()}, index=numbers)
true = pd.Series(numbers)
moved = 100 * (held.div(true, axis=0) - 1).abs()
for name, guessed in spoiling.items():
    guessed.compare([text for text, percent in moved[name].items() if percent > 0.05])
percent = moved.drop(columns="float32").map("{:.3f}".format).add_suffix(", moved by (%)")
held.map("{:.5g}".format).join(percent)

# %% id="formats-limits"
show.number_formats({name: torch.finfo(kind) for name, kind in formats.items()})

# %% [markdown] id="formats-explain"
# *How far rounding may move a number, by its size. A curve that goes up at its right end
# stops at the format's largest number; those of `float32` and `bfloat16` go on beyond the figure. To the left a curve rises
# where the power cannot fall any further, and the digits are used up one by one.*
#
# **Explain.** `float16` has three digits, plenty for most of training. What it lacks is **range**: the smallest of the five became zero, the largest
# infinite. `bfloat16` made the opposite choice. It has the range of `float32`, and hardly more than two digits:
# it moved every number but 300, which is one of those that it has.
#
# Which numbers of a training run are small? Weights are near 0.02 and activations near 1, in the flat part of
# both. *Gradients* are not: they are divided by the number of tokens in the batch, and multiplied through every layer.

# %% [markdown] id="scaling-idea"
# ## Move the gradients to where the numbers are
#
# If gradients are too small for `float16`, multiply the loss by something large, the **loss scale**, before the
# backward pass. Every gradient then comes out larger by the same factor, and the optimizer divides it away
# again, in `float32`. The larger the scale, the less is lost below. Until the largest gradient becomes infinite.
#
# Nobody knows the right scale beforehand, and it changes while a model learns. So it is found by running into
# the limit: begin far too high; whenever a gradient overflows, **throw the step away** and halve the scale;
# after many good steps in a row, double it. Two numbers say how hasty this is:
#
# - the **window** (`--loss-scale-window`, usually 1000): so many good steps in a row double the scale;
# - the **patience** (`--hysteresis`, 2 here): so many overflows it takes until the scale is halved for the first time,
#   since a single one may be an accident. From then on every overflow halves, until the scale has doubled once.

# %% id="scaling-story"
show.moving.loss_scaling(iterations=12, start_power=16, window=3, patience=2)

# %% [markdown] id="scaling-caption"
# *Gradients by size, and the range that `float16` can hold, while the scale is being found, here from 2¹⁶ on. The
# bars move left by one power of two with each halving and right with each doubling. A bar stands for the number at its middle; yellow: became zero. The marks above count the good
# steps in a row and the patience that is left; so that you see a doubling, the window is 3 instead of 1000.*
#
# **Predict.** The program begins with the scale 2³² = 4294967296, as Megatron-LM does. A run makes 22
# steps. How many of them will be thrown away?

# %% id="scaling-guess"
### BEGIN SOLUTION
### GAP guess_skipped = ...  # your number in place of the dots
guess_skipped = 3
### END SOLUTION


# %% id="scaling-run"
def small(name, precision, **more):
    """One sample per step; two of the last steps are recorded."""
    settings = {"micro_batch": 1, "iterations": 22, "memory": (20, 22), **more}
    return gpt.recipe(name, precision=precision, **settings)


skipped = predict("08: skipped steps of 22", guess_skipped, unit="steps")
half = lab.submit(small("half", "fp16"))
half.watch()

# %% id="scaling-grep"
# !grep "for parameters" "{half.log_file}"
# !grep "iteration " "{half.log_file}" | grep -o "iteration .*" | sed -n '1,3p;16,18p'

# %% [markdown] id="scaling-grep-explain"
# The first line is the sign that half precision is really on; a flag that was forgotten would not say a word. In
# the iteration lines, look at `loss scale`, `number of skipped iterations`, and `lm loss`, which is missing where the
# step was thrown away. The scale is the one *after* the step, with which the next one is made. The learning rate has not moved there either: for the optimizer the step did not happen.

# %% id="scaling-see"
show.loss_scale(half)

# %% id="scaling-count"
steps = half.log.iterations
skipped.compare(half.log.skipped)
print(f"the scale went from {2**32:,} to {steps['loss_scale'].iloc[-1]:,.0f}")

# %% id="scaling-claim" tags=["claim"]
claim("the first steps are skipped", half.log.skipped, least=10, most=20, unit="steps")
late = steps["skipped_iterations"].iloc[-2:].sum()
claim("then none", late, most=0, unit="steps")

# %% [markdown] id="scaling-explain"
# *The scale over the iterations. Crosses mark those that were thrown away.*
#
# **Explain.** Skipped iterations at the beginning of an fp16 run are the search. Each costs a batch of data
# and nearly the time of a step, in which only the optimizer has nothing to do. After the very first the scale was still 2³²: that was the patience of 2.
#
# *Later*, one now and then is the scale trying a higher value. Many in a row, with the scale falling towards 1, mean that
# the gradients themselves have become infinite: training has broken down, and no scale will repair it.

# %% [markdown] id="bf16-idea"
# ## The other sixteen bits
#
# `bfloat16` has the range of `float32`. There is nothing to move into a window. Three runs, the same but for the
# format.
#
# **Predict.** How far will the last loss of the bf16 run, with its two digits, lie from that of fp32: by
# `"less than 0.1 %"`, `"0.1 to 1 %"` or `"more"`?

# %% id="bf16-guess"
### BEGIN SOLUTION
### GAP guess_apart = ...  # one of the three
guess_apart = "0.1 to 1 %"
### END SOLUTION

# %% id="bf16-run"
APART = ("less than 0.1 %", "0.1 to 1 %", "more")
apart = predict("08: last loss of bf16 from that of fp32", guess_apart, choices=APART)
brain = lab.submit(small("brain", "bf16"))
wide = lab.submit(small("wide", "fp32"))
brain.require()
wide.require()
show.loss(wide, brain, half)

# %% id="bf16-see"
lost = {}
for run in (wide, brain, half):
    last = run.log.iterations.iloc[-1]
    lost[run.name] = last["lm_loss"]
    print(
        f"{run.name:6} loss {last['lm_loss']:.4f}   scale {last['loss_scale']:,.0f}"
        f"   skipped {run.log.skipped}"
    )
percent = 100 * abs(lost["brain"] / lost["wide"] - 1)
apart.compare(APART[0] if percent < 0.1 else APART[1] if percent < 1 else APART[2])

# %% id="bf16-claim" tags=["claim"]
claim("bf16 needs no loss scale and skips nothing", brain.log.skipped, most=0, unit="steps")
claim("and ends where fp32 ends: losses apart by", percent, most=0.5, unit="%")

# %% [markdown] id="bf16-explain"
# *Loss of the three runs over the iterations. Where the fp16 run threw steps away it has no loss.*
#
# The curves of fp32 and bf16 lie on each other, so that you may see only one. The fp16 run begins where the others
# began, later by as many steps as it threw away. So `bfloat16` is the usual choice wherever the hardware has it; you will
# still meet loss scales on older GPUs: a V100 has only `float16`.

# %% [markdown] id="master-idea"
# ## Why there is still a copy with 32 bits
#
# Two digits are enough for the arithmetic of a step: inside one matrix product the hardware adds up in `float32`, and
# rounds the sum once. They are not enough for the *sum* of many steps, which is rounded each time.
#
# **Predict.** A weight of 1, kept in `bfloat16`, makes 100 steps of −0.0002. Then it makes 100 steps of −0.003, from 1
# again. How far from 1 does it end, each time? (With enough digits: 0.02, and 0.3.)

# %% id="master-guess"
### BEGIN SOLUTION
### GAP guess_after_small, guess_after_large = ..., ...
guess_after_small, guess_after_large = 0.02, 0.3
### END SOLUTION

# %% id="master-see"
ending = {
    0.0002: predict("08: far from 1 after 100 steps of 0.0002 in bf16", guess_after_small),
    0.003: predict("08: far from 1 after 100 steps of 0.003 in bf16", guess_after_large),
}


def stepped(kind, step):
    weight = torch.tensor(1.0, dtype=kind)
    for _ in range(100):
        weight -= step
    return weight.item()


ends = pd.DataFrame(
    {
        f"steps of {size}": {name: stepped(kind, size) for name, kind in formats.items()}
        for size in ending
    }
)
for size, guessed in ending.items():
    guessed.compare(1 - ends.loc["bfloat16", f"steps of {size}"])
ends.round(4)

# %% id="master-claim" tags=["claim"]
small_steps, large_steps = ends.loc["bfloat16"]
claim("steps below half a gap do not move a bf16 weight", small_steps == 1)
claim("larger ones move it by whole gaps: 0.7 is missed by", 0.7 - large_steps, least=0.05)

# %% [markdown] id="master-explain"
# **Explain.** Below 1 the numbers of `bfloat16` lie 0.0039 apart. A step of 0.0002 is less than half of that, so it is
# rounded back to where it came from, a hundred times. A step of 0.003 is more than half of it, so each is rounded *up*
# to 0.0039, and the weight goes too far.
#
# So a training without a wider copy does not fail at once. As the learning rate falls, one weight after the other has
# steps below half its gap, and stops: learning *stalls*. Adam's steps are about as large as the learning rate; a weight
# of 0.02 in `bfloat16` has gaps of 0.0001. Therefore the optimizer keeps its own copy of all weights in `float32`, the
# **master weights**, makes its step there, and hands a rounded copy to the model. Hence the name: *mixed* precision.
#
# There is a way without: round at random, up or down with the chances that make the mean right (*stochastic rounding*).
# No step is lost then, on average, and no copy is needed:


# %% id="master-random"
def rounded_at_random(wide):
    """To one of the two neighbours in bfloat16, which are the upper 16 bits of a float32."""
    bits = wide.view(torch.int32) + torch.randint_like(wide.view(torch.int32), 2**16)
    return (bits & -(2**16)).view(torch.float32)


torch.manual_seed(0)
weights = torch.ones(1000)
for _ in range(100):
    weights = rounded_at_random(weights - 0.0002)
print(f"1000 weights after 100 steps of 0.0002: {weights.mean():.4f} ± {weights.std():.4f}")

# %% id="master-random-claim" tags=["claim"]
claim("rounded at random the mean is right", weights.mean(), least=0.978, most=0.982)

# %% [markdown] id="auto-idea"
# ## The same by hand, in PyTorch
#
# The course's program does what Megatron-LM does: the model *is* in 16 bits, and the optimizer has the copy with 32.
# In most other programs you will meet the reverse, `torch.autocast`: the model stays in `float32`, and each operation
# that gains by it gets rounded copies of what it is given. `GradScaler` is the loss scale. Both fit into ten lines,
# and run on any device:

# %% id="auto-run"
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
optimizer = torch.optim.AdamW(net.parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26)
x = torch.randn(32, 64)
for step in range(1, 11):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        out = net(x)
        loss = nn.functional.mse_loss(out.float(), x)
    used = scaler.get_scale()
    scaler.scale(loss).backward()
    scaler.step(optimizer)  # divides the gradients; makes no step where one of them is infinite
    scaler.update()
    skipped_it = scaler.get_scale() < used
    print(f"step {step:2}: scale 2^{math.log2(used):.0f}", end="  ")
    print("thrown away" if skipped_it else f"loss {loss:.4f}")
kinds = {"weight": net[0].weight, "product": out, "gradient": net[0].weight.grad}
print({name: str(one.dtype).removeprefix("torch.") for name, one in kinds.items()})

# %% id="auto-claim" tags=["claim"]
claim("autocast leaves the weights wide", net[0].weight.dtype == torch.float32)
claim("and makes products narrow", out.dtype == torch.float16)

# %% [markdown] id="auto-explain"
# **Explain.** The weights *are* the master weights here, and so no small step is rounded away. The price: every forward pass makes a
# rounded copy of each weight, and its gradient comes back in `float32`. Which operations run in 16 bits is a list inside PyTorch:
# matrix products do, losses stay wide. On GPUs norms and softmax do so, too; on processors they take what comes. (`GradScaler` has no patience, and begins at 2¹⁶: here it was
# told to begin too high, so that you see it search. With `bfloat16` leave it out.)

# %% [markdown] id="speed-idea"
# ## Is it faster?
#
# **Predict.** By what factor does a step of the bf16 run become faster (or slower, below 1) than the one with 32 bits,
# on the device that you have in front of you? And a step of the fp16 run?

# %% id="speed-guess"
### BEGIN SOLUTION
### GAP guess_speedup_bf16, guess_speedup_fp16 = ..., ...
guess_speedup_bf16, guess_speedup_fp16 = 2.0, 2.0
### END SOLUTION

# %% id="speed-see"
faster = {
    "bf16": predict("08: speed-up by bf16", guess_speedup_bf16, unit="times"),
    "fp16": predict("08: speed-up by fp16", guess_speedup_fp16, unit="times"),
}


def step_ms(run):
    """Median over whole steps; the first of them takes longer, as it makes Adam's moments."""
    whole = run.log.iterations.query("skipped_iterations == 0")
    return float(whole["elapsed_ms"].iloc[1:].median())


gains = {name: step_ms(wide) / step_ms(run) for name, run in {"bf16": brain, "fp16": half}.items()}
for name, guessed in faster.items():
    guessed.compare(gains[name])
show.throughput(wide, brain, half, unit="ms")

# %% [markdown] id="speed-explain"
# *Time of each iteration of the three runs.* The factors are those of whole steps; the skipped ones
# lack the step of the optimizer, and at the end of the last iteration the record of memory is written. What yours says:

# %% id="speed-said"
for name, gain in gains.items():
    print(f"{name}, × {gain:.2f}:", end=" ")
    if gain > 1.2:
        print("your device has units that multiply its numbers.")
    elif gain > 0.8:
        print("about as fast as float32. Either its arithmetic is hardly quicker here, or")
        print("  a model as small as this one spends its step on other things.")
    else:
        print("slower than float32. Either your device has no units for these numbers and widens")
        print("  each of them, or its products are too small to repay the conversions.")

# %% [markdown] id="speed-published"
# **Explain.** It is the hardware that decides, and it decides for each format. A GPU's Tensor Cores multiply both
# formats, those of a V100 only `float16`. Some processors have instructions for `bfloat16` and none for `float16`, others
# have neither. (Linux tells: `grep -oE '(amx|avx512)_(bf16|fp16)' /proc/cpuinfo | sort -u`; on Arm the names are `bf16` and `asimdhp`.)
#
# Two published cases: the lab after which this course is modelled (12 layers of width 768, 2 nodes with 2 V100 each) went
# from 537 to about 315 ms per iteration with fp16, though Tensor Cores took part in only 23.6 % of its *kernels* (the
# programs that a GPU runs). A weather model (a vision transformer, on one GPU with 40 GB) went from 10.1 samples per second
# in pure `float32` to 53.4 with fp16 by `autocast`. Half as many bytes to move help, too, even where the arithmetic does not.
#
# Ask what "pure" means when you read such a number. Since the A100 there is **TF32**: numbers are stored with 32 bits,
# and a matrix product rounds what it reads to 10 bits of digits (as `float16` has) and keeps all 8 of the power. An A100
# does 19.5 TFLOP/s (one is 10¹² additions or multiplications a second) in `float32`, 156 in TF32 and 312 in 16 bits. So "fp32 on an A100" is one of two things,
# eight times apart, and `torch.set_float32_matmul_precision("high")` switches between them. (PyTorch's default is the slow
# one, for matrix products; for convolutions it is TF32.) The 10.1 above are with TF32 switched off.

# %% [markdown] id="memory-idea"
# ## Does it need less memory?
#
# **Predict.** Half the bits, half the memory? What will the peak of the bf16 run be, if that of the fp32 run is
# 100 %?

# %% id="memory-guess"
### BEGIN SOLUTION
### GAP guess_percent = ...  # your number in place of the dots
guess_percent = 50
### END SOLUTION

# %% id="memory-see"
peak_of = predict("08: peak of bf16, of that of fp32", guess_percent, unit="%")
runs = {"fp32": wide, "bf16": brain, "fp16": half}
peaks = {name: run.memory[0].peak_composition for name, run in runs.items()}
show.memory_kinds(peaks)

# %% id="memory-table"
total = {name: sum(parts.values()) for name, parts in peaks.items()}
half_of = 100 * total["bf16"] / total["fp32"]
peak_of.compare(half_of)
per_parameter = pd.DataFrame(peaks) / wide.log.parameter_count
print("bytes for every parameter, at the peak:")
per_parameter.loc[["parameters", "gradients", "optimizer", "temporary"]].round(1)

# %% id="memory-claim" tags=["claim"]
claim("bf16 does not halve the memory: its peak, of that of fp32", half_of, least=75, unit="%")
stands = per_parameter.loc[["parameters", "gradients", "optimizer"], "bf16"].sum()
claim("bf16 stands on 18 bytes per parameter", stands, least=17.9, most=18.1, unit="bytes")

# %% [markdown] id="memory-explain"
# *(Above: what the fullest moment of each of the three runs consists of.)*
#
# **Explain.** What every parameter takes, apart from activations, in bytes:
#
# | | weights | gradients | master weights | wide gradients | Adam's moments | together |
# |---|---|---|---|---|---|---|
# | fp16, at the step | 2 | 2 | 4 | 4 | 8 | **20** |
# | bf16, gradients in float32 | 2 | 4 | 4 | – | 8 | **18** |
# | fp32; `autocast` | 4 | 4 | – | – | 8 | **16** |
# | fp16, between steps | 2 | 2 | 4 | – | 8 | **16** |
# | bf16 without masters, rounded at random | 2 | 2 | – | – | 8 | **12** |
# | all in bf16 | 2 | 2 | – | – | 4 | **8** |
#
# In fp32 the weights are their own master copy. With bf16 the gradients keep 32 bits, because they are sums of many terms
# (lesson 10). With fp16 they have 16, and the optimizer, which cannot step with them, makes wide copies: for the time of
# the step, as the course's program does, or for good, as Megatron-LM counts it. (*Moments*: Adam's running means of the
# gradient and of its square. They too can be kept in fewer bits, in bf16 or in 8 bits with a scale for each block.)
#
# So the floor of lesson 06 does not shrink with bf16, it grows by an eighth. What stands on the floor should halve. Look at
# all three runs over their steps:

# %% id="memory-time"
show.memory_compare({name: run.memory for name, run in runs.items()}, by="share")

# %% [markdown] id="memory-time-explain"
# *Memory of the three runs over two steps. All are drawn equally wide, however long they took. Dotted: the peak of each.*
#
# The curves begin at the floor. The stairs of the forward pass are the layers: with 16 bits each is about half as high as
# with 32. The block at the end is the loss. It is still computed in `float32`,
# because a sum over the whole vocabulary needs the digits, so the logits stay with 32 bits; and where they are made, and
# where their gradient is handed back to the layers, they exist with 16 bits **as well**. In a model that is narrow and
# knows many words, like this one, that costs as much as the layers save. In a deep and wide one the layers win by far.
#
# Two spikes are left. That of bf16 in the backward pass: the gradient of the largest matrix, that of the
# vocabulary, is made with 16 bits, and widened before it is added to the sum. (A kernel that adds in place, as
# Megatron-LM's, needs neither copy.) That of fp16 at the end of each step: those are the wide copies of the gradients, 4 bytes
# for every parameter, which come with the optimizer's step and go with it.

# %% id="memory-spike"
line = half.memory[0]
held_bytes = pd.Series(line.bytes_by_category.sum(axis=1), index=line.time_us)
at_step = line.phases.query("phase == 'optimizer'").iloc[-1]
rises = held_bytes[at_step["begin_us"] : at_step["end_us"]]
spike = (rises.max() - rises.iloc[0]) / half.log.parameter_count
print(f"fp16 rises by {spike:.1f} bytes for every parameter within the step of the optimizer")

# %% id="memory-spike-claim" tags=["claim"]
claim("the spike of fp16 is its wide gradients", spike, least=3.6, most=4.4, unit="bytes")

# %% [markdown] id="memory-published"
# Published: the same lab, 12 layers of width 768 on V100, needed about 10 GB in `float32` and about **12 GB** in
# fp16. Master weights and rounded copies are the reason that is usually given. Do the sum before you believe it: even 4
# more bytes for each of 124 million parameters are 0.5 GB, and some activations were halved. So most of the rise must come
# from elsewhere, such as copies in both formats or memory that the allocator holds in reserve; what was published does not
# tell.

# %% [markdown] id="eight-idea"
# ## Eight bits
#
# Since the H100 devices multiply floating-point numbers of 8 bits too, twice as fast as those of 16. (With integers of 8 bits
# older ones do as well.) Eight bits can be spent in two ways
# again, and both are used: **E4M3** (4 bits for the power, 3 for the digits) for weights and activations, **E5M2** for
# gradients, which need the range.

# %% id="eight-formats"
eight = {"E4M3": torch.float8_e4m3fn, "E5M2": torch.float8_e5m2}
show.number_formats({name: torch.finfo(kind) for name, kind in (formats | eight).items()})

# %% [markdown] id="eight-scale-idea"
# *As above, with the two formats of 8 bits.*
#
# E4M3 covers less than six powers of ten, and the best of it is a rounding by 6 %. One loss scale for the whole model is
# not enough here: **every tensor gets a scale of its own**, chosen so that its largest number just fits. One outlier
# decides then what happens to all the others.
#
# **Predict.** 4096 ordinary numbers (normal, of size 1), and one of them is replaced by 100 000. With one scale for all of
# them, how many percent of the others become zero in E4M3? And if each block of 128 has its own scale?

# %% id="eight-guess"
### BEGIN SOLUTION
### GAP guess_lost_by_tensor, guess_lost_by_block = ..., ...  # percent
guess_lost_by_tensor, guess_lost_by_block = 100, 3
### END SOLUTION

# %% id="eight-see"
losing = {
    "one scale": predict("08: zero in E4M3, one scale", guess_lost_by_tensor, unit="%"),
    "blocks of 128": predict("08: zero in E4M3, scale per block", guess_lost_by_block, unit="%"),
}
torch.manual_seed(0)
values = torch.randn(32, 128)
values[0, 0] = 1e5
largest = {"one scale": values.abs().max(), "blocks of 128": values.abs().amax(1, keepdim=True)}
rows = {}
for name, most in largest.items():
    scale = torch.finfo(torch.float8_e4m3fn).max / most
    back = (values * scale).to(torch.float8_e4m3fn).float() / scale
    others = values.abs() < 1e5
    error = (back[others] / values[others] - 1).abs()
    rows[name] = {
        "become zero (%)": 100 * (back[others] == 0).float().mean().item(),
        "median error (%)": 100 * error.median().item(),
    }
for name, guessed in losing.items():
    guessed.compare(rows[name]["become zero (%)"])
pd.DataFrame(rows).T.round(2)

# %% id="eight-claim" tags=["claim"]
zero = {name: row["become zero (%)"] for name, row in rows.items()}
claim("one outlier erases others", zero["one scale"], least=10, most=30, unit="%")
claim("but only those of its block", zero["blocks of 128"], most=1, unit="%")

# %% [markdown] id="eight-explain"
# **Explain.** The outlier takes the top of the range, and the rest lies five powers of ten below, on the slope at the left
# of the curve. With a scale for each block it spoils its own block alone. So recipes differ in how far a scale reaches: one
# for each tensor, taken from its largest number in the steps before (the first recipes for the H100); one for each block of
# 128 numbers, with which E4M3 does for gradients as well (published for DeepSeek-V3, arXiv 2412.19437); one for each 32,
# in hardware (the format MXFP8).
#
# Everything else of this lesson stays as it was: 8 bits are for what the matrix products *read*. Their sums are kept in
# more, norms and softmax in 16 or 32 bits, and the master weights in 32. Hence little memory is saved, and at most half of
# the time of the products.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 08.1** — Every step of the search was a batch thrown away. Repeat the fp16 run so that **no**
# > iteration is skipped, with a loss scale that can still move by itself, up and down, and is large enough to save
# > small gradients: at least 2⁸ = 256. Fill the gap. (The scale at which `half` ended is in its log. A lower one is
# > safe against overflow; but with every power of two less, more small gradients vanish.)

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP settled = lab.submit(
### GAP     small("settled", "fp16", initial_loss_scale=..., iterations=5, memory=False)
### GAP )
settled = lab.submit(small("settled", "fp16", initial_loss_scale=2**14, iterations=5, memory=False))
### END SOLUTION
settled.wait()

# %% id="ex1-check" tags=["check"]
check.ex08_settled(settled)

# %% [markdown] id="ex1-why" tags=["solution"]
# The scale at which the search ended was just low enough for the batch of that moment, and the next batch may have larger
# gradients. So one begins a few powers of two below it. (PyTorch's own scaler begins at 2¹⁶, whatever the model is.)

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 08.2** — Of an fp16 run on GPUs that was published one reads that the loss scale "starts at 8388608" and that the
# > first 10 iterations are skipped. Its log has one line for every 10 iterations. Suppose that the number was read from the
# > first of these lines, and that the program had the same patience as yours. At which scale did the run really start?

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP started_at = ...
halvings = 10 - 1  # patience of 2: the first overflow does not halve
started_at = 8388608 * 2**halvings
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex08_started_at(started_at)

# %% [markdown] id="ex2-why" tags=["solution"]
# 8388608 is 2²³. Ten skipped steps are nine halvings, since the first overflow only used up the patience. So it
# began at 2³², the default of Megatron-LM and of `half`, whose own tenth line has the same number. A log that
# prints every tenth step shows the state *after* ten steps; whoever takes its first line for the beginning is
# wrong by a factor of 512.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — In this model, with one sample per step, bf16 needs more memory than fp32. From how many samples on
# > does it need less? What does one more sample add in either? Estimate it from the bars above (of the temporary memory of
# > bf16, 6 MiB belong to the largest matrix, 2 + 4 bytes for each of its numbers; the rest, the logits with 16 bits above
# > all, belongs to the sample; so does the thin temporary piece of fp32, about 0.12 MiB). The two lines are nearly
# > parallel: a hundredth of a MiB per sample moves the answer by several samples. Then find out:
# > `small("many", "bf16", micro_batch=…)`, against fp32.

# %% [markdown] id="home"
# ## To take home
#
# - `float16` lacks range, `bfloat16` lacks digits. The first needs a loss scale, the second does not. Eight bits lack both:
#   every tensor, or every block, has a scale of its own.
# - Skipped iterations at the start of an fp16 run are the search for the scale. Later, in a row, they are a
#   breakdown.
# - Steps are made on weights with 32 bits, because small steps would be rounded away: a copy in the optimizer
#   (Megatron-LM), or the model itself (`autocast`).
# - It is fast where the hardware has units for it, for this format. "fp32" may mean TF32.
# - Per parameter it saves nothing: 20, 18 or 16 bytes. What shrinks is what the layers keep.

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean(half, brain, wide, settled, yes=True)
