# %% [markdown] id="title"
# # 08 Mixed precision
#
# A 16-bit number takes half the memory and traffic of a 32-bit number, and most accelerators compute with it many
# times faster. But some gradients become zero, some steps are skipped, and the memory may even grow. This lesson
# shows each effect in a real run and ends with 8 bits.
#
# | | |
# |---|---|
# | You will be able to | say what formats of 16 and 8 bits can represent; read the loss scale and the skipped iterations in a log; explain why the optimizer keeps a 32-bit copy of the weights; explain how `autocast` and Megatron-LM differ; predict what mixed precision does to memory |
# | Minutes | 50 |
# | Devices | 1 |
# | Before | lessons 03 and 06 |

# %% id="begin"
import math

import pandas as pd
import torch
from torch import nn

from course_lib import Lab, check, claim, gpt, predict, show, trial

lab = Lab()

# %% [markdown] id="formats-idea"
# ## Which numbers can sixteen bits represent?
#
# A floating-point number is written like 1.0110 × 2⁵. The **exponent** is the power of two. Its bits decide how large
# or small a number can be. The **mantissa** holds the digits. Its bits decide how close two numbers can be.
#
# | format | exponent bits | mantissa bits | in all, with the sign |
# |---|---|---|---|
# | `float32` | 8 | 23 | 32 |
# | `float16`, "fp16" | 5 | 10 | 16 |
# | `bfloat16`, "bf16" | 8 | 7 | 16 |
#
# With 5 exponent bits, numbers reach from 0.00000006 to 65 504. With 8 bits, they reach from about 10⁻³⁸ to 10³⁸.
# Rounding to m mantissa bits moves a number by at most half of 2⁻ᵐ, relative to its size. This is 0.049 % for
# `float16` and 0.39 % for `bfloat16`. A number that fits into the mantissa does not move.
#
# **Predict.** A format *spoils* a number if it moves the number by more than 0.05 %. Which of the numbers 0.00000002,
# 0.0001, 1.001, 300 and 70 000 does `float16` spoil, and which does `bfloat16` spoil?

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
    "float16": predict(
        "08: numbers that float16 spoils",
        guess_spoiled_by_float16,
        choices=list(numbers),
        several=True,
    ),
    "bfloat16": predict(
        "08: numbers that bfloat16 spoils",
        guess_spoiled_by_bfloat16,
        choices=list(numbers),
        several=True,
    ),
}


def as_held(kind):
    """Return the numbers as this format stores them."""
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
# *The figure shows by what percentage rounding can move a number of a given size. On the right, a curve rises to
# "lost" at the largest number of its format. On the left, it rises below the smallest exponent, because these
# **subnormal** numbers have fewer mantissa bits.*
#
# **Explain.** `float16` lacks **range**. The smallest number became zero (**underflow**), and the largest became
# infinite (**overflow**). `bfloat16` has the range of `float32` but only about two decimal digits. It moved every
# number except 300, which fits.
#
# In training, weights are near 0.02 and activations near 1, which suits both formats. *Gradients* can be much
# smaller, because they are divided by the number of tokens and multiplied through every layer.

# %% [markdown] id="scaling-idea"
# ## A loss scale moves the gradients into range
#
# If gradients are too small for `float16`, the program multiplies the loss by a large number, the **loss scale**,
# before the backward pass. This makes every gradient larger by the same factor. The optimizer divides by this factor
# again, in `float32`. A larger scale loses fewer small gradients, until the largest gradient overflows.
#
# The right scale changes during training, so the program searches for it and begins far too high. When a gradient
# overflows, it **skips the step** and halves the scale. After many good steps in a row, it doubles the scale. Two
# settings control the search:
#
# - The **window** (`--loss-scale-window`, usually 1000) is the number of good steps in a row before the scale is
#   doubled.
# - The **hysteresis** (`--hysteresis`, 2 here) is the number of overflows before the scale is first halved, because a
#   single overflow may be an accident. After that, every overflow halves the scale until it has doubled once.

# %% id="scaling-story"
show.moving.loss_scaling(iterations=12, start_power=16, window=3, hysteresis=2)

# %% [markdown] id="scaling-caption"
# *Gradients by size, and the range of `float16`, during a search from 2¹⁶ on. Each halving moves the bars to the
# left, and each doubling to the right. Yellow bars became zero. The marks count the good steps in a row and the
# remaining hysteresis. The window is only 3.*
#
# **Predict.** A run of 22 steps begins with the scale 2³² = 4294967296, as in Megatron-LM. The gradients of this
# model fit into `float16` at a scale of about 2¹⁶. How many of the 22 steps will be skipped?

# %% id="scaling-guess"
### BEGIN SOLUTION
### GAP guess_skipped = ...  # your number in place of the dots
guess_skipped = 3
### END SOLUTION


# %% id="scaling-run"
def small(name, precision, **more):
    """Return a recipe with one sample per step that records the last two steps."""
    settings = {"micro_batch": 1, "iterations": 22, "memory": (20, 22), **more}
    return gpt.recipe(name, precision=precision, **settings)


skipped = predict("08: skipped steps of 22", guess_skipped, unit="steps")
half = lab.submit(small("half", "fp16"))
half.watch()

# %% id="scaling-grep"
# !grep "for parameters" "{half.log_file}"
# !grep "iteration " "{half.log_file}" | grep -o "iteration .*" | sed -n '1,3p;16,18p'

# %% [markdown] id="scaling-grep-explain"
# The first line proves that half precision is on. Without the flag, the run would give no warning. In the iteration
# lines, look at `loss scale`, which is the scale *after* the step, and at `number of skipped iterations`. A skipped
# step has no `lm loss`, and its learning rate does not change, because the optimizer does not run.

# %% id="scaling-see"
show.loss_scale(half)

# %% id="scaling-count"
steps = half.log.iterations
skipped.compare(half.log.skipped)
print(f"the scale went from {2**32:,} to {steps['loss_scale'].iloc[-1]:,.0f}")

# %% id="scaling-claim" tags=["claim"]
claim("skipped in the search for the scale", half.log.skipped, least=10, most=20, unit="steps")
late = steps["skipped_iterations"].iloc[-2:].sum()
claim("skipped in the last two steps", late, most=0, unit="steps")

# %% [markdown] id="scaling-explain"
# *The scale over the iterations. Crosses mark the skipped steps.*
#
# **Explain.** The program skips steps at the beginning while it searches for the scale. To get from 2³² to about 2¹⁶,
# it halves the scale sixteen times. The hysteresis adds one overflow. Each skipped step costs a batch of data and
# nearly the time of a full step.
#
# *Later*, a single skipped step means that the program tried a larger scale. If it skips many steps in a row and the
# scale falls towards 1, the gradients themselves are infinite. Then training has broken down, and no scale can repair
# it.

# %% [markdown] id="bf16-idea"
# ## bfloat16 needs no loss scale
#
# `bfloat16` has the range of `float32`, so no gradient has to be moved into range. Does its short mantissa hurt?
# Three runs differ only in the format. Rounding moves each number up or down by at most 0.4 %, and the loss is a mean
# over many tokens.
#
# **Predict.** By what percentage do the last losses of the bf16 run and the fp32 run differ: `"less than 0.1 %"`,
# `"0.1 to 1 %"` or `"more"`?

# %% id="bf16-guess"
### BEGIN SOLUTION
### GAP guess_apart = ...  # one of the three
guess_apart = "0.1 to 1 %"
### END SOLUTION

# %% id="bf16-run"
APART = ("less than 0.1 %", "0.1 to 1 %", "more")
apart = predict("08: difference of the last losses of bf16 and fp32", guess_apart, choices=APART)
submitted = lab.submit(small("brain", "bf16")), lab.submit(small("wide", "fp32"))
brain, wide = (run.require() for run in submitted)
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
claim("skipped by bf16", brain.log.skipped, most=0, unit="steps")
claim("the last losses of bf16 and fp32 differ by", percent, most=0.1, unit="%")

# %% [markdown] id="bf16-explain"
# *Loss of the three runs over the iterations.*
#
# **Explain.** The short mantissa does not hurt here. The curves of fp32 and bf16 coincide, because rounding errors in
# both directions average out. The fp16 run starts from the same loss and stays behind by the number of skipped steps.
#
# This run is short, but larger studies found the same ([Kalamkar and others,
# 2019](https://arxiv.org/abs/1905.12322)). So `bfloat16` is the usual choice if the hardware supports it. A V100
# supports only `float16` and needs a loss scale.

# %% [markdown] id="master-idea"
# ## Why the optimizer keeps a 32-bit copy of the weights
#
# Inside one matmul (matrix multiplication), the hardware adds in `float32` and rounds the sum once. A weight is a sum
# of many steps and is rounded after each one. Just below 1, the numbers of `bfloat16` are 2⁻⁸ = 0.0039 apart.
#
# **Predict.** A weight of 1, stored in `bfloat16`, makes 100 steps of −0.0002. A second weight of 1 makes 100 steps
# of −0.003. How far from 1 does each weight end? With enough mantissa bits, the answers would be 0.02 and 0.3.

# %% id="master-guess"
### BEGIN SOLUTION
### GAP guess_after_small, guess_after_large = ..., ...
guess_after_small, guess_after_large = 0.02, 0.3
### END SOLUTION

# %% id="master-see"
ending = {
    0.0002: predict("08: distance from 1 after 100 steps of 0.0002 in bf16", guess_after_small),
    0.003: predict("08: distance from 1 after 100 steps of 0.003 in bf16", guess_after_large),
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
claim("after 100 steps of 0.0002 a bf16 weight has moved by", 1 - small_steps, most=0)
claim("after 100 steps of 0.003 it misses 0.7 by", 0.7 - large_steps, least=0.05)

# %% [markdown] id="master-explain"
# **Explain.** A step of 0.0002 is less than half of the distance 0.0039, so the weight is rounded back to its old
# value each time. A step of 0.003 is more than half of the distance. Each such step is rounded *up* to 0.0039, so the
# weight moves too far.
#
# Adam's steps are about as large as the learning rate, and near a weight of 0.02 the numbers of `bfloat16` are 0.0001
# apart. As the learning rate falls, the steps of more and more weights become too small, and learning *stalls*.
# Therefore the optimizer keeps a `float32` copy of all weights, the **master weights**. It makes its step on this
# copy and gives the model a rounded copy. This is why the method is called *mixed* precision ([Micikevicius and
# others, 2017](https://arxiv.org/abs/1710.03740)).
#
# **Stochastic rounding** needs no copy. It rounds up or down at random, so that the mean is correct and on average no
# step is lost:


# %% id="master-random"
def rounded_at_random(wide):
    """Round to one of the two neighbours in bfloat16, the upper 16 bits of a float32."""
    bits = wide.view(torch.int32) + torch.randint_like(wide.view(torch.int32), 2**16)
    return (bits & -(2**16)).view(torch.float32)


torch.manual_seed(0)
weights = torch.ones(1000)
for _ in range(100):
    weights = rounded_at_random(weights - 0.0002)
print(f"1000 weights after 100 steps of 0.0002: {weights.mean():.4f} ± {weights.std():.4f}")

# %% id="master-random-claim" tags=["claim"]
claim("with stochastic rounding the mean is", weights.mean(), least=0.978, most=0.982)

# %% [markdown] id="auto-idea"
# ## Mixed precision in your own program
#
# In the course's program, as in Megatron-LM, the model is in 16 bits and the optimizer holds the 32-bit copy. Most
# other programs use `torch.autocast`. The model stays in `float32`, and operations that gain from 16 bits get rounded
# copies of their inputs. `GradScaler` provides the loss scale.

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
    scaler.step(optimizer)  # divides the gradients; skips the step if one of them is infinite
    scaler.update()
    skipped_it = scaler.get_scale() < used
    print(f"step {step:2}: scale 2^{math.log2(used):.0f}", end="  ")
    print("skipped" if skipped_it else f"loss {loss:.4f}")
kinds = {"weight": net[0].weight, "result of a matmul": out, "gradient": net[0].weight.grad}
print({name: str(one.dtype).removeprefix("torch.") for name, one in kinds.items()})

# %% id="auto-claim" tags=["claim"]
weight_bytes, matmul_bytes = net[0].weight.element_size(), out.element_size()
claim("with autocast a weight takes", weight_bytes, least=4, most=4, unit="bytes")
claim(
    "with autocast each number in the result of a matmul takes",
    matmul_bytes,
    least=2,
    most=2,
    unit="bytes",
)

# %% [markdown] id="auto-explain"
# **Explain.** Here the model's weights *are* the master weights, so no small step is lost. The cost is a rounded copy
# of each weight in every forward pass, and gradients in `float32`.
#
# PyTorch runs matmuls in 16 bits and losses in `float32`. Norms and softmax also stay in `float32` on GPUs, and keep
# the type of their input on CPUs. `GradScaler` has no hysteresis and begins at 2¹⁶ by default. With `bfloat16` you
# leave it out.

# %% [markdown] id="speed-idea"
# ## Is training with 16 bits faster?
#
# The hardware decides this for each format. The Tensor Cores of a GPU multiply both 16-bit formats, but on a V100
# only `float16`. Some CPUs have instructions for `bfloat16`, and others have none and convert every number. On Linux,
# `grep -oE '(amx|avx512)_(bf16|fp16)' /proc/cpuinfo | sort -u` shows the instructions. On Arm they are called `bf16`
# and `asimdhp`.


# %% id="speed-see"
def step_ms(run):
    """Return the median over whole steps; the first is slower, because it creates Adam's moments."""
    whole = run.log.iterations.query("skipped_iterations == 0")
    return float(whole["elapsed_ms"].iloc[1:].median())


gains = {name: step_ms(wide) / step_ms(run) for name, run in {"bf16": brain, "fp16": half}.items()}
show.throughput(wide, brain, half, unit="ms")

# %% [markdown] id="speed-explain"
# *Time of each iteration of the three runs. Skipped steps lack the optimizer's step. The last iteration also writes
# the memory record.*
#
# The speed on your device, from full steps:

# %% id="speed-said"
for name, gain in gains.items():
    print(f"{name}, × {gain:.2f}:", end=" ")
    if gain > 1.2:
        print("your device has units for this format.")
    elif gain > 0.8:
        print("about as fast as float32. Either its arithmetic is hardly faster here, or")
        print("  a model as small as this one spends its step outside matmuls.")
    else:
        print("slower than float32. Either your device has no units for this format and converts")
        print("  every number, or the matmuls are too small to repay the conversions.")

# %% [markdown] id="speed-published"
# **Explain.** A GPU can gain much. The weather model of lesson 01 on one A100 went from 10.1 samples per second in
# `float32` without TF32 to 53.4 with fp16 by `autocast` ([NERSC](https://github.com/NERSC/sc24-dl-tutorial), 2024).
# With TF32 it reached about 13, so most of the gain needs 16 bits.
#
# A GPT with 12 layers of width 768, on 2 nodes with 2 V100 each, went from 537 to about 315 ms per iteration with fp16.
# Only 23.6 % of its *kernels*, the programs that a GPU runs, used Tensor Cores. These numbers come from the notes of a
# training workshop and have no public source.
#
# GPUs since the A100 have **TF32**, which multiplies 32-bit numbers with a 10-bit mantissa. An A100 reaches 19.5
# TFLOP/s in `float32`, 156 in TF32 and 312 in 16 bits ([NVIDIA](https://www.nvidia.com/en-us/data-center/a100/),
# 2020). So "fp32 on an A100" can mean two speeds that differ by a factor of eight. By default PyTorch uses TF32 only
# for convolutions, and `torch.set_float32_matmul_precision("high")` selects it for matmuls.

# %% [markdown] id="memory-idea"
# ## Does mixed precision need less memory?
#
# In fp32, each parameter takes 4 bytes for the weight, 4 for the gradient and 8 for Adam. In bf16, it takes 2 bytes
# for the weight, 4 for the gradient, 4 for the master weight and 8 for Adam. The activations of the layers halve, but
# the loss is still computed in `float32`.
#
# **Predict.** The peak of the fp32 run is 100 %. What percentage is the peak of the bf16 run?

# %% id="memory-guess"
### BEGIN SOLUTION
### GAP guess_percent = ...  # your number in place of the dots
guess_percent = 50
### END SOLUTION

# %% id="memory-see"
peak_of = predict("08: peak of bf16, relative to fp32", guess_percent, unit="%")
runs = {"fp32": wide, "bf16": brain, "fp16": half}
peaks = {name: run.memory[0].peak_composition for name, run in runs.items()}
show.memory_kinds(peaks)

# %% id="memory-table"
total = {name: sum(parts.values()) for name, parts in peaks.items()}
half_of = 100 * total["bf16"] / total["fp32"]
peak_of.compare(half_of)
per_parameter = pd.DataFrame(peaks) / wide.log.parameter_count
print("bytes per parameter, at the peak:")
per_parameter.loc[["parameters", "gradients", "optimizer", "temporary"]].round(1)

# %% id="memory-claim" tags=["claim"]
claim("peak of bf16 relative to fp32", half_of, least=100, unit="%")
stands = per_parameter.loc[["parameters", "gradients", "optimizer"], "bf16"].sum()
claim("bf16 needs per parameter", stands, least=17.9, most=18.1, unit="bytes")

# %% [markdown] id="memory-explain"
# *The figure shows what fills the memory at the peak of each run.*
#
# **Explain.** In this model bf16 saves no memory. Besides activations, each parameter needs these bytes:
#
# | | weights | gradients | master weights | wide gradients | Adam's moments | together |
# |---|---|---|---|---|---|---|
# | fp16, at the step | 2 | 2 | 4 | 4 | 8 | **20** |
# | bf16, gradients in float32 | 2 | 4 | 4 | – | 8 | **18** |
# | fp32; `autocast` | 4 | 4 | – | – | 8 | **16** |
# | fp16, between steps | 2 | 2 | 4 | – | 8 | **16** |
# | bf16 without masters, stochastic rounding | 2 | 2 | – | – | 8 | **12** |
# | all in bf16 | 2 | 2 | – | – | 4 | **8** |
#
# In fp32 the weights are their own master copy. With bf16 the gradients stay in 32 bits, because they are sums of
# many terms (lesson 10). With fp16 they have 16 bits, and the optimizer copies them to 32 bits. The course's program
# keeps these copies only during the step, Megatron-LM all the time. Adam's **moments**, the running means of the
# gradient and of its square, can also be stored in 8 bits or in bf16, as in DeepSeek-V3.
#
# So with bf16 the memory for the parameters grows by an eighth. The activations should halve. Here are the three runs
# over time:

# %% id="memory-time"
show.memory_compare({name: run.memory for name, run in runs.items()}, by="share")

# %% [markdown] id="memory-time-explain"
# *Memory of the three runs over two steps, each drawn over its own duration. Dotted lines mark the peaks.*
#
# In the forward pass each layer adds a stair, about half as high with 16 bits as with 32. The block at the end is the
# loss. It needs `float32` for the sum over the vocabulary, so the logits exist in 16 and in 32 bits. In this narrow
# model with a large vocabulary, this costs as much as the layers save. In a deep and wide model the layers save far
# more.
#
# In the backward pass, bf16 has a spike from the gradient of the largest matrix, the vocabulary. This gradient is
# computed in 16 bits and converted to 32 bits before it is added to the sum. A kernel that adds in place, as in
# Megatron-LM, needs no copies. At the end of each step, fp16 has a spike from the wide copies of the gradients, 4
# bytes per parameter.

# %% id="memory-spike"
line = half.memory[0]
held_bytes = pd.Series(line.bytes_by_category.sum(axis=1), index=line.time_us)
at_step = line.phases.query("phase == 'optimizer'").iloc[-1]
rises = held_bytes[at_step["begin_us"] : at_step["end_us"]]
spike = (rises.max() - rises.iloc[0]) / half.log.parameter_count
print(f"fp16 rises by {spike:.1f} bytes per parameter during the optimizer's step")

# %% id="memory-spike-claim" tags=["claim"]
claim("the spike of fp16 takes per parameter", spike, least=3.6, most=4.4, unit="bytes")

# %% [markdown] id="memory-published"
# A published run with 12 layers of width 768 needed about 10 GB in `float32` and about **12 GB** in fp16. Master
# weights explain little of this rise, because 4 more bytes for each of 124 million parameters are only 0.5 GB. Copies
# in both formats, or memory that the allocator keeps in reserve, may explain the rest.

# %% [markdown] id="eight-idea"
# ## Training with eight bits
#
# Since the H100, GPUs also multiply 8-bit floating-point numbers, twice as fast as 16-bit numbers. There are two
# formats ([Micikevicius and others, 2022](https://arxiv.org/abs/2209.05433)). **E4M3** has 4 exponent bits and 3
# mantissa bits and is used for weights and activations. **E5M2** has more range and is used for gradients.

# %% id="eight-formats"
eight = {"E4M3": torch.float8_e4m3fn, "E5M2": torch.float8_e5m2}
show.number_formats({name: torch.finfo(kind) for name, kind in (formats | eight).items()})

# %% [markdown] id="eight-scale-idea"
# *The same figure with the two 8-bit formats.*
#
# E4M3 reaches from 2⁻⁹ ≈ 0.002 to 448, and everything below 0.001 becomes zero. Even its best rounding error is 6 %.
# One loss scale for the whole model is not enough. **Every tensor gets its own scale**, which makes its largest
# number 448.
#
# **Predict.** Of 4096 normally distributed numbers with standard deviation 1, one is set to 100 000, so the scale is
# 448 / 100 000. What percentage of the other numbers become zero in E4M3? What percentage become zero if each block
# of 128 numbers has its own scale?

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
claim("with one scale, an outlier sets to zero", zero["one scale"], least=10, most=30, unit="%")
claim("with a scale per block, it sets to zero", zero["blocks of 128"], most=1, unit="%")

# %% [markdown] id="eight-explain"
# **Explain.** With one scale, every number below about 0.22 falls below 0.001 and becomes zero. With one scale per
# block, the large number (**outlier**) spoils only its own block of 128.
#
# So FP8 recipes differ in how many numbers share a scale. The first recipes for the H100 used one scale per tensor,
# taken from earlier steps. DeepSeek-V3 used one scale per block of 128 numbers, and E4M3 was then enough for
# gradients too ([2024](https://arxiv.org/abs/2412.19437)). The format **MXFP8** has one scale per 32 numbers, in
# hardware ([Rouhani and others, 2023](https://arxiv.org/abs/2310.10537)).
#
# FP8 makes matmuls up to twice as fast. It also saves memory and traffic if more tensors are in 8 bits. DeepSeek-V3
# keeps activations for the backward pass and sends tokens to their experts in FP8, and PyTorch's `torchao` can gather
# sharded weights in FP8. Sums, norms, softmax and master weights stay in 16 or 32 bits. Lesson 08b trains with these
# recipes.

# %% [markdown] id="ex1" tags=["exercise"]
# ## Exercises
#
# > **Exercise 08.1** — Write the search for the loss scale as a class `Scaler`. Its rules, with `window` and
# > `hysteresis`, are in the section about the loss scale.
#
# - `scaled(loss)` returns the loss for the backward pass.
# - `step()` comes after the backward pass. It divides the gradients by their scale and makes the optimizer's step. If
#   a gradient is infinite or NaN, it leaves weights and optimizer as they are. Then it changes `self.scale`.
# - Each rank has different weights, as in lesson 07. If a gradient of one rank overflows, **all** ranks skip the step
#   and change the scale.
# - `optimizer.param_groups` has the parameters. Some may have no gradient.
#
# The trial makes twenty steps with `window=3` and `hysteresis=2`, on 1, 2, 3 and 4 ranks. A hook rounds the gradients
# to `float16`, so large ones overflow. One of them is NaN. The trial compares scale and weights with a serial search
# after each step.

# %% id="ex1-own" tags=["exercise"]
# %%writefile "{lab.work}/my_scaler.py"
import torch
import torch.distributed as dist


class Scaler:
    def __init__(self, optimizer, scale, window, hysteresis):
        self.optimizer, self.scale = optimizer, scale
        self.window, self.hysteresis = window, hysteresis
        ### BEGIN SOLUTION
        ### GAP ...
        self.good, self.patience = 0, hysteresis
        ### END SOLUTION

    def scaled(self, loss):
        ### BEGIN SOLUTION
        ### GAP return ...
        return loss * self.scale
        ### END SOLUTION

    def step(self):
        ### BEGIN SOLUTION
        ### GAP ...  # overflow on any rank? divide, make or skip the step, change the scale
        parameters = [one for group in self.optimizer.param_groups for one in group["params"]]
        gradients = [one.grad for one in parameters if one.grad is not None]
        overflow = torch.tensor(any(not one.isfinite().all() for one in gradients), dtype=torch.int)
        dist.all_reduce(overflow, dist.ReduceOp.MAX)
        if overflow:
            self.good = 0
            self.patience -= 1
            if self.patience <= 0:
                self.scale /= 2
            return
        for one in gradients:
            one.div_(self.scale)
        self.optimizer.step()
        self.good += 1
        if self.good == self.window:
            self.good, self.patience = 0, self.hysteresis
            self.scale *= 2
        ### END SOLUTION


# %% id="ex1-trial" tags=["exercise"]
scaler_trial = lab.submit(trial.recipe("scaler-trial", "work/my_scaler.py", "scaler"))
scaler_trial.watch()

# %% id="ex1-check" tags=["check"]
check.ex08_scaler(scaler_trial)

# %% [markdown] id="ex1-why" tags=["solution"]
# The maximum over the ranks tells all ranks that one of them overflows. Without it, some ranks would make a step and
# others would not, and no error would follow. With data parallelism alone, the all-reduce of the gradients already
# spreads an infinite number to every rank.

# %% [markdown] id="ex2" tags=["exercise"]
# > **Exercise 08.2** — A report on an fp16 run on GPUs says that the loss scale "starts at 8388608" and that the
# > first 10 iterations are skipped. Its log has one line for every 10 iterations. Suppose that the number was read
# > from the first of these lines, and that the program had the same hysteresis as yours. At which scale did the run
# > really start?

# %% id="ex2-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP started_at = ...
halvings = 10 - 1  # hysteresis of 2: the first overflow does not halve
started_at = 8388608 * 2**halvings
### END SOLUTION

# %% id="ex2-check" tags=["check"]
check.ex08_started_at(started_at)

# %% [markdown] id="ex2-why" tags=["solution"]
# 8388608 is 2²³. Ten skipped steps halve the scale nine times, because the first overflow only used up the hysteresis.
# So the run began at 2³², the default of Megatron-LM and of your run `half`. The first line of the log shows the state
# *after* ten steps. If you take it for the beginning, you are wrong by a factor of 512.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — With one sample per step, bf16 needs more memory than fp32 in this model. At how many samples
# > does bf16 start to need less? Estimate from the bars above what one more sample adds in each format. Of the
# > temporary memory of bf16, 6 MiB belong to the largest matrix. The rest belongs to the sample, mostly as 16-bit
# > logits. The temporary bar of fp32, about 0.12 MiB, also belongs to the sample. An error of 0.01 MiB per sample
# > moves the answer by several samples. Then test it with `small("many", "bf16", micro_batch=…)` against fp32.

# %% [markdown] id="home"
# ## To take home
#
# - `float16` lacks range and needs a loss scale. `bfloat16` lacks mantissa bits and needs no loss scale. Eight bits
#   lack both, so every tensor or block has its own scale.
# - At the start, an fp16 run skips iterations while it searches for the scale. If it skips many in a row later,
#   training has broken down.
# - The optimizer steps on 32-bit weights, because small steps would be rounded away. In Megatron-LM these weights are
#   a copy, with `autocast` the model itself.
# - Each format is fast only on hardware that has units for it. "fp32" may mean TF32.
# - Mixed precision saves nothing per parameter: 20, 18 or 16 bytes. It shrinks the activations of the layers.
#
# References: arXiv [1710.03740](https://arxiv.org/abs/1710.03740) (mixed precision),
# [1905.12322](https://arxiv.org/abs/1905.12322) (bfloat16), [2209.05433](https://arxiv.org/abs/2209.05433) (FP8),
# [2310.10537](https://arxiv.org/abs/2310.10537) (MX formats), [2412.19437](https://arxiv.org/abs/2412.19437)
# (DeepSeek-V3).

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean(half, brain, wide, yes=True)
