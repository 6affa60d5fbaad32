# %% [markdown] id="title"
# # 08b Eight bits
#
# Since the H100, GPUs multiply 8-bit floating-point numbers (**FP8**) twice as fast as 16-bit numbers. Only the
# matmuls of the linear layers use these numbers, and each matrix needs **scales** that move it into the range of the
# format. Lesson 08 showed how one outlier spoils one scale. In this lesson you find out which scales fail during
# training, and why. You write a matmul in eight bits with its backward pass, and count the bytes that eight bits save.
#
# | | |
# |---|---|
# | You will be able to | derive the range and the spacing of a format from its bits; choose between one scale per tensor, per row and per block; write a matmul in eight bits, forward and backward; say what stays in 16 or 32 bits; predict the bytes and the time that FP8 saves |
# | Minutes | 50 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lesson 08 |

# %% id="begin"
import re

import pandas as pd
import torch

from course_lib import Lab, check, claim, gpt, plan, predict, program, trial

lab = Lab()

# %% [markdown] id="formats-idea"
# ## Which numbers does a format of eight bits have?
#
# A floating-point number has a **sign**, an **exponent** E and a **significand**, which is 1 plus the fraction in the
# mantissa bits M. Small numbers have no leading 1 and are called **subnormal**. In E4M3 the exponent has a **bias**
# of 7:
#
# | bits of the exponent | value in E4M3 |
# |---|---|
# | E from 1 to 15 | ± 2^(E − 7) × (1 + M / 8), **normal** |
# | E = 0 | ± 2^(−6) × M / 8, subnormal |
# | E = 15 and M = 7 | not a number (NaN) |
#
# So the largest number has E = 15 and M = 6, which is 2⁸ × 1.75 = 448. The smallest normal number is 2⁻⁶ and the
# smallest subnormal number is 2⁻⁹. Half of 2⁻⁹ and every smaller number become zero (**underflow**). Between 2ⁿ and
# 2ⁿ⁺¹ the numbers have a **spacing** of 2ⁿ⁻³. A sum is rounded to the nearest number, or if it lies exactly halfway,
# to the number with the even M.
#
# **Predict.** A counter in E4M3 starts at 0, and you add 1 again and again. At which number does it stop growing?

# %% id="formats-guess"
### BEGIN SOLUTION
### GAP guess_stops = ...  # your number in place of the dots
guess_stops = 448
### END SOLUTION

# %% id="formats-see"
stops = predict("08b: a counter in E4M3 stops at", guess_stops)
formats = {"E4M3": torch.float8_e4m3fn, "E5M2": torch.float8_e5m2}


def counted(kind):
    """Add 1 until nothing changes; the sum is rounded to this format each time."""
    total = torch.tensor(0.0)
    while (after := (total + 1).to(kind).float()) != total:
        total = after
    return total.item()


def properties(kind):
    numbers = torch.arange(256).to(torch.uint8).view(kind).float()  # all patterns of eight bits
    positive = numbers[numbers.isfinite() & (numbers > 0)].sort().values
    return {
        "largest": positive[-1].item(),
        "smallest normal": torch.finfo(kind).smallest_normal,
        "smallest subnormal": positive[0].item(),
        "positive numbers": len(positive),
        "counter stops at": counted(kind),
    }


table = pd.DataFrame({name: properties(kind) for name, kind in formats.items()})
stops.compare(table.loc["counter stops at", "E4M3"])
table.map("{:.6g}".format)

# %% id="formats-claim" tags=["claim"]
claim("a counter in E4M3 stops at", counted(torch.float8_e4m3fn), least=16, most=16)
claim("a counter in E5M2 stops at", counted(torch.float8_e5m2), least=8, most=8)

# %% [markdown] id="formats-explain"
# **Explain.** From 16 on, the spacing of E4M3 is 2. The sum 17 lies halfway between 16 and 18, and 16 has the even M.
# If you guessed 448, you used the range, but the spacing stops the sum much earlier. E5M2 has one mantissa bit less
# and stops at 8. Its exponent has a bias of 15 and reserves E = 31 for infinity and NaN. So its largest number is 2¹⁵
# × 1.75 = 57,344. The recipe called **hybrid** uses E4M3 for weights and activations, and E5M2 for gradients.
#
# Because a sum in eight bits would stop growing, only the *factors* of a matmul have eight bits. The products are
# added in a wider format. On the H800, an H100 with slower links, the sums inside Tensor Cores keep about 14 bits.
# DeepSeek-V3 therefore adds them to a 32-bit sum after every 128 products ([2024](https://arxiv.org/abs/2412.19437)).

# %% [markdown] id="scales-idea"
# ## How many numbers does an outlier spoil?
#
# To **quantise** a matrix, multiply each part by a scale that moves its largest number to the end of the range, and
# cast to eight bits. After the matmul, divide the result by the scales. **Recipes** differ in how many numbers share a
# scale. The matmul sums over *k*, and *k* runs along the rows of both factors:
#
# | `--fp8-recipe` | numbers that share a scale |
# |---|---|
# | `tensorwise` | the whole matrix |
# | `rowwise` | a row along *k* |
# | `blockwise` | 128 numbers along *k*; in a weight 128 × 128 |
# | `mxfp8` | 32 numbers along *k* |
#
# All scales of the course's program are powers of two. Multiplying by a power of two is exact, so only the cast
# rounds. MXFP8 requires powers of two, because its scale is an exponent of eight bits. An outlier affects only the
# numbers that share its scale. The program below quantises a matrix of 256 tokens (rows) and 1024 channels (columns)
# of normally distributed numbers. One **channel** or one **token** is larger than the others by a factor. It measures
# what happens to all other numbers.
#
# **Predict.** One channel is larger by a factor of 2³⁰, far beyond any real model, so that all numbers with the same
# scale become zero. What percentage of the other numbers become zero with `rowwise`, and with `mxfp8`?

# %% id="scales-guess"
### BEGIN SOLUTION
### GAP guess_zero_rowwise, guess_zero_mxfp8 = ..., ...  # percent
guess_zero_rowwise, guess_zero_mxfp8 = 0.1, 3
### END SOLUTION

# %% id="scales-file"
# %%writefile "{lab.work}/outliers.py"
import torch
from training.eight_bits import ALONE, E4M3, block_of, quantise

torch.manual_seed(0)
plain = torch.randn(256, 1024)


def report(name, back, numbers, others):
    error = (back - numbers)[others].norm() / numbers[others].norm()
    zero = (back[others] == 0).double().mean()
    print(f"{name}: error {100 * error:.3f} %, zero {100 * zero:.3f} %", flush=True)


for factor in (1, 2**10, 2**30):
    for where in ("channel", "token"):
        numbers, others = plain.clone(), torch.ones_like(plain, dtype=torch.bool)
        outlier = (slice(None), 5) if where == "channel" else (5, slice(None))
        numbers[outlier] *= factor
        others[outlier] = False
        for recipe in ("tensorwise", "rowwise", "blockwise", "mxfp8"):
            quantised = quantise(numbers, E4M3, block_of(recipe), (ALONE, ALONE))
            back = quantised.numbers(torch.float32)
            report(f"{where} × {factor}, {recipe}", back, numbers, others)
        step = numbers.abs().max() / 127
        report(f"{where} × {factor}, int8", (numbers / step).round() * step, numbers, others)

# %% id="scales-run"
zero_of = {
    "rowwise": predict("08b: zero with rowwise scales", guess_zero_rowwise, unit="%"),
    "mxfp8": predict("08b: zero with mxfp8", guess_zero_mxfp8, unit="%"),
}
outliers = lab.submit(program.recipe("outliers", "work/outliers.py")).require()

# %% id="scales-see"
found = pd.DataFrame(
    re.findall(
        r"^(\w+) × (\d+), (\w+): error ([\d.]+) %, zero ([\d.]+) %", outliers.text, re.MULTILINE
    ),
    columns=["outlier", "factor", "recipe", "error (%)", "zero (%)"],
).astype({"factor": int, "error (%)": float, "zero (%)": float})
found = found.set_index(["outlier", "factor", "recipe"])
zero, error = found["zero (%)"], found["error (%)"]
for recipe, guessed in zero_of.items():
    guessed.compare(zero["channel", 2**30, recipe])
recipes = ["int8", "tensorwise", "rowwise", "blockwise", "mxfp8"]
found.unstack("recipe").reindex(columns=recipes, level=1).round(1).T

# %% id="scales-claim" tags=["claim"]
claim(
    "rowwise: zero beside an outlier channel", zero["channel", 2**30, "rowwise"], least=90, unit="%"
)
claim(
    "mxfp8: zero beside an outlier channel",
    zero["channel", 2**30, "mxfp8"],
    least=2.8,
    most=3.2,
    unit="%",
)
claim(
    "without an outlier, error of tensorwise relative to mxfp8",
    error["channel", 1, "tensorwise"] / error["channel", 1, "mxfp8"],
    least=0.95,
    most=1.05,
)
claim(
    "tensorwise: error beside a channel × 1024, relative to none",
    error["channel", 2**10, "tensorwise"] / error["channel", 1, "tensorwise"],
    most=1.1,
)

# %% [markdown] id="scales-explain"
# *The row `int8` is not a recipe of the course. It shows the 8-bit integers from −127 to 127 with one scale.*
#
# **Explain.** Every row contains the outlier channel, so with `rowwise` every row has a scale that is too small. All
# numbers become zero, as with `tensorwise`. If you guessed 0.1 %, you thought of an outlier *token*, which spoils only
# its own row. With `mxfp8` only the 31 neighbours in each block are lost, which is 3 % of the columns, and with
# `blockwise` 127 neighbours or 12 %. Both kinds of outliers occur in the activations of language models. Sun and
# others found activations 100,000 times larger than others ([2024](https://arxiv.org/abs/2402.17762)).
#
# Smaller outliers do much less harm. Without an outlier, all four recipes have the same error of 2.7 %, which comes
# from the 3 mantissa bits. An outlier of 1024 changes nearly nothing, although it ruins the integers. The normal
# numbers of E4M3 reach from 2⁻⁶ to 448, a factor of 28,672. A number 1000 times smaller than the largest still has all
# its mantissa bits. Smaller blocks help only if the range is exceeded.

# %% [markdown] id="train-idea"
# ## Where does training break?
#
# The program below trains a small model that predicts the next letter of Python's own source text. It has two
# residual blocks, each with a norm, two linear layers and a GELU. The matmuls of the linear layers use eight bits in
# forward and backward, and everything else stays in `float32`. The runs start from equal weights and read equal
# samples:
#
# - **fp32** uses `float32` everywhere. One more run has another seed.
# - **The four recipes** use E4M3 for everything, including the gradients.
# - **No scale** casts all matrices without scales.
# - **8-bit weights** rounds the weights of the linear layers after each step, so that no wider copy remains.
#
# The program also trains with an outlier channel. It multiplies one channel behind each norm by a power of two and
# divides the matching column of the weight by the same power. The product and every gradient of the learned weights
# stay the same. Only the cast to eight bits meets the outlier.
#
# **Predict.** Which recipes end with a loss more than 5 % above fp32 if the outlier channel is 1,024 times larger, and
# which if it is 1,048,576 times larger? The model has 256 channels.

# %% id="train-guess"
### BEGIN SOLUTION
### GAP guess_breaks_at_1024 = ...  # a list, such as ["rowwise", "mxfp8"], or []
### GAP guess_breaks_at_1048576 = ...
guess_breaks_at_1024 = ["tensorwise"]
guess_breaks_at_1048576 = ["tensorwise", "blockwise"]
### END SOLUTION

# %% id="train-file"
# %%writefile "{lab.work}/train_recipes.py"
import argparse
import os
from pathlib import Path

import torch
from parallel.products import WeightWork
from torch import nn
from training import eight_bits
from training.eight_bits import ALONE, E4M3, EightBits, linear, quantise

WIDTH, BEFORE, BATCH, STEPS, LETTERS = 256, 16, 128, 100, 128
text = torch.tensor(list(Path(argparse.__file__).read_bytes())).clamp(max=LETTERS - 1)
power_of_two = eight_bits.scale_to


class Linear(nn.Module):
    """X Wᵀ in eight bits, or in float32; `gain` makes a channel larger and its weights smaller."""

    def __init__(self, eight, gain):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH**0.5)
        self.eight, self.gain, self.work = eight, gain, WeightWork(returned=True)

    def forward(self, x):
        x, weight = x * self.gain, self.weight / self.gain
        return linear(self.eight, x, weight, None, self.work)


class Block(nn.Module):
    def __init__(self, eight, gain):
        super().__init__()
        self.up = nn.Sequential(nn.LayerNorm(WIDTH), Linear(eight, gain), nn.GELU())
        self.down = Linear(eight, torch.ones(WIDTH))

    def forward(self, x):
        return x + self.down(self.up(x))


def train(recipe, factor=1, seed=0):
    """Return the mean loss of the last ten steps."""
    torch.manual_seed(seed)
    gain = torch.ones(WIDTH)
    gain[5] = factor
    eight = None if recipe in ("fp32", "8-bit weights") else EightBits("tensorwise", E4M3)
    if recipe in ("rowwise", "blockwise", "mxfp8"):
        eight = EightBits(recipe, E4M3)
    one = (lambda top, largest: torch.ones_like(largest)) if recipe == "no scale" else power_of_two
    eight_bits.scale_to = one
    embedding = nn.Sequential(nn.Embedding(LETTERS, WIDTH // BEFORE), nn.Flatten())
    blocks = [Block(eight, gain) for _ in range(2)]
    model = nn.Sequential(embedding, *blocks, nn.Linear(WIDTH, LETTERS))
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    total = 0.0
    for step in range(STEPS):
        starts = torch.randint(len(text) - BEFORE, (BATCH,))
        samples = text[starts[:, None] + torch.arange(BEFORE)]
        loss = nn.functional.cross_entropy(model(samples), text[starts + BEFORE])
        adam.zero_grad()
        loss.backward()
        adam.step()
        total += loss.item() / 10 * (step >= STEPS - 10)
        if recipe == "8-bit weights":
            for part in (part for part in model.modules() if isinstance(part, Linear)):
                rounded = quantise(part.weight.data, E4M3, (0, 0), (ALONE, ALONE))
                part.weight.data = rounded.numbers(torch.float32)
    return total


RECIPES = ("tensorwise", "rowwise", "blockwise", "mxfp8")
runs = [(recipe, 2**20, 0) for recipe in ("fp32", *RECIPES)]
runs += [(recipe, 1, 0) for recipe in ("fp32", *RECIPES, "no scale", "8-bit weights")]
runs += [(recipe, 2**10, 0) for recipe in RECIPES] + [("fp32", 1, 1)]
for run in runs[int(os.environ["RANK"]) :: int(os.environ["WORLD_SIZE"])]:
    recipe, factor, seed = run
    print(f"{recipe} × {factor}, seed {seed}: loss {train(*run):.6f}", flush=True)

# %% id="train-run"
breaks_at = {
    factor: predict(
        f"08b: breaks with a channel × {factor}", guessed, choices=recipes[1:], several=True
    )
    for factor, guessed in ((2**10, guess_breaks_at_1024), (2**20, guess_breaks_at_1048576))
}
unpaced = {"COURSE_DEVICE_PACE": "1"}  # the box need not sleep, because no time is measured
trained = lab.submit(
    program.recipe(
        "train-recipes", "work/train_recipes.py", nodes=2, gpus_per_node=2, environment=unpaced
    )
).require()

# %% id="train-see"
lines = re.findall(r"^(.+) × (\d+), seed (\d): loss ([\d.]+)", trained.text, re.MULTILINE)
loss = {(recipe, int(factor), int(seed)): float(one) for recipe, factor, seed, one in lines}
fp32 = loss["fp32", 1, 0]
above = {key: 100 * (one / fp32 - 1) for key, one in loss.items()}
for factor, guessed in breaks_at.items():
    guessed.compare([recipe for recipe in recipes[1:] if above[recipe, factor, 0] > 5])
losses = pd.DataFrame(
    [(name, f"channel × {factor}", one) for (name, factor, seed), one in loss.items() if not seed],
    columns=["", "loss with", "loss"],
).pivot(index="", columns="loss with", values="loss")
print(f"fp32 with another seed: {loss['fp32', 1, 1]:.4f}")
losses = losses.reindex([*losses.index.difference(recipes), *recipes[1:]])
losses.round(4).astype(object).fillna("not run")

# %% id="train-claim" tags=["claim"]
furthest = max(abs(above[recipe, 1, 0]) for recipe in recipes[1:])
claim("largest difference of a recipe from fp32, without an outlier", furthest, most=1, unit="%")
claim(
    "another seed moves the loss further, by a factor of",
    abs(above["fp32", 1, 1]) / furthest,
    least=2,
)
claim(
    "tensorwise with a channel × 1024 above fp32", above["tensorwise", 2**10, 0], most=1, unit="%"
)
claim(
    "fp32 with a channel × 1048576 above fp32", above["fp32", 2**20, 0], least=0, most=0, unit="%"
)
claim("rowwise with a channel × 1048576 above fp32", above["rowwise", 2**20, 0], least=10, unit="%")
claim("mxfp8 with a channel × 1048576 above fp32", above["mxfp8", 2**20, 0], most=2, unit="%")
claim("no scale above fp32", above["no scale", 1, 0], least=10, unit="%")
claim("8-bit weights above fp32", above["8-bit weights", 1, 0], least=3, unit="%")

# %% [markdown] id="train-explain"
# **Explain.** Without an outlier, every recipe ends with nearly the loss of fp32, although each factor of each matmul
# is wrong by about 3 %. As with bf16 (lesson 08), the errors have random signs and average out over many terms and
# steps. Another seed changes the loss more than any recipe does. An outlier of 1024 still fits into the range. With
# the large outlier, `tensorwise` and `rowwise` break, because the outlier is in every row. The layer behind the norm
# gets zeros, and its weights learn nothing. With `blockwise` half of the channels are lost, and with `mxfp8` an
# eighth, but the model learns from the rest. In fp32 the outlier changes nothing, so only the cast does harm.
#
# No run printed NaN or stopped. Without scales, the gradients become zero in eight bits, because all of them are below
# 2⁻¹⁰ here. The blocks learn nothing, but the embedding and the head still learn, so the loss falls more slowly.
# **Underflow does not show in the log.** To find it, compare with a 16-bit run, or count the zeros. Training also
# breaks if the weights are rounded after each step, because small steps vanish (lesson 08). These parts stay in 16 or
# 32 bits:
#
# | stays wide | because |
# |---|---|
# | master weights, gradients summed over ranks, Adam's moments | small steps and long sums |
# | embedding, head and loss | a small part of the time, and the most sensitive part |
# | norms, softmax, residual sums | no matmuls, so no gain |
# | products of queries and keys, and of probabilities and values | a small part of the time in short sequences |
#
# In real models outliers can *grow*. A model of 7 billion weights with SwiGLU trained well in FP8 and diverged after
# about 200 billion tokens ([Fishman and others, 2024](https://arxiv.org/abs/2409.12517), on Gaudi 2). A short test
# does not show this.

# %% [markdown] id="blocks-idea"
# ## A matmul with a scale for each block
#
# Now you write the matmul of MXFP8. A linear layer needs three products, and each product sums over a different
# dimension:
#
# | product | sums over | so blocks of 32 lie along |
# |---|---|---|
# | Y = X Wᵀ | inputs | the rows of X and of W |
# | dX = dY W | outputs | the rows of dY and of Wᵀ |
# | dW = dYᵀ X | tokens | the rows of dYᵀ and of Xᵀ |
#
# A scale can be taken out of a sum only if all terms share it. Therefore each matrix is quantised **twice**, once for
# each direction. The derivative of rounding is zero almost everywhere, so with it the weights would not learn. The
# backward pass ignores the rounding, which is called a **straight-through** gradient.
#
# > **Exercise 08b.1** — Write `quantise` and `BlockMatmul`. The scale of a block is the largest power of two with
# > which the block's largest number stays within 448. All dimensions are multiples of 32. The trial compares your
# > results with whole matrices that were rounded to eight bits and multiplied in `float32`. Each rank has some
# > columns of X and W, so your blocks never extend over ranks.


# %% id="blocks-own" tags=["exercise"]
# %%writefile "{lab.work}/my_blocks.py"
import torch

BLOCK, LARGEST = 32, 448


def quantise(matrix):
    """Return the matrix in E4M3, and the scales [rows, blocks along k, 1]."""
    rows, k = matrix.shape
    blocks = matrix.reshape(rows, k // BLOCK, BLOCK)
    ### BEGIN SOLUTION
    ### GAP scales = ...  # a power of two for each block; a block may be all zeros
    ### GAP values = ...
    largest = blocks.abs().amax(2, keepdim=True)
    largest = torch.where(largest == 0, 1, largest)
    scales = torch.exp2(torch.floor(torch.log2(LARGEST / largest)))
    values = (blocks * scales).to(torch.float8_e4m3fn)
    ### END SOLUTION
    return values, scales


def dequantise(values, scales):
    """Return the matrix [rows, k] that the eight bits stand for, with the type of the scales."""
    ### BEGIN SOLUTION
    ### GAP return ...
    return (values.to(scales.dtype) / scales).flatten(1)
    ### END SOLUTION


def product(a, b):
    """Return a bᵀ, summed over the rows of both, with both factors in eight bits."""
    return dequantise(*quantise(a)) @ dequantise(*quantise(b)).T


class BlockMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        """[rows, k] and [outputs, k] → [rows, outputs]"""
        ### BEGIN SOLUTION
        ### GAP ctx.save_for_backward(...)  # what backward needs
        ### GAP return ...
        ctx.save_for_backward(*quantise(x.T), weight)  # one byte for each number of x
        return product(x, weight)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad):
        ### BEGIN SOLUTION
        ### GAP return ...  # the gradients of x and of the weight
        values, scales, weight = ctx.saved_tensors
        dx = product(grad, weight.T)
        dweight = dequantise(*quantise(grad.T)) @ dequantise(values, scales).T
        return dx, dweight
        ### END SOLUTION


# %% id="blocks-trial" tags=["exercise"]
blocks_trial = lab.submit(trial.recipe("blocks-trial", "work/my_blocks.py", "blocks"))
blocks_trial.watch()

# %% id="blocks-check" tags=["check"]
check.ex08b_blocks(blocks_trial)

# %% [markdown] id="blocks-why" tags=["solution"]
# The solution saves Xᵀ already quantised, so the activation takes one byte per number until backward, not two. The
# weight stays as it is, because it is stored anyway. On a GPU, `product` is one kernel that multiplies eight bits and
# applies the scales to the partial sum of each block. PyTorch's kernel for this is `torch._scaled_mm`.

# %% [markdown] id="bytes-idea"
# ## How many bytes do eight bits save?
#
# FSDP (lesson 11) gathers the weights of each layer before it computes. If the matmul quantises them anyway, each rank
# can quantise its shard **before** the gather and send one byte per weight: `--fp8-param-gather`. The model `tiny` has
# 1,858,304 parameters, of which 786,432 are matrices of linear layers. Embeddings, norms and biases are still sent in
# bf16.
#
# **Predict.** By what factor do the bytes of a gather of all parameters shrink?

# %% id="bytes-guess"
### BEGIN SOLUTION
### GAP guess_shrink = ...  # your number in place of the dots
guess_shrink = 2
### END SOLUTION

# %% id="bytes-saved-file"
# %%writefile "{lab.work}/saved_bytes.py"
import torch
from parallel.products import WeightWork
from torch import nn
from training.eight_bits import E4M3, EightBits, linear

ROWS, WIDTH = 512, 256
x = torch.randn(ROWS, WIDTH, dtype=torch.bfloat16, requires_grad=True)
norm = nn.LayerNorm(WIDTH, dtype=torch.bfloat16)
up, down = (nn.Parameter(torch.randn(size, dtype=torch.bfloat16))
            for size in ((4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)))  # fmt: skip


def saved(eight):
    """Count the bytes that norm, matmul, GELU and matmul keep for backward, without weights."""
    kept, weights = {}, {one.data_ptr() for one in (up, down, *norm.parameters())}

    def keep(one):
        if one.data_ptr() not in weights:
            kept[one.data_ptr()] = one
        return one

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one):
        hidden = linear(eight, norm(x), up, None, WeightWork(returned=True))
        linear(eight, nn.functional.gelu(hidden), down, None, WeightWork(returned=True))
    return sum(one.nbytes for one in kept.values())


print(f"bf16 keeps {saved(None) / ROWS:.2f} bytes per token")
for recipe in ("tensorwise", "mxfp8"):
    print(f"{recipe} keeps {saved(EightBits(recipe, E4M3)) / ROWS:.2f} bytes per token")

# %% id="bytes-run"
shrink = predict("08b: bytes of a gather in 16 bits, relative to 8 bits", guess_shrink)


def sharded(name, **more):
    return gpt.recipe(
        name, nodes=2, gpus_per_node=2, zero=3, precision="bf16", fp8_format="hybrid", iterations=2, **more
    )  # fmt: skip


gathers = {
    "16 bits": lab.submit(sharded("gather-16")),
    "8 bits": lab.submit(sharded("gather-8", fp8_param_gather=True)),
}
kept = lab.submit(program.recipe("saved-bytes", "work/saved_bytes.py")).require()

# %% id="bytes-see"
sent = {
    name: int(re.search(r"sends to a rank: (\d+)", run.require().text)[1])
    for name, run in gathers.items()
}
ratio = sent["16 bits"] / sent["8 bits"]
shrink.compare(ratio)
final = {name: run.log.iterations["lm_loss"].tolist() for name, run in gathers.items()}
print(f"bytes sent to a rank: {sent}", f"losses: {final}", sep="\n")
keeps = dict(re.findall(r"^(\w+) keeps ([\d.]+) bytes", kept.text, re.MULTILINE))
keeps = {name: float(number) for name, number in keeps.items()}
pd.Series(keeps, name="bytes that an MLP keeps per token").to_frame()

# %% id="bytes-claim" tags=["claim"]
claim("a gather shrinks by a factor of", ratio, least=1.26, most=1.28)
claim(
    "largest difference of the losses",
    max(abs(a - b) for a, b in zip(*final.values(), strict=True)),
    most=0,
)
claim(
    "what an MLP keeps shrinks by a factor of",
    keeps["bf16"] / keeps["mxfp8"],
    least=1.2,
    most=1.4,
)

# %% [markdown] id="bytes-explain"
# **Explain.** In 16 bits all parameters take 2 × 1,858,304 bytes. In 8 bits they take 786,432 + 2 × 1,071,872 bytes,
# 1.27 times less. If you guessed 2, you forgot the embeddings, which are more than half of this small model. In a
# model of 70 billion weights the factor is close to 2. The losses are equal to the last digit, because all ranks first
# agree on the largest number of the matrix. Gradients are sent as before, because they are sums.
#
# Activations also shrink by less than 2. The input of each matmul takes one byte per number, but the norm and the
# GELU still keep their own inputs in 16 bits. In `mxfp8` there is one scale for 32 numbers. The course's program
# stores a scale in 4 bytes, and Blackwell stores it in one byte. DeepSeek-V3 computes some of these inputs again in
# backward (lesson 09).

# %% [markdown] id="speed-idea"
# ## How much faster is a training step?
#
# The box only emulates eight bits. An H100 multiplies FP8 at up to 1979 TFLOP/s and bf16 at 989
# ([NVIDIA](https://www.nvidia.com/en-us/data-center/h100/), 2022, without sparsity). The course's planner knows both.
# Take Llama 3 with 70 billion weights on 128 H100 with FSDP and full recomputation, 256 sequences per step.
#
# **Predict.** By what factor does FP8 shorten a training step, with an equal layout?

# %% id="speed-guess"
### BEGIN SOLUTION
### GAP guess_faster = ...  # your number in place of the dots
guess_faster = 2
### END SOLUTION

# %% id="speed-see"
faster = predict("08b: step of Llama 70B in bf16, relative to FP8", guess_faster)


def step(precision):
    layout = plan.Layout(
        data=128, zero=3, precision=precision, micro_batch=1, global_batch=256, recompute="full"
    )
    where = plan.cluster("dgx-h100", devices=128)
    parts = plan.predict(plan.preset("llama-70b"), layout, where).table()
    return parts.query("of == 'time'").set_index("part")["value"]


steps = {precision: step(precision) for precision in ("bf16", "fp8")}
gain = steps["bf16"]["total"] / steps["fp8"]["total"]
faster.compare(gain)
seconds = pd.DataFrame(steps)
seconds.assign(times=seconds["bf16"] / seconds["fp8"]).round(2)

# %% id="speed-claim" tags=["claim"]
claim("the planner expects FP8 to be faster by a factor of", gain, least=1.2, most=1.7)
claim(
    "the planner expects matmuls in FP8 to be faster by a factor of",
    steps["bf16"]["matmul"] / steps["fp8"]["matmul"],
    least=1.4,
    most=1.9,
)

# %% [markdown] id="speed-explain"
# *Seconds of one step by part, as the planner predicts them.*
#
# **Explain.** Three things keep the gain below 2. The row `matmul` gains less than 2, because FP8 reaches a smaller
# share of its peak, and because the head stays in bf16. Attention, norms and the optimizer gain nothing. Casting reads
# and writes memory, so the row `memory` grows. PyTorch's authors measured a factor of 1.50 for Llama 3 with 70 billion
# weights on 128 H100 ([2024](https://dev-discuss.pytorch.org/t/enabling-float8-all-gather-in-fsdp2/2359)). A fifth of
# the gain came from gathers in eight bits. The planner assumes gathers in bf16.
#
# Published runs use these scales:
#
# | run | scales | |
# |---|---|---|
# | PyTorch, Llama 3 70B, H100 | per tensor | [2024](https://dev-discuss.pytorch.org/t/enabling-float8-all-gather-in-fsdp2/2359) |
# | DeepSeek-V3, H800 | activations 1 × 128, weights 128 × 128, E4M3 for all | [2024](https://arxiv.org/abs/2412.19437) |
# | NVIDIA, 8 billion weights and 15 trillion tokens | MXFP8, E4M3 for all | [2025](https://arxiv.org/abs/2506.08027) |
#
# Blackwell GPUs apply [a scale for each 32
# numbers](https://nvidia.github.io/TransformerEngine/features/low_precision_training/mxfp8/mxfp8.html) inside the
# matmul itself. In the third run, the rounding of the scale matters. If it is rounded as the standard suggests, the
# largest numbers of some blocks exceed the range, and training can diverge. NVIDIA therefore rounded it in the other
# direction, as you did in exercise 08b.1. The largest number then always fits, and the training matched bf16.
#
# **On real hardware.** Begin with bf16, and keep its loss curve. Then use FP8 with the finest scales for which your
# GPU has fast kernels. Compare the losses over many tokens, because outliers can grow. Blackwell also multiplies 4-bit
# numbers: NVIDIA trained a model of 12 billion weights with them on 10 trillion tokens
# ([2025](https://arxiv.org/abs/2509.25149)).

# %% [markdown] id="home"
# ## To take home
#
# - E4M3 reaches 448 and has 3 mantissa bits. Its error is about 3 %, however fine the scales are.
# - A scale per tensor is enough until numbers differ by more than about 10⁴. Then everything that shares a scale with
#   an outlier becomes zero, and the log does not show it.
# - A scale per row does not help against an outlier channel. Blocks along *k* do.
# - Each of the three matmuls sums over a different dimension, so every matrix is quantised twice.
# - Sums, master weights, norms, head and loss stay in 16 or 32 bits, so bytes and time shrink by a factor of less
#   than 2.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The next cell deletes all runs except the trial of exercise 08b.1.
#
# References: arXiv [2209.05433](https://arxiv.org/abs/2209.05433) (FP8),
# [2310.10537](https://arxiv.org/abs/2310.10537) (MX formats), [2412.19437](https://arxiv.org/abs/2412.19437)
# (DeepSeek-V3), [2409.12517](https://arxiv.org/abs/2409.12517) (outliers of SwiGLU),
# [2402.17762](https://arxiv.org/abs/2402.17762) (massive activations), [2506.08027](https://arxiv.org/abs/2506.08027)
# (training with MXFP8), [2509.25149](https://arxiv.org/abs/2509.25149) (training with NVFP4).

# %% id="clean"
lab.clean(outliers, trained, *gathers.values(), kept, yes=True)
