# %% [markdown] id="title"
# # 13b Long sequences by hand
#
# A book, an hour of sound, a map of the weather in fine squares: one sample can be longer than a device. Tensor
# parallelism does not help far, since it cuts no finer than there are heads. **Context parallelism** cuts the sequence
# itself: each rank has some of its positions, all layers, and all weights. Only attention notices. In this lesson you
# deal out the positions so that nobody waits, write the attention, and find the gradients that are one sum short.
#
# | | |
# |---|---|
# | You will be able to | cut a causal sequence so that all ranks have the same to do; write attention over ranks, forward and backward; name the one sum that context parallelism adds, and what it sends; tell which cut makes a model fit |
# | Minutes | 35 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lesson 13 |

# %% id="begin"
import re

import pandas as pd

from course_lib import Lab, check, claim, plan, predict, program, show, trial

lab = Lab()

# %% [markdown] id="pieces-idea"
# ## Who has the late positions
#
# Norms, MLPs and residuals work on each position alone: cut as you like. Causal attention does not. Each position looks
# back at all before it, so position 0 looks at one and position 6143 at 6144. Cut such a sequence into four
# pieces, one after the other, and rank 3 has the late ones.
#
# The program below computes attention over 6144 positions on four ranks, each for its own positions. First cut in order;
# then each rank takes one early eighth and one late one, so that all have equally many pairs. A step ends when the
# last rank is done.
#
# **Predict.** How many times as long does the first take as the second?

# %% id="pieces-guess"
### BEGIN SOLUTION
### GAP guess_longer = ...  # your number in place of the dots
guess_longer = 4
### END SOLUTION

# %% id="pieces-file"
# %%writefile "{lab.work}/time_pieces.py"
import statistics
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size, length = dist.get_rank(), dist.get_world_size(), 6144
torch.manual_seed(0)
queries, keys, values = torch.randn(3, length, 64)


class LookBack(torch.nn.Module):
    """Attention of positions that follow each other; keys behind them are never touched."""

    def forward(self, first, last):
        scores = queries[first:last] @ keys[:last].T / 8
        ahead = torch.ones(last - first, last - first, dtype=torch.bool).triu(1)
        scores[:, first:].masked_fill_(ahead, float("-inf"))
        return scores.softmax(-1) @ values[:last]


look_back = LookBack()
piece = length // (2 * size)
ways = {
    "in order": [2 * rank, 2 * rank + 1],
    "early and late": [rank, 2 * size - 1 - rank],
}
for name, pieces in ways.items():
    steps = []
    for _ in range(11):
        dist.barrier()
        began = time.perf_counter()
        for number in pieces:
            look_back(number * piece, (number + 1) * piece)
        mine = time.perf_counter() - began
        dist.barrier()
        steps.append((time.perf_counter() - began, mine))
    whole, mine = (1e3 * statistics.quantiles(one, n=4)[0] for one in zip(*steps, strict=True))
    print(f"{name}: rank {rank} computed {mine:.1f} ms of {whole:.1f} ms", flush=True)
dist.barrier()

# %% id="pieces-run"
longer = predict("13b: a step with pieces in order over one with early and late", guess_longer)
timed = lab.submit(
    program.recipe("time-pieces", "work/time_pieces.py", nodes=2, gpus_per_node=2)
).require()

# %% id="pieces-see"
found = pd.DataFrame(
    re.findall(r"^(.+): rank (\d) computed ([\d.]+) ms of ([\d.]+) ms", timed.text, re.MULTILINE),
    columns=["way", "rank", "computed", "whole"],
).astype({"rank": int, "computed": float, "whole": float})
whole_ms = found.groupby("way")["whole"].median()
ratio = whole_ms["in order"] / whole_ms["early and late"]
longer.compare(ratio)
computed = found.pivot(index="rank", columns="way", values="computed")
in_order, pairs = computed["in order"], {"in order": (3, 7, 11, 15), "early and late": (9,) * 4}
unit_ms = computed.to_numpy().sum() / 72  # of one eighth that looks back at one eighth
show.predicted(
    {f"{way}, rank {rank}": unit_ms * pairs[way][rank] for way in pairs for rank in range(4)},
    {f"{way}, rank {rank}": computed[way][rank] for way in pairs for rank in range(4)},
    unit="ms",
    what="computing",
)

# %% id="pieces-claim" tags=["claim"]
claim("cut in order, a step takes longer by", ratio, least=1.1, most=1.9, unit="times")
claim(
    "the last rank has several times the work of the first",
    in_order[3] / in_order[0],
    least=2.5,
    unit="times",
)

# %% [markdown] id="pieces-explain"
# *"Predicted" counts pairs of eighths, 3, 7, 11, 15 against 9 for each, and shares out the measured time.*
#
# **Explain.** By count, rank 3 looks back at five times as much as rank 0, but the step is not five times too long: it lasts as long
# as rank 3 needs, 15 where 9 would do. That is 1.67 times. Measured it is less: each piece has costs that do not grow with its
# pairs, and ranks with equal counts are not equally fast (see the bars). The others wait, and no faster link mends it.
#
# > **Exercise 13b.1** — Write `pieces(length, rank, size)`: the positions of a rank as a list, so that all ranks
# > have equally many, and equally much to look back at. `2 * size` divides the length.


# %% id="ex1-gap" tags=["exercise"]
def pieces(length, rank, size):
    ### BEGIN SOLUTION
    ### GAP return ...
    each = length // (2 * size)
    starts = rank * each, (2 * size - 1 - rank) * each
    return [start + place for start in starts for place in range(each)]
    ### END SOLUTION


# %% id="ex1-check" tags=["check"]
check.ex13b_pieces(pieces)
show.ranks([pieces(32, rank, 4) for rank in range(4)])

# %% [markdown] id="context-idea"
# *The squares are 32 positions; each colour is a rank.*
#
# ## One sum short
#
# Queries stay where they are. Keys and values of all positions are gathered: forward an all-gather, backward, as
# lesson 13 found, a reduce-scatter, since every rank used them.

# %% id="context-moves"
show.moving.collective("all-gather", ranks=4)

# %% [markdown] id="context-predict"
# The program below does this with the course's own attention (`code/parallel/context_parallel.py`) on four ranks, and
# compares each rank's part with the serial layer: outputs, gradient of *x*, gradient of the weights.
#
# **Predict.** Which of them is wrong after `backward()`?

# %% id="context-guess"
### BEGIN SOLUTION
### GAP guess_short = ...  # "none", "the outputs", "the gradient of x" or "the gradient of the weights"
guess_short = "none"
### END SOLUTION

# %% id="context-file"
# %%writefile "{lab.work}/compare_context.py"
import torch
import torch.distributed as dist
from parallel.context_parallel import attend, attend_over_ranks, my_positions
from parallel.layout import Group

dist.init_process_group("gloo")
rank, size, length, width = dist.get_rank(), dist.get_world_size(), 48, 8
everyone = Group(list(range(size)), rank, dist.group.WORLD)
sent = [0.0]


def counted(collective):
    """What a rank sends for it round a ring, in numbers."""

    def call(out, given, **more):
        sent[0] += max(out.numel(), given.numel()) * (size - 1) / size
        return collective(out, given, **more)

    return call


dist.all_gather_single = counted(dist.all_gather_single)
dist.reduce_scatter_single = counted(dist.reduce_scatter_single)
torch.manual_seed(0)
x, dy = torch.randn(2, length, width, dtype=torch.float64)
weights = torch.randn(3, width, width, dtype=torch.float64)


def gradients(attention, x, dy):
    """What comes out, and the gradients of x and of the weights."""
    given = x.clone().requires_grad_(), weights.clone().requires_grad_()
    queries, keys, values = ((given[0] @ w).view(-1, 1, 1, width) for w in given[1])
    y = attention(queries, keys, values).view(-1, width)
    return y.detach(), *torch.autograd.grad(y, given, dy)


mine = my_positions(length, everyone)
y, dx, dweights = gradients(attend, x, dy)
found = gradients(lambda *rows: attend_over_ranks(*rows, everyone), x[mine], dy[mine])
names = "the outputs", "the gradient of x", "the gradient of the weights"
summed = found[2].clone()
dist.all_reduce(summed)
if rank == 0:
    for name, one, right in zip(names, found, (y[mine], dx[mine], dweights), strict=True):
        print(f"{name} off by {100 * float((one - right).norm() / right.norm()):.10f} %")
    print(f"sent {sent[0] / x.numel():.4f} times what a layer hands on")
    print(f"summed off by {100 * float((summed - dweights).norm() / dweights.norm()):.10f} %")
dist.barrier()

# %% id="context-run"
short = predict(
    "13b: what is wrong after backward over four pieces",
    guess_short,
    choices=("none", "the outputs", "the gradient of x", "the gradient of the weights"),
)
compared = lab.submit(
    program.recipe("compare-context", "work/compare_context.py", nodes=2, gpus_per_node=2)
).require()

# %% id="context-see"
off = {
    name: float(percent)
    for name, percent in re.findall(r"^(.+) off by ([\d.]+) %", compared.text, re.MULTILINE)
}
short.compare(next((name for name, percent in off.items() if percent > 1e-6), "none"))
told = {name: percent for name, percent in off.items() if name != "summed"}
print("\n".join(f"{name:28} off by {percent:.1f} %" for name, percent in told.items()))

# %% id="context-claim" tags=["claim"]
claim(
    "the gradient of the weights is off by", off["the gradient of the weights"], least=30, unit="%"
)
claim("and right after one more sum over the ranks", off["summed"], most=1e-8, unit="%")

# %% [markdown] id="context-explain"
# **Explain.** Each rank's positions gave a part of the weights' gradient, and nobody has added the parts. It is what data
# parallelism does, with positions in the place of samples: all ranks of a context group hold the same weights, and see
# different tokens. So their gradients are summed over `dp` **and** `cp`, in the same all-reduce. (A *sum*, where the loss is
# one over all tokens. Programs that average each rank's loss divide there.) That holds for every weight of the model,
# norms and MLPs too. A test that compares outputs and losses never sees it.
#
# > **Exercise 13b.2** — Write the attention of one head: the backward of `Gather`; queries, keys, values and mask; and
# > in `finish` the sum that is missing. `positions` tells which rows came in. Four ranks try it beside the serial layer.

# %% id="context-own" tags=["exercise"]
# %%writefile "{lab.work}/my_context.py"
import torch
import torch.distributed as dist


class Gather(torch.autograd.Function):
    """Rows of all ranks, rank by rank."""

    @staticmethod
    def forward(ctx, x):
        whole = x.new_empty(len(x) * dist.get_world_size(), *x.shape[1:])
        dist.all_gather_single(whole, x.contiguous())
        return whole

    @staticmethod
    def backward(ctx, grad):
        ### BEGIN SOLUTION
        ### GAP return ...  # each rank's own rows, as lesson 13 has it
        mine = grad.new_empty(len(grad) // dist.get_world_size(), *grad.shape[1:])
        dist.reduce_scatter_single(mine, grad.contiguous())
        return mine
        ### END SOLUTION


class ContextAttention(torch.nn.Module):
    def __init__(self, wq, wk, wv):
        """All weights, whole on every rank."""
        super().__init__()
        self.wq, self.wk, self.wv = (torch.nn.Parameter(weight) for weight in (wq, wk, wv))

    def forward(self, x, positions):
        ### BEGIN SOLUTION
        ### GAP queries, keys, values = ...  # queries of my positions, the others of all
        ### GAP hidden = ...  # [queries, keys]: True where a key lies ahead of the query
        queries = x @ self.wq
        keys, values = Gather.apply(x @ self.wk), Gather.apply(x @ self.wv)
        hidden = Gather.apply(positions)[None, :] > positions[:, None]
        ### END SOLUTION
        scores = queries @ keys.T / queries.shape[1] ** 0.5
        return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ values

    def finish(self):
        """After backward."""
        ### BEGIN SOLUTION
        ### GAP ...  # the sum that is missing
        for parameter in self.parameters():
            dist.all_reduce(parameter.grad)
        ### END SOLUTION


# %% id="context-trial" tags=["exercise"]
context_trial = lab.submit(trial.recipe("context-trial", "work/my_context.py", "context"))
context_trial.watch()

# %% id="context-check" tags=["check"]
check.ex13b_context(context_trial)

# %% [markdown] id="sent-idea"
# ## What it sends, and where it belongs
#
# In units of what one layer hands to the next: forward, each rank sends its keys and its values round the ring, 2 × (*n* − 1) / *n*;
# backward as much again. Tensor parallelism sums four times, and an all-reduce goes round twice: 8 × (*n* − 1) / *n*. And where
# several heads of queries share one of keys and values, as in most models of today, only those few travel.

# %% id="sent"
tensor = 8 * (4 - 1) / 4
context = float(re.search(r"^sent ([\d.]+)", compared.text, re.MULTILINE)[1])  # both ways
print(f"tensor {tensor:.1f}, context {context:.1f}, with 8 heads to a group {context / 8:.2f}")
places = plan.Layout(tensor=2, context=2, data=2, order="tp-cp-dp-pp")
show.ranks({name: plan.groups(places, name) for name in ("tp", "cp", "dp")}, devices_per_node=4)

# %% id="sent-claim" tags=["claim"]
claim(
    "context parallelism sends, of the bytes of tensor parallelism",
    context / tensor,
    least=0.5,
    most=0.5,
)

# %% [markdown] id="sent-explain"
# *Two nodes with four devices: the order `tp-cp-dp`.*
#
# These bytes can also hide. Attention grows with the square of the length, keys and values with the length alone.
# **Ring attention** passes keys and values on piece by piece, computes with one piece while the next comes in, and
# never holds all of them. (The course's program gathers them at once, which is simpler, and enough while keys and
# values are the smaller part of memory.) Hence orders such as `tp-cp-dp`: what cannot hide takes the shortest roads, and
# context comes next. **Ulysses** goes another way: an *all-to-all*, in which everybody sends everybody another piece, turns
# a piece of the positions with all heads into all positions of some heads, and back after attention. It sends less, the more
# ranks there are, and cuts no finer than there are heads.

# %% [markdown] id="weather-idea"
# ## A model that no device holds
#
# Patches of a weather map are a sequence too, and every patch looks at every other: no mask, so ranks take them as they
# come. `train_vit.py` forecasts six hours ahead with such a model. It has the layers of lesson 13 and the gathers of this one,
# and one order string says who does what. Here it has 14.7 million weights. Each needs 16 bytes (itself, its gradient, two
# numbers of Adam's): 235 MB. A device shall have 160 MiB, and there are four.
#
# **Predict.** Which cut lets it train: tensor 4, context 4, either of them, or neither?

# %% id="weather-guess"
### BEGIN SOLUTION
### GAP guess_fits = ...  # "tensor 4", "context 4", "either" or "neither"
guess_fits = "either"
### END SOLUTION

# %% id="weather-run"
fits = predict(
    "13b: what lets 235 MB train on four devices of 160 MiB",
    guess_fits,
    choices=("tensor 4", "context 4", "either", "neither"),
)
weather = lab.work / "weather"


def forecaster(name, device_memory_mib, tensor, context):
    return program.recipe(
        name,
        "train_vit.py",
        nodes=2,
        gpus_per_node=2,
        device_memory_gib=device_memory_mib / 1024,
        data=str(weather),
        **{"embed_dim": 768, "depth": 2, "num_heads": 16, "mlp_ratio": 4},
        **{"train_samples": 8, "valid_samples": 4, "global_batch_size": 4},
        **{"epochs": 1, "warmup_iters": 1, "rank_order": "tp-cp-dp"},
        tensor_model_parallel_size=tensor,
        context_parallel_size=context,
    )


small = {"out": str(weather), "height": 16, "width": 32, "train_years": 1, "times": 16}
made = lab.submit(program.recipe("weather", "make_weather.py", **small)).require()
cuts = {
    "tensor 4": lab.submit(forecaster("tensor-4", 160, tensor=4, context=1)),
    "context 4": lab.submit(forecaster("context-4", 160, tensor=1, context=4)),
}

# %% id="weather-see"
for name, run in cuts.items():
    print(f"{name}: {run.wait()}")
there = [name for name, run in cuts.items() if run.ok]
fits.compare("either" if there[1:] else [*there, "neither"][0])


def found_in(run, wanted):
    return re.findall(wanted, run.text, re.MULTILINE)


for run in cuts.values():
    print(*found_in(run, r"^.*(?:OutOfMemoryError|train loss|Training memory).*$")[:2], sep="\n")
count = found_in(cuts["tensor 4"], r"number of parameters on .*: (\d+)")
share = 100 * float(*count or ["nan"]) / 14.7e6
print(f"tensor 4: {share:.0f} % of the weights on a rank")

# %% id="weather-claim" tags=["claim"]
claim("four devices of 160 MiB train it with tensor 4", cuts["tensor 4"].ok)
claim("and not with context 4", not cuts["context 4"].ok)
claim("of the weights a tensor rank has", share, least=26, most=29, unit="%")

# %% [markdown] id="weather-explain"
# **Explain.** Context parallelism cuts what grows with the *sequence*. Every rank still has all weights, their gradients and
# Adam's numbers, however many ranks there are. (DDP, which sums the gradients, keeps them twice.) Tensor
# parallelism cuts the weights: all but the embedding, the positions, the head and the norms, so a rank has a bit more than a
# quarter. A large model on large maps needs both, and samples are dealt out over `dp` alone: all four ranks read the same ones.
#
# > **Exercise 13b.3** — Devices with 300 MiB are there now. Give the sizes with which all four share *one* model, with
# > as much context as fits. The check also wants to see the losses of tensor 4.

# %% id="weather-own" tags=["exercise"]
### BEGIN SOLUTION
### GAP shared = lab.submit(forecaster("shared", 300, tensor=..., context=...))
shared = lab.submit(forecaster("shared", 300, tensor=2, context=2))
### END SOLUTION
shared.watch()

# %% id="weather-check" tags=["check"]
check.ex13b_shared(shared, cuts["tensor 4"])

# %% [markdown] id="home"
# ## To take home
#
# - Causal work grows along the sequence: each rank takes an early piece and a late one.
# - Queries stay, keys and values travel. Backward of a gather is a reduce-scatter.
# - Weights that see different tokens on different ranks need their gradients summed: over `dp` and `cp`.
# - Context cuts activations, tensor cuts weights. Large models on long sequences take both.
# - Compare gradients with the serial model, and not only losses.

# %% [markdown] id="clean-idea"
# ## Cleaning up

# %% id="clean"
lab.clean(timed, compared, made, *cuts.values(), shared, yes=True)
