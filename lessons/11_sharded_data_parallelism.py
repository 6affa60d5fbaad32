# %% [markdown] id="title"
# # 11 Sharded data parallelism
#
# In plain data parallelism, every device keeps the whole model: parameters, gradients and optimizer state. Even on 64
# devices, a model of 13 billion parameters does not fit into 80 GB. It does fit if each device keeps only a **shard**
# of the model. In this lesson you write two ways of sharding, ZeRO-1 and FSDP, in about sixty lines. Then you predict
# how much memory they save, measure what they send, and decide when they are worth their cost.
#
# | | |
# |---|---|
# | You will be able to | follow a parameter through a step of FSDP; shard an optimizer's state, and a layer, by hand; clip sharded gradients; predict the memory of ZeRO-1, 2 and 3; say what each of them sends, with and without accumulation; choose between sharding, tensor and pipeline parallelism |
# | Minutes | 80, and 30 more for exercise 11.2 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 02 and 06 |

# %% id="begin"
import re

import pandas as pd

from course_lib import Lab, check, claim, gpt, plan, predict, program, show, trial

lab = Lab()
MIB = 2**20

# %% [markdown] id="frames-idea"
# ## FSDP keeps a layer whole only while it computes
#
# The parameters of a layer are needed twice in a step: for its forward pass and for its backward pass. The rest of the
# time they only occupy memory. In **FSDP**, also called **ZeRO-3**, every rank therefore keeps 1/*n* of each layer.
# Just before the layer computes, an *all-gather* collects the other shards. They are freed as soon as the layer is
# done. When the gradients are complete, a *reduce-scatter* adds them up over the ranks and leaves each rank its own
# part.
#
# **Predict.** Three ranks train three layers. Count memory in layers: the parameters of one layer are 1 and its
# gradients another 1, so a rank without sharding needs 6. How much does a rank need at most with FSDP?

# %% id="frames-guess"
### BEGIN SOLUTION
### GAP guess_layers = ...  # your number in place of the dots
guess_layers = 2
### END SOLUTION

# %% id="frames-see"
most_layers = predict("11: largest memory of a rank with FSDP", guess_layers, unit="layers")
story = show.moving.fsdp_step(ranks=3, layers=3)
most_layers.compare(max(frame.value for frame in story.frames))
story

# %% [markdown] id="frames-explain"
# *Upper row of a rank: parameters. Lower row: gradients. Blue: parameters that the rank holds. Orange: gradients
# of its own samples only. Green: its part of the mean gradient.*
#
# **Explain.** A rank needs 3.33 layers. If you guessed 2, a third of 6, you counted only what a rank *keeps*. While a
# layer computes, its parameters are whole on every rank, and for a moment its gradients are whole, too. Memory use
# peaks in the backward pass of the *first* layer, when the gradient shards of all other layers exist. In deeper
# models, one whole layer matters less. A hundred layers on 64 ranks need 5 instead of 200. Activations are not
# sharded, because they belong to a rank's own samples.
#
# FSDP also costs time. Each layer is gathered again for backward, and every rank waits for all other ranks in
# each layer.

# %% [markdown] id="zero1-idea"
# ## ZeRO-1 shards only the optimizer state
#
# Optimizer state is the easiest part to shard. Adam keeps two running means per parameter and uses them only in
# `step`. It updates parameter *i* from gradient *i* and state *i* alone, so any rank can update any part of the
# parameters. **ZeRO-1** puts all parameters in one row of numbers and cuts it into *n* equal shards. Rank *r* updates
# shard *r*:

# %% id="zero1-moves"
show.moving.collective("reduce-scatter", 4)

# %% [markdown] id="zero1-steps"
# 1. **reduce-scatter** of the gradients: rank *r* gets the sum of piece *r* and divides it by the number of
#    ranks;
# 2. **step** of an optimizer that knows only this shard, so it has state for 1/*n* of the parameters;
# 3. **all-gather**: every rank gets all new parameters.
#
# The row is padded with zeros (**padding**) to a multiple of the number of ranks. The zeros are never read.
#
# > **Exercise 11.1** — Write ZeRO-1. `dist.reduce_scatter_single(piece, row)` leaves this rank's piece of the sum in
# > `piece`, and `dist.all_gather_single(row, piece)` collects all pieces in `row`. Older versions of PyTorch call
# > these functions `reduce_scatter_tensor` and `all_gather_into_tensor`. The trial trains three models for three
# > steps on 1, 2, 3 and 4 ranks, in float64. It compares them with one Adam that sees all samples, and it checks the
# > size of the optimizer state.

# %% id="zero1-file" tags=["exercise"]
# %%writefile "{lab.work}/my_zero1.py"
import torch
import torch.distributed as dist
from torch.nn.functional import pad


class Zero1:
    def __init__(self, parameters, make_optimizer):  # lambda tensors: Adam(tensors, lr=1e-3)
        self.parameters = list(parameters)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        numbers = sum(p.numel() for p in self.parameters)
        ### BEGIN SOLUTION
        ### GAP self.padding = ...  # how many zeros make it a multiple of the number of ranks?
        self.padding = -numbers % self.size
        ### END SOLUTION
        self.shard = self.row(self.parameters).chunk(self.size)[self.rank].clone()
        ### BEGIN SOLUTION
        ### GAP self.optimizer = make_optimizer([...])  # what does it update?
        self.optimizer = make_optimizer([self.shard])
        ### END SOLUTION

    def row(self, tensors):
        return pad(torch.cat([t.detach().flatten() for t in tensors]), (0, self.padding))

    def step(self):
        gradients = self.row([p.grad for p in self.parameters])
        ### BEGIN SOLUTION
        ### GAP self.shard.grad = ...  # the mean over all ranks, for this shard only
        mine = torch.empty_like(self.shard)
        dist.reduce_scatter_single(mine, gradients)
        self.shard.grad = mine / self.size
        ### END SOLUTION
        self.optimizer.step()
        ### BEGIN SOLUTION
        ### GAP ...  # collect all shards in one row, then copy it into each p with p.data.copy_(…)
        everything = torch.empty_like(gradients)
        dist.all_gather_single(everything, self.shard)
        at = 0
        for p in self.parameters:
            p.data.copy_(everything[at : at + p.numel()].view_as(p))
            at += p.numel()
        ### END SOLUTION


# %% id="zero1-run" tags=["exercise"]
zero1_trial = lab.submit(trial.recipe("zero1-trial", "work/my_zero1.py", "zero1"))
zero1_trial.watch()

# %% id="zero1-check" tags=["check"]
check.ex11_zero1(zero1_trial)

# %% [markdown] id="zero1-why" tags=["solution"]
# `-numbers % size` is the distance to the next multiple: 1 for 47 numbers on 2 ranks, 0 for 84 on 4. The shard is a
# copy, because a view would keep the whole row in memory. If you forget the division by the number of ranks, Adam
# hides the error, because it divides by the size of the gradient, and the loss still falls. But clipping would be
# wrong, and weight decay that is added to the gradient would be wrong too.

# %% [markdown] id="zero1-muon"
# **Muon** ([Jordan, 2024](https://kellerjordan.github.io/posts/muon/)) needs a different cut. It keeps one running
# mean per parameter, the momentum, so its state in float32 takes 4 bytes instead of Adam's 8. But its update is the
# momentum matrix made nearly orthogonal, by a few matmuls of the *whole* matrix. A rank with a slice of the row cannot
# compute it. Programs therefore give each rank whole matrices, or they gather each matrix before the step. Embeddings,
# norms and the head usually stay with Adam. Moonshot AI trained a mixture of 16 billion parameters with Muon and
# ZeRO-1 ([2025](https://arxiv.org/abs/2502.16982)), and gathers each matrix in 16 bits.

# %% [markdown] id="sent-idea"
# ## How much do ZeRO-1 and FSDP send?
#
# DDP calls an all-reduce of the gradients. In lesson 02 you wrote an all-reduce as a ring with two halves. The first
# half is a reduce-scatter, after which every rank has one finished piece of the sum. The second half is an all-gather
# of these pieces. In each half, a rank sends (*n* − 1) / *n* of the row.
#
# **Predict.** ZeRO-1 reduce-scatters gradients and all-gathers parameters. FSDP gathers parameters in forward and
# again in backward, and it reduce-scatters gradients. By what factor do ZeRO-1 and FSDP send more bytes than DDP?

# %% id="sent-guess"
### BEGIN SOLUTION
### GAP guess_zero1, guess_fsdp = ..., ...  # times what DDP sends
guess_zero1, guess_fsdp = 2, 3
### END SOLUTION

# %% [markdown] id="sent-how"
# The program below runs each variant with a row of 4 MB over all four ranks. The network counters of the first node
# tell how many bytes have left it. The program contains its own two halves of the ring, because gloo, which replaces
# NCCL here, implements a reduce-scatter as an all-reduce.

# %% id="sent-file"
# %%writefile "{lab.work}/send_shards.py"
import time

import torch
import torch.distributed as dist
from links.collectives import exchange  # sends one way, receives the other, at once
from observing.node_load import network_bytes

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
row = torch.zeros(1_000_000)
pieces = row.tensor_split(size)


def go_round(steps):
    for step in steps:
        coming = pieces[(rank - step - 1) % size]
        arrived = torch.empty_like(coming)
        exchange(pieces[(rank - step) % size], (rank + 1) % size, arrived, (rank - 1) % size)
        coming.copy_(coming + arrived if step < size - 1 else arrived)


def sent_bytes():
    return sum(out for name, (_, out) in network_bytes().items() if not name.startswith("lo"))


def scatter():
    go_round(range(size - 1))


def gather():
    go_round(range(size - 1, 2 * (size - 1)))


for name, parts in {
    "DDP": [lambda: dist.all_reduce(row)],
    "ZeRO-1": [scatter, gather],
    "FSDP": [gather, gather, scatter],
}.items():
    for _ in range(6):
        dist.barrier()
        began, before = time.perf_counter(), sent_bytes()
        for part in parts:
            part()
        dist.barrier()
        if rank == 0:
            ms, mb = 1e3 * (time.perf_counter() - began), (sent_bytes() - before) / 1e6
            print(f"{name}: {ms:.1f} ms, {mb:.2f} MB", flush=True)
dist.destroy_process_group()

# %% id="sent-run"
zero1_times = predict("11: bytes of ZeRO-1, relative to DDP", guess_zero1, unit="times")
fsdp_times = predict("11: bytes of FSDP, relative to DDP", guess_fsdp, unit="times")
sending = lab.submit(
    program.recipe("send-shards", "work/send_shards.py", nodes=2, gpus_per_node=2)
).require()

# %% id="sent-see"
found = re.findall(r"^(\S+): ([\d.]+) ms, ([\d.]+) MB$", sending.text, re.MULTILINE)
sent = (
    pd.DataFrame(found, columns=["way", "ms", "MB"])
    .astype({"ms": float, "MB": float})
    .groupby("way")
    .median()
)
unit = "MB" if sent["MB"].min() > 1 else "ms"  # in flat mode nothing leaves the machine
halves = {"DDP": 2, "ZeRO-1": 2, "FSDP": 3}
whole = 4 * 3 / 4 if unit == "MB" else sent["ms"]["DDP"] / 2
times = sent[unit] / sent[unit]["DDP"]
zero1_times.compare(times["ZeRO-1"])
fsdp_times.compare(times["FSDP"])
show.predicted(
    {way: count * whole for way, count in halves.items()},
    dict(sent[unit]),
    unit,
    what="left the first node" if unit == "MB" else "time",
)

# %% id="sent-claim" tags=["claim"]
off = 0.1 if unit == "MB" else 0.4  # times vary, bytes do not
if lab.nodes_are_separate:
    claim(
        "bytes of ZeRO-1, relative to DDP",
        times["ZeRO-1"],
        least=1 - off,
        most=1 + 2 * off,
        unit="times",
    )
    claim(
        "bytes of FSDP, relative to ZeRO-1",
        times["FSDP"] / times["ZeRO-1"],
        least=1.5 - off,
        most=1.5 + off,
        unit="times",
    )

# %% [markdown] id="sent-explain"
# *Megabytes that left the first node in one step. The prediction is 3/4 of 4 MB for each half of a ring.*
#
# **Explain.** ZeRO-1 sends as many bytes as DDP, because an all-reduce *is* a reduce-scatter and an all-gather. ZeRO-1
# only runs the optimizer between them. If you guessed 2, you counted messages instead of bytes. There is therefore
# hardly a reason to train without ZeRO-1. The only difference is that the all-gather must be hidden behind the next
# forward pass.
#
# FSDP sends 1.5 times as much, because it gathers once more for backward. With `reshard_after_forward=False`, which
# is close to ZeRO-2, the parameters stay whole from forward to backward. This saves the second gather, but then all
# parameters and activations are in memory at the same time.

# %% [markdown] id="fsdp-idea"
# ## How do you shard a layer by hand?
#
# The parameters of the layer become views of one row. The row has memory only while it is needed. The call
# `row.untyped_storage().resize_(0)` frees the memory but keeps the tensor. Autograd keeps references to the
# parameters for backward, so the tensors must survive. PyTorch's own FSDP does the same.
#
# Two kinds of **hooks** start the communication in backward. A hook on the layer's **output** runs just before the
# backward pass of the layer. A hook on each **parameter** runs when its gradient is complete. The animation shows two
# layers on four ranks:

# %% id="fsdp-moves"
show.moving.fsdp_step(ranks=4, layers=2)

# %% [markdown] id="fsdp-task"
# > **Exercise 11.2** — Write FSDP. The shard of rank *r* is piece *r* of all numbers of the layer, padded with zeros.
# > The trial wraps each layer of three models and makes two steps on 1, 2, 3 and 4 ranks, in float64. It compares the
# > results to ten digits with one model that sees all samples. It also checks that the other layers are freed while
# > one layer computes.

# %% id="fsdp-file" tags=["exercise"]
# %%writefile "{lab.work}/my_fsdp.py"
import torch
import torch.distributed as dist
from torch.nn.functional import pad


class FSDP(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        rank, self.size = dist.get_rank(), dist.get_world_size()
        self.inside = list(layer.parameters())
        row = torch.cat([p.detach().flatten() for p in self.inside])
        ### BEGIN SOLUTION
        ### GAP self.row = ...  # filled up to a multiple of the ranks
        ### GAP shard = ...  # a copy of this rank's piece
        self.row = pad(row, (0, -len(row) % self.size))
        shard = self.row.chunk(self.size)[rank].clone()
        ### END SOLUTION
        self.shard = torch.nn.Parameter(shard)
        start = 0
        for p in self.inside:
            p.data = self.row[start : start + p.numel()].view_as(p)  # from now on a view
            start += p.numel()
            p.register_post_accumulate_grad_hook(self.ready)
        self.bytes = self.row.untyped_storage().nbytes()
        self.free()

    def free(self):
        self.row.untyped_storage().resize_(0)

    def gather(self, *_):
        self.row.untyped_storage().resize_(self.bytes)
        ### BEGIN SOLUTION
        ### GAP ...  # collect the shards of all ranks in the row (yours is self.shard.detach())
        dist.all_gather_single(self.row, self.shard.detach())
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        ### GAP y = self.layer(x)  # what happens before it, after it, and in backward (y.register_hook)?
        self.gather()
        y = self.layer(x)
        self.free()
        y.register_hook(self.gather)
        ### END SOLUTION
        return y

    def ready(self, parameter):
        """Backward has made the gradient of this parameter."""
        if any(p.grad is None for p in self.inside):
            return  # others are still to come
        gradients = pad(
            torch.cat([p.grad.flatten() for p in self.inside]),
            (0, len(self.row) - sum(p.numel() for p in self.inside)),
        )
        self.shard.grad = torch.empty_like(self.shard)
        ### BEGIN SOLUTION
        ### GAP ...  # the mean for this shard; then free what is whole: row and gradients
        dist.reduce_scatter_single(self.shard.grad, gradients)
        self.shard.grad /= self.size
        for p in self.inside:
            p.grad = None
        self.free()
        ### END SOLUTION


# %% id="fsdp-run" tags=["exercise"]
fsdp_trial = lab.submit(trial.recipe("fsdp-trial", "work/my_fsdp.py", "fsdp"))
fsdp_trial.watch()

# %% id="fsdp-check" tags=["check"]
check.ex11_fsdp(fsdp_trial)

# %% [markdown] id="fsdp-why" tags=["solution"]
# An optimizer gets the shards like ordinary parameters: `Adam([one.shard for one in layers])`. PyTorch's FSDP adds
# three things. It gathers the next layer while this one computes. It sends gradients while backward continues.
# Parameters outside all wrapped layers, such as the head, stay whole between forward and backward, because backward
# begins with them.

# %% [markdown] id="clip-idea" tags=["exercise"]
# ## Clipping needs the norm of all shards
#
# One bad batch can give a very long gradient, and a step with it can ruin the weights. **Clipping** limits the length.
# If the norm of the gradient exceeds a limit, all gradients are multiplied by limit / norm. The norm is the square
# root of the sum of all squares, over the whole model. With shards, no rank has all of these squares.
#
# Some parameters are also too small to be worth a gather, such as the weights of the norms. They can stay
# **replicated**, whole on every rank, with the same mean gradient everywhere.
#
# > **Exercise 11.3** — Write `clip(sharded, replicated, max_norm)`. Both lists hold parameters with gradients:
# > `sharded` has this rank's shards, and `replicated` has parameters that are the same on all ranks. The function
# > returns the norm of the whole model's gradient, in which each number counts once. If it exceeds `max_norm`, the
# > function multiplies all gradients by `max_norm / norm`. If the norm is infinite or NaN, all ranks leave their
# > gradients as they are, so that they can skip the step together. One collective with one number is enough.

# %% id="clip-file" tags=["exercise"]
# %%writefile "{lab.work}/my_clip.py"
import torch
import torch.distributed as dist


def clip(sharded, replicated, max_norm):
    ### BEGIN SOLUTION
    ### GAP ...  # the norm of all ranks' gradients, and the factor
    total = sum(p.grad.square().sum() for p in sharded)
    dist.all_reduce(total)
    norm = (total + sum(p.grad.square().sum() for p in replicated)).sqrt()
    if norm.isfinite() and norm > max_norm:
        for p in (*sharded, *replicated):
            p.grad.mul_(max_norm / norm)
    return norm
    ### END SOLUTION


# %% id="clip-run" tags=["exercise"]
clip_trial = lab.submit(trial.recipe("clip-trial", "work/my_clip.py", "clip"))
clip_trial.watch()

# %% id="clip-check" tags=["check"]
check.ex11_clip(clip_trial)

# %% [markdown] id="clip-why" tags=["solution"]
# The squares of the shards are added up over the ranks, and the squares of the replicated gradients are added after
# the `all_reduce`. Before it, they would count once for each rank. All ranks then have the same norm, so they scale by
# the same factor. With different factors, the copies of the replicated parameters would drift apart. An infinite or
# NaN gradient on one rank makes the sum infinite or NaN on all ranks, so the decision to skip needs no message of its
# own.

# %% [markdown] id="memory-idea"
# ## How much memory does each stage save?
#
# Lesson 06 counted bytes per parameter: 4 + 4 + 8 in float32. With bf16 in Megatron-LM, the parameter takes 2,
# its gradient 4 and the optimizer 12. On *d* devices, ZeRO-1 divides the optimizer's bytes by *d*. ZeRO-2 also
# divides the gradients, and ZeRO-3 divides everything.
#
# **Predict.** A model of 13 billion parameters in bf16 runs on 64 devices with 80 GB each, with one sample of 2048
# tokens per device. What is the first stage with which it fits?

# %% id="memory-guess"
### BEGIN SOLUTION
### GAP guess_stage = ...  # "plain", "ZeRO-1", "ZeRO-2" or "ZeRO-3"
guess_stage = "ZeRO-1"
### END SOLUTION

# %% id="memory-see"
stages = ("plain", "ZeRO-1", "ZeRO-2", "ZeRO-3")
fitting = predict("11: first stage of ZeRO with which the model fits", guess_stage, choices=stages)
large = {}
for stage, name in enumerate(stages):
    layout = plan.Layout(
        data=64, zero=stage, precision="bf16", micro_batch=1, global_batch=64, recompute="none"
    )
    on_64 = plan.predict(plan.preset("13b"), layout, plan.cluster("juwels-booster", devices=64))
    large[name] = on_64.fullest.parts
fitting.compare(next(name for name in stages if sum(large[name].values()) < 80e9))
show.memory_kinds(large, limit_bytes=80e9)

# %% [markdown] id="memory-explain"
# **Explain.** With 64 devices, the optimizer's share nearly vanishes. But ZeRO-1 keeps 2 + 4 bytes for each of 12.85
# billion parameters (13 is rounded). This is 77 GB, and nearly 80 GB with a 64th of the optimizer state, so
# activations no longer fit. The figure counts in GiB, and 80 GB are 74.5 GiB. ZeRO-2 leaves nearly half of a device
# free, and ZeRO-3 leaves three quarters free.
#
# You can check these plans with a small model of eight layers and one sample on each of four devices. The program of
# the course trains it without sharding, with ZeRO-1 (`--use-distributed-optimizer`), and with [PyTorch's
# FSDP](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html) (`--use-torch-fsdp2`). In your own
# program, PyTorch's FSDP takes a few lines:
#
# ```python
# mesh = init_device_mesh("cuda", (world_size,))
# for layer in model.layers:
#     fully_shard(layer, mesh=mesh)
# fully_shard(model, mesh=mesh)
# ```
#
# Each parameter is then a **DTensor**: a tensor that knows its mesh and holds only this rank's shard.

# %% id="memory-run"
model = {
    "nodes": 2,
    "gpus_per_node": 2,
    "num_layers": 8,
    "vocab_size": 1024,
    "mock_data": True,
    "micro_batch": 1,
    "iterations": 5,
    "memory": (3, 5),
}
runs = {
    name: lab.submit(gpt.recipe(f"shards-{stage}", zero=stage, **model))
    for name, stage in {"plain": 0, "ZeRO-1": 1, "FSDP": 3}.items()
}
show.memory_compare({name: run.require().memory for name, run in runs.items()}, by="share")


# %% id="memory-plan"
def planned_mib(run):
    recipe = run.recipe
    estimate = plan.predict(gpt.model(recipe), gpt.layout(recipe), plan.box(), "course")
    return sum(estimate.fullest.parts.values()) / MIB


def peak_mib(run):
    """The median of the four ranks, because layers come and go at different moments on each."""
    peaks = [sum(run.memory[rank].peak_composition.values()) for rank in range(4)]
    return pd.Series(peaks).median() / MIB


planned = {name: planned_mib(run) for name, run in runs.items()}
measured = {name: peak_mib(run) for name, run in runs.items()}
show.predicted(planned, measured, "MiB", what="memory at the peak")

# %% id="memory-claim" tags=["claim"]
for name in runs:
    claim(
        f"{name}: planned peak, relative to the measured peak",
        planned[name] / measured[name],
        least=0.85,
        most=1.1,
        unit="times",
    )
claim(
    "peak with FSDP, relative to no sharding",
    100 * measured["FSDP"] / measured["plain"],
    least=35,
    most=60,
    unit="%",
)

# %% [markdown] id="memory-words"
# *Two steps of each run, stretched to the same width.* The floor of the FSDP curve is a quarter of the floor without
# sharding. Above it, activations rise and fall, because no stage shards them. The small peaks in between are layers
# that are gathered and freed. The ZeRO-1 curve has two plateaus in each step, from buffers that first hold the summed
# gradients and then the gathered parameters. Its gradients are also a quarter larger than without sharding, because
# the sum of a rank's shard has its own buffer.

# %% [markdown] id="often-idea"
# ## With FSDP, accumulation costs communication
#
# With four micro-batches, DDP and ZeRO-1 add up the gradients on every rank and send them once (lesson 10). FSDP
# frees the layers, so it must gather them again for each micro-batch. Its gradients are either reduce-scattered for
# each micro-batch, or they stay whole on each rank until the last one. This program keeps them whole.
#
# **Predict.** By what factor is a step with FSDP longer than a step with ZeRO-1, with four micro-batches of one
# sample? Count the halves of a ring first. On the box, one half takes roughly 70 ms, and computing one
# micro-batch takes roughly 100 ms.

# %% id="often-guess"
### BEGIN SOLUTION
### GAP guess_longer = ...  # times
guess_longer = 1.5
### END SOLUTION

# %% id="often-run"
longer = predict(
    "11: step of FSDP with four micro-batches, relative to ZeRO-1", guess_longer, unit="times"
)
submitted = {
    name: lab.submit(gpt.recipe(f"often-{stage}", zero=stage, global_batch=16, **model))
    for name, stage in {"ZeRO-1": 1, "FSDP": 3}.items()
}
often = {name: run.require() for name, run in submitted.items()}


# %% id="often-see"
def step_ms(run):
    """Time of the fastest step that is not recorded."""
    return float(run.log.iterations["elapsed_ms"].iloc[:3].min())


longer.compare(step_ms(often["FSDP"]) / step_ms(often["ZeRO-1"]))
bars = {
    f"{name}, {count} micro-batch{'es' * (count > 1)}": run.memory[0].peak_composition
    for count, group in ((1, runs), (4, often))
    for name, run in group.items()
    if name != "plain"
}
show.memory_kinds(bars)

# %% id="often-claim" tags=["claim"]
claim(
    "step of FSDP with four micro-batches, relative to ZeRO-1",
    step_ms(often["FSDP"]) / step_ms(often["ZeRO-1"]),
    least=1.5,
    most=4.3,
    unit="times",
)
whole_gradients = 4 * often["FSDP"].log.parameter_count / MIB
claim(
    "memory that accumulation adds to FSDP, relative to whole gradients",
    (peak_mib(often["FSDP"]) - measured["FSDP"]) / whole_gradients,
    least=0.7,
    most=1.5,
    unit="times",
)

# %% [markdown] id="often-explain"
# **Explain.** ZeRO-1 needs 2 halves of a ring for any number *m* of micro-batches. FSDP needs 2 *m* + 1 halves if it
# keeps whole gradients, here 9, and otherwise 3 *m*, here 12. A step is not 9/2 times as long, because computing
# takes the same time in both. The numbers above give 1030 ms for FSDP and 540 ms for ZeRO-1, a factor of 1.9. The
# measured factor is larger if FSDP's halves take longer than ZeRO-1's. FSDP sends a message per layer, and gloo's
# reduce-scatter sends twice the bytes.
#
# The whole gradients also use memory that FSDP should save. The figure counts them as *temporary*, because they are
# not shards.
#
# With *one* large micro-batch, FSDP gathers each layer only once for many tokens. If memory is left, keep the layers
# whole between micro-batches, as ZeRO-2 does. If not, recompute activations (lesson 09) to make the micro-batch
# larger.

# %% [markdown] id="pays-idea"
# ## When does FSDP cost little time?
#
# FSDP loses little time if a rank gathers the next layer while it computes the current layer. A layer has *P*
# parameters. Gathering them moves nearly 2 *P* bytes in bf16, and the forward pass of *T* tokens takes 2 *P T* FLOPs.
# *P* cancels out, so the size of the model does not matter. The gather is hidden if the device has enough tokens at
# once.
#
# > **Exercise 11.4** — A device computes `given.tflops` TFLOP/s, and its share of the network is `given.gb_per_s`
# > GB/s. How many tokens per device and micro-batch are needed, so that a gather takes no longer than the forward pass
# > that hides it?

# %% id="pays-given" tags=["exercise"]
given = check.drawn("11.4", tflops=(200, 400, 800), gb_per_s=(25, 40, 50))
given

# %% id="pays-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP tokens_needed = ...
gather_s, token_s = 2 / (given.gb_per_s * 1e9), 2 / (given.tflops * 1e12)  # for each parameter
tokens_needed = gather_s / token_s
### END SOLUTION

# %% id="pays-check" tags=["check"]
check.ex11_tokens(tokens_needed, given)

# %% [markdown] id="pays-why" tags=["solution"]
# The number is FLOP/s divided by bytes/s, and it is the same for every layer. With 400 TFLOP/s and 50 GB/s a device
# needs 8000 tokens, one sequence of 8192 or four of 2048. Backward needs about as many tokens, because twice the
# arithmetic hides both a gather and a reduce-scatter. If gradients are summed in float32, backward needs 1.5 times as
# many. With a tenth of the network, a device needs 80,000 tokens at once, and no large model has room for so many
# activations. In this case, use **hybrid sharding**: shard inside a node and replicate between nodes.

# %% [markdown] id="hold-idea"
# ## Are the gathers exposed on this machine?
#
# By the rule of exercise 11.4, a device with *C* FLOP/s and a link with *W* bytes/s needs (*b* / 2) · *C* / *W* tokens
# at once. Here *b* is the number of bytes per parameter. In a ring of four, three quarters of these tokens are enough.
# In lesson 03, the same number per *step* hid the all-reduce. FSDP needs it in every *micro-batch*.
#
# With fewer tokens, a part of each gather is exposed. On the box all of it is exposed, because gloo gathers a layer
# before the layer computes. So the forward pass becomes longer by the factor 1 + *r* / *t*. Here *r* is the number of
# tokens by the rule, and *t* is the number of tokens of the run.
#
# The next run has two wide layers and no sharding. Its forward pass shows *C*, and *W* is the link of the box:

# %% id="hold-known"
wide = model | {
    **{"num_layers": 2, "hidden_size": 512, "vocab_size": 256},
    **{"iterations": 6, "memory": (2, 6)},
}
whole = lab.submit(gpt.recipe("wide-whole", zero=0, **wide)).require()


def forward_ms(run):
    """Return the time of a forward pass, the median over the ranks, in the faster step."""
    phases = pd.concat([run.memory[rank].phases for rank in range(4)])
    forward = phases[phases["phase"] == "forward"]
    lasted_us = forward["end_us"] - forward["begin_us"]
    return float(lasted_us.groupby(forward["step"]).median().min()) / 1000


tokens = gpt.model(whole.recipe).sequence
flop_per_s = 2 * whole.log.parameter_count * tokens / (forward_ms(whole) / 1000)
link_bytes_per_s = (lab.site.link_gbit or 1.0) * 1e9 / 8
print(f"C = {flop_per_s / 1e9:.1f} GFLOP/s, W = {link_bytes_per_s / 1e9:.3f} GB/s, t = {tokens}")

# %% [markdown] id="hold-predict"
# **Predict.** Each parameter has 4 bytes. By what factor is the forward pass longer with FSDP?

# %% id="hold-guess"
### BEGIN SOLUTION
### GAP guess_forward = ...  # times
guess_forward = 1.2
### END SOLUTION

# %% id="hold-run"
slower = predict("11: forward pass with FSDP, relative to no sharding", guess_forward, unit="times")
sharded = lab.submit(gpt.recipe("wide-sharded", zero=3, **wide)).require()
slower.compare(forward_ms(sharded) / forward_ms(whole))


# %% id="hold-see"
def tokens_by_rule(plain):
    rate = 2 * plain.log.parameter_count * tokens / (forward_ms(plain) / 1000)
    return 3 / 4 * 4 / 2 * rate / link_bytes_per_s


def tokens_by_run(plain, fsdp):
    return tokens * (forward_ms(fsdp) / forward_ms(plain) - 1)


pairs = {"8 layers of width 128": (runs["plain"], runs["FSDP"]), "2 of width 512": (whole, sharded)}
needed = pd.DataFrame(
    {
        name: {"by the rule": tokens_by_rule(pair[0]), "by the run": tokens_by_run(*pair)}
        for name, pair in pairs.items()
    }
).T
needed.round().astype(int)

# %% id="hold-claim" tags=["claim"]
if lab.site.box and lab.nodes_are_separate:
    claim(
        "tokens that hide a gather of two wide layers, by the rule relative to the run",
        needed["by the rule"].iloc[1] / needed["by the run"].iloc[1],
        least=0.3,
        most=1.7,
        unit="times",
    )

# %% [markdown] id="hold-explain"
# *Tokens per device and micro-batch that would hide the gathers of a forward pass.*
#
# **Explain.** The gathers take longer than the forward pass that could hide them. If you guessed a factor near 1, you
# expected FSDP to hide its gathers at any size. In the rule, the number of parameters cancels, and *C* remains. Narrow
# matmuls reach fewer FLOP/s, so the rule asks for fewer tokens with small layers. But the run with small layers needs
# far more tokens than the rule says, because each of its many small gathers costs a latency that the rule leaves out.
#
# **On real hardware.** In 2024 Meta trained Llama 3 with 405 billion parameters on 16,384 H100s ([section
# 3.3](https://arxiv.org/abs/2407.21783)). Each device did 400 TFLOP/s and had 50 GB/s of network. The eight devices of
# a node shared every matrix, and the shards of FSDP were on different nodes. With *b* = 2 the rule asks for 8,000
# tokens at once. Meta's micro-batch was one sequence of 8,192 tokens, just enough to hide one gather. Meta kept the
# gathered parameters of a layer after forward, to avoid the second gather.

# %% [markdown] id="pays-explain"
# How does sharding compare with the other ways to divide a model? **Tensor parallelism** sends activations, four times
# per layer, and the arithmetic waits for them. More tokens mean more bytes, so it needs the fastest link.
# **Pipelines** send little, but they need many micro-batches to keep the bubble small. **Sharding** sends parameters,
# so its cost per token falls with more tokens per device. More devices at a fixed global batch raise this cost. To
# choose, read the figure from the top:
#
# ![A ladder of questions. Do the model, its optimizer and one sample fit into one device? Copy it. Is one sample too long for a device, even with recomputation? Context parallelism. Do the activations take most of the memory? Smaller micro-batches, 16 bits, recomputation. Does the model have experts, which hold most of its parameters? Expert parallelism. Does it fit if the devices shard the optimizer's state and the gradients? ZeRO-1 or 2. Is there a sample for every device, and a link that carries the model once more? ZeRO-3. Are the devices connected by a fast link? Tensor parallelism. Otherwise: pipeline parallelism.](../images/which_cut.svg)
#
# *The numbers in parentheses are lessons. ZeRO-1 can be combined with every other method. ZeRO-3 and pipelines are
# seldom combined, because each micro-batch would gather all layers of its stage.*

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Gather the next layer before the current layer computes. You need a second buffer,
# > `async_op=True`, and a `wait()` when the layer is needed. How much does a rank hold at most now? The trial accepts
# > this as long as the layer *before* is freed.

# %% [markdown] id="home"
# ## To take home
#
# - FSDP: shard, gather, compute, free; gather again, compute, reduce-scatter, free.
# - ZeRO-1 keeps 1/*d* of the optimizer state on each device. It sends as many bytes as DDP.
# - FSDP keeps 1/*d* of everything except the activations. With one micro-batch it sends 1.5 times as much as
#   ZeRO-1.
# - With *m* micro-batches, FSDP needs 3 *m* halves of a ring, or 2 *m* + 1 if it keeps whole gradients. ZeRO-1 needs
#   2.
# - To clip, add up the squares of all shards with one all-reduce. Replicated gradients count once.
# - The number of parameters is seldom a multiple of the number of ranks, so pad the row.
# - A gather can be hidden if a device has at least (*b* / 2) · *C* / *W* tokens in each micro-batch.
# - With torch's own tools: `fully_shard`; lesson 11b.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The trials stay, so that you can repeat their checks. Your programs stay too.
#
# **References**
#
# - Rajbhandari and others (2020), [ZeRO: Memory Optimizations Toward Training Trillion Parameter
#   Models](https://arxiv.org/abs/1910.02054).
# - PyTorch, [fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html).
# - Meta (2024), [The Llama 3 Herd of Models](https://arxiv.org/abs/2407.21783).
# - Jordan (2024), [Muon](https://kellerjordan.github.io/posts/muon/); Moonshot AI (2025), [Muon is Scalable for LLM
#   Training](https://arxiv.org/abs/2502.16982).

# %% id="clean"
lab.clean(sending, *runs.values(), *often.values(), whole, sharded, yes=True)
