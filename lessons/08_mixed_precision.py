# %% [markdown] id="title"
# # 08 Mixed precision
#
# A number with 32 bits costs twice the memory, twice the traffic and, on most accelerators, many times the
# arithmetic of one with 16 bits. So train with 16. It is not quite as easy as it sounds: some numbers vanish, some
# steps do nothing, and the memory may even grow. This lesson shows each of these on a real run, and what
# people do about it.
#
# | | |
# |---|---|
# | You will be able to | say what the two 16-bit formats can hold and what they lose; read the loss scale and the skipped iterations in a log; say why there is still a copy with 32 bits; predict what mixed precision does to speed and memory, and check it |
# | Minutes | 40 |
# | Devices | 1 |
# | Before | lessons 03 and 06 |

# %% id="begin"
import pandas as pd
import torch

from course_lib import Lab, check, claim, gpt, show

lab = Lab()

# %% [markdown] id="formats-idea"
# ## Sixteen bits, two ways to spend them
#
# A floating-point number is written like 1.0110 × 2⁵. Some bits hold the power of two: they decide how large and
# how small a number may be. The rest hold the digits: they decide how close two numbers may lie and still be
# told apart.
#
# | format | bits for the power | bits for the digits |
# |---|---|---|
# | `float32` | 8 | 23 |
# | `float16`, "fp16" | 5 | 10 |
# | `bfloat16`, "bf16" | 8 | 7 |
#
# (One bit more holds the sign.)
#
# **Predict.** Here are five numbers: 0.00000002, 0.0001, 1.001, 300 and 70 000. Which of them does `float16`
# spoil, that is, turn into zero, into infinity or into a visibly different number, and which does `bfloat16`?

# %% id="formats-guess"
guess_spoiled_by_float16 = ["1.001"]  # change them to your own guesses
guess_spoiled_by_bfloat16 = ["1.001", "300"]

# %% id="formats-see"
numbers = {"0.00000002": 2e-8, "0.0001": 1e-4, "1.001": 1.001, "300": 300.0, "70 000": 70_000.0}
formats = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def as_held(kind):
    """The numbers as this format holds them."""
    return torch.tensor(list(numbers.values())).to(kind).double().tolist()


held = pd.DataFrame({name: as_held(kind) for name, kind in formats.items()}, index=numbers)
print("your guesses:", guess_spoiled_by_float16, "and", guess_spoiled_by_bfloat16)
held.map("{:.5g}".format)

# %% id="formats-limits"
limits = {
    name: {
        "largest": torch.finfo(kind).max,
        "smallest": torch.finfo(kind).smallest_normal * torch.finfo(kind).eps,
        "next after 1": 1 + torch.finfo(kind).eps,
    }
    for name, kind in formats.items()
}
pd.DataFrame(limits).map("{:.9g}".format)

# %% [markdown] id="formats-explain"
# **Explain.** The likely wrong thought is that 16 bits are "half as precise". `float16` has three digits, which
# is plenty for most of training. What it lacks is **range**: the smallest of the five became zero, the largest
# infinite. `bfloat16` made the opposite choice. It has the range of `float32`, and hardly more than two digits:
# 1.001 became 1, and 70 000 was moved to the nearest number that there is. (300 is one of those.)
#
# Which numbers of a training run are that small? Weights and activations are mostly of the order of 1. *Gradients*
# are not: they are divided by the number of tokens in the batch, and multiplied through every layer.

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
#   since a single one may be an accident. From then on every overflow halves, until the scale has doubled once:
#   then the patience is as at first.

# %% id="scaling-story"
show.moving.loss_scaling(iterations=12, start_power=16, window=3, patience=2)

# %% [markdown] id="scaling-caption"
# *Gradients by size, and the range that `float16` can hold, while the scale is being found, here from 2¹⁶ on. The
# bars move left by one power of two with each halving and right with each doubling. The marks above count the good
# steps in a row and the patience that is left; so that you see a doubling, the window is 3 instead of 1000.*
#
# **Predict.** The program begins with the scale 2³² = 4294967296, as Megatron-LM does. The run below makes 24
# steps. How many of them will be thrown away?

# %% id="scaling-guess"
guess_skipped = 3  # change it to your own guess


# %% id="scaling-run"
def small(name, precision, **more):
    return gpt.recipe(
        name, precision=precision, micro_batch=2, iterations=24, memory=(20, 22), **more
    )


half = lab.submit(small("half", "fp16"))
half.watch()

# %% id="scaling-grep"
# !grep "for parameters" {half.log_file}
# !grep "iteration " {half.log_file} | sed -n '1,3p;16,18p'

# %% [markdown] id="scaling-grep-explain"
# The first line is the sign that half precision is really on; a flag that was forgotten would not say a word. In
# the iteration lines, look at three fields: `loss scale`, `number of skipped iterations`, and `lm loss`, which
# is missing where the step was thrown away. The learning rate of such a line has not moved either: for the
# optimizer the step did not happen.

# %% id="scaling-see"
show.loss_scale(half)

# %% id="scaling-count"
steps = half.log.iterations
print(f"you guessed {guess_skipped} skipped steps, there were {half.log.skipped}")
print(f"the scale went from {2**32:,} to {steps['loss_scale'].iloc[-1]:,.0f}")

# %% id="scaling-claim" tags=["claim"]
claim("the first steps are skipped, then none", half.log.skipped, least=10, most=23, unit="steps")

# %% [markdown] id="scaling-explain"
# *The scale over the iterations. Crosses mark those that were thrown away.*
#
# **Explain.** Skipped iterations at the beginning of an fp16 run are no error, they are the search. Each costs a
# full step of time and a batch of data. Look at the very first: it was skipped, and the scale stayed. That was the
# patience of 2; from the second overflow on every one halved. (A window of 1000 good steps is more than this run
# has, so you do not see the scale rise again.)
#
# Skipped iterations *later* are something else. One now and then is the scale trying a higher value. Many in a
# row, with the scale falling towards 1, mean that the gradients themselves have become infinite: training has
# broken down, and no scale will repair it.

# %% [markdown] id="bf16-idea"
# ## The other sixteen bits
#
# `bfloat16` has the range of `float32`. There is nothing to move into a window. Three runs, the same but for the
# format:

# %% id="bf16-run"
brain = lab.submit(small("brain", "bf16"))
wide = lab.submit(small("wide", "fp32"))
brain.require()
wide.require()
show.loss(wide, brain, half)

# %% id="bf16-see"
for run in (wide, brain, half):
    last = run.log.iterations.iloc[-1]
    print(
        f"{run.name:6} loss {last['lm_loss']:.4f}   scale {last['loss_scale']:,.0f}"
        f"   skipped {run.log.skipped}"
    )

# %% id="bf16-claim" tags=["claim"]
claim("bf16 needs no loss scale and skips nothing", brain.log.skipped, most=0, unit="steps")

# %% [markdown] id="bf16-explain"
# *Loss of the three runs over the iterations. Where the fp16 run threw steps away it has no loss.*
#
# The curves of fp32 and bf16 lie on each other, so that you may see only one, though the second computes with
# two digits. The fp16 run begins where the others began, later by as many steps as it threw away. That is why
# `bfloat16` is the usual choice wherever the hardware has it, and why you will still meet loss scales on older
# GPUs, which do not: a V100 has only `float16`.

# %% [markdown] id="master-idea"
# ## Why there is still a copy with 32 bits
#
# Two digits are enough for the arithmetic of a step. They are not enough for the *sum* of many steps. A weight
# of 1 and a step of 0.0002:

# %% id="master-see"
for name, kind in formats.items():
    weight = torch.tensor(1.0, dtype=kind)
    for _ in range(100):
        weight -= 0.0002
    print(f"{name:10} {weight.item():.5f}")

# %% [markdown] id="master-explain"
# **Explain.** 100 × 0.0002 is 0.02, so 0.98 is right. In 16 bits even the nearest neighbour of 1 is more than
# twice as far away as 0.0002. So every single step is rounded back to where it came from, and the weight never
# moves. Training seems to work, and learns nothing. So the optimizer keeps its own copy of all weights in
# `float32`, the **master weights**, makes its step there, and hands a rounded copy to the model. Hence the name:
# *mixed* precision.

# %% [markdown] id="speed-idea"
# ## Is it faster?
#
# **Predict.** By what factor does a step of the two 16-bit runs become faster (or slower) than the one with 32
# bits, on the device that you have in front of you?

# %% id="speed-guess"
guess_speedup_bf16, guess_speedup_fp16 = 2.0, 2.0  # change them to your own guesses


# %% id="speed-see"
def step_ms(run):
    """Median over whole steps; the first of them takes longer, as it makes Adam's means."""
    whole = run.log.iterations.query("skipped_iterations == 0")
    return float(whole["elapsed_ms"].iloc[1:].median())


guesses = {"bf16": guess_speedup_bf16, "fp16": guess_speedup_fp16}
for name, run in {"bf16": brain, "fp16": half}.items():
    print(
        f"{name}: {step_ms(wide):.0f} ms -> {step_ms(run):.0f} ms, "
        f"× {step_ms(wide) / step_ms(run):.2f} (you guessed {guesses[name]})"
    )
show.throughput(wide, brain, half, unit="ms")

# %% [markdown] id="speed-explain"
# *Time of each iteration of the three runs.*
#
# **Explain.** Both outcomes are right, on different hardware.
#
# *Faster*, if the device has units that multiply 16-bit numbers: the Tensor Cores of a GPU, or the matrix units
# of some newer processors. Two published cases: the lab after which this course is modelled (12 layers of width
# 768, 2 nodes with 2 V100 each) went from 537 to about 315 ms per iteration with fp16, though Tensor Cores took
# part in only 23.6 % of its *kernels* (the programs that a GPU runs). A weather model (a vision transformer, on
# one GPU with 40 GB) went from 10.1 samples per second in pure `float32` to 53.4. Half as many bytes to move
# help, too, even where the arithmetic does not.
#
# *Slower*, if it has none. Many processors can store a 16-bit number and cannot compute with it: each is widened
# to 32 bits, multiplied, and rounded back, again and again. If that is your device, you have learnt something that
# holds for every trick in this course: it is fast where the hardware was built for it.

# %% [markdown] id="memory-idea"
# ## Does it need less memory?
#
# **Predict.** Half the bits, half the memory? What will the peak of the bf16 run be, if that of the fp32 run is
# 100 %?

# %% id="memory-guess"
guess_percent = 50  # change it to your own guess

# %% id="memory-see"
runs = {"fp32": wide, "bf16": brain, "fp16": half}
peaks = {name: run.memory[0].peak_composition for name, run in runs.items()}
show.memory_kinds(peaks)

# %% id="memory-table"
per_parameter = pd.DataFrame(peaks) / wide.log.parameter_count
print("bytes for every parameter:")
print(per_parameter.loc[["parameters", "gradients", "optimizer"]].round(1).to_string(), "\n")
total = {name: sum(parts.values()) for name, parts in peaks.items()}
print(
    f"peak of bf16: {100 * total['bf16'] / total['fp32']:.0f} % of that of fp32, "
    f"you guessed {guess_percent} %"
)

# %% id="memory-claim" tags=["claim"]
half_of = 100 * total["bf16"] / total["fp32"]
claim("bf16 does not halve the memory: its peak, of that of fp32", half_of, least=75, unit="%")

# %% [markdown] id="memory-explain"
# *(Above: what the fullest moment of each of the three runs consists of.)*
#
# **Explain.** For every parameter:
#
# | bytes | fp32 | fp16 | bf16 |
# |---|---|---|---|
# | parameters | 4 | 2 | 2 |
# | gradients | 4 | 2 | 4 |
# | Adam's two means | 8 | 8 | 8 |
# | master weights | – | 4 | 4 |
# | together | 16 | 16 | **18** |
#
# In fp32 the weights are their own master copy. With bf16 the gradients keep 32 bits, because they are sums of
# many terms, and in a sum with two digits the small ones would be lost.
#
# So the floor of lesson 06 does not shrink at all, and with bf16 it grows. What stands on the floor should
# halve. Look at all three runs over time, one over the other:

# %% id="memory-time"
show.memory_compare({name: run.memory for name, run in runs.items()})

# %% [markdown] id="memory-time-explain"
# *Memory of the three runs over two steps, each from its own beginning. How long the steps took can be read from the
# time axis, as in the figure above; while memory is recorded they take longer. (`show.memory(brain.memory[0])` draws
# one run by kind.)*
#
# Compare first where the curves begin, which is the floor, then how high each stair is that they climb. The stairs of
# the forward pass are the layers, and with 16 bits each is about half as high as with 32. The block at the end is the
# loss. It is still computed in
# `float32`, because a sum over the whole vocabulary needs the digits, so the logits stay with 32 bits; and where
# they are made, and where their gradient is handed back to the layers, they exist with 16 bits **as well**. In a
# model that is narrow and knows many words, like this one, that can cost more than the layers save. In a deep
# and wide one the layers win by far.
#
# Published: the same lab, 12 layers of width 768 on V100, needed about 10 GB in `float32` and about **12 GB** in
# fp16. Master weights and rounded copies are the reason that is usually given. Do the sum before you believe it:
# 4 + 2 bytes for each of 124 million parameters are 0.7 GB, and some activations were halved. So most of the
# rise must come from elsewhere, such as copies in both formats or memory that the allocator holds in reserve;
# what was published does not tell. A cause that explains the direction must also have the size.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 08.1** — Every step of the search was a batch thrown away. Repeat the fp16 run so that **no**
# > iteration is skipped, with a loss scale that can still move by itself, up and down, and is large enough to save
# > small gradients: at least 2⁸ = 256. Fill the gap. (The scale at which `half` ended is in its log. A lower one is
# > safe against overflow; but with every power of two less, more small gradients vanish.)

# %% id="ex1-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP settled = lab.submit(small("settled", "fp16", initial_loss_scale=...))
settled = lab.submit(small("settled", "fp16", initial_loss_scale=2**14))
### END SOLUTION
settled.wait()

# %% id="ex1-check" tags=["check"]
check.ex08_settled(settled)

# %% [markdown] id="ex1-why" tags=["solution"]
# The scale at which the search ended was just low enough for the batch of that moment, and the next batch may
# have larger gradients. So one begins a few powers of two below it: 2¹⁶ is where PyTorch's own scaler begins.
# From there the scale finds its way upwards by itself, when it has been good for long enough
# (`--loss-scale-window`).

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 08.2** — Of the fp16 run of the original lab it is told that the loss scale "starts at 8388608"
# > and that the first 10 iterations are skipped. Its log has one line for every 10 iterations. Suppose that the
# > number was read from the first of these lines, and that the program had the same patience as yours. At which
# > scale did the run really start?

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
# > **For the quick** — In this model, with 4 layers, bf16 hardly saves memory, or costs some. Each further layer
# > adds to the part that halves. From how many layers on does bf16 need less than fp32? Estimate it from the
# > bars above (four layers keep about half of what fp32 calls activations), then find out:
# > `small("deep", "bf16", num_layers=…)`.

# %% [markdown] id="home"
# ## To take home
#
# - `float16` lacks range, `bfloat16` lacks digits. The first needs a loss scale, the second does not.
# - Skipped iterations at the start of an fp16 run are the search for the scale. Later, in a row, they are a
#   breakdown.
# - Steps are made on master weights with 32 bits, because small steps would be rounded away.
# - It is fast where the hardware has units for it; elsewhere it may be slower than 32 bits.
# - Per parameter it saves nothing: 16 bytes, or 18. What shrinks is what the layers keep, and that is most of the
#   memory only in large models.

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean(half, brain, wide, settled, yes=True)
