# %% [markdown] id="title"
# # 11 Sharded data parallelism
#
# Four devices train one model, and each keeps all of it: the same parameters, the same gradients, the same
# optimizer state, four times over. With 64 devices it is 64 times, and still a model of 13 billion parameters does
# not fit where each has 80 GB. Cut into shards it does. In this lesson you write both ways of cutting, ZeRO-1 and FSDP, in some
# sixty lines; then you predict what they save, measure what they send, and decide when they pay.
#
# | | |
# |---|---|
# | You will be able to | follow a parameter through a step of FSDP; shard an optimizer's state, and a layer, by hand; predict the memory of ZeRO-1, 2 and 3; say what each sends, also when gradients are accumulated; choose between sharding, tensor and pipeline parallelism |
# | Minutes | 45 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 02 and 06 |

# %% id="begin"
import re

import pandas as pd

from course_lib import Lab, check, claim, gpt, plan, predict, program, show, trial

lab = Lab()
MIB = 2**20

# %% [markdown] id="frames-idea"
# ## A parameter's day
#
# A layer's parameters are needed twice in a step: for its forward pass, and for its backward pass. In between, and
# for most of the time, they only lie there. So let every rank keep a **shard**, 1/*n* of each layer. Just before a
# layer computes, an *all-gather* brings its other shards; just after, they are thrown away. The gradients of a layer are
# added up and dealt out by a *reduce-scatter* as soon as they are there. That is **FSDP**, or **ZeRO-3**.
#
# **Predict.** Three ranks, a model of three layers. Count memory in layers: a layer's parameters are 1, its gradients
# another 1, so without sharding a rank needs room for 6. How many does it need at most with FSDP?

# %% id="frames-guess"
### BEGIN SOLUTION
### GAP guess_layers = ...  # your number in place of the dots
guess_layers = 2
### END SOLUTION

# %% id="frames-see"
most_layers = predict("11: room that a rank of FSDP needs", guess_layers, unit="layers")
story = show.moving.fsdp_step(ranks=3, layers=3)
most_layers.compare(max(frame.value for frame in story.frames))
story

# %% [markdown] id="frames-explain"
# *Blue: parameters that a rank holds. Orange: gradients of its own samples alone. Green: its part of the mean.*
#
# **Explain.** Who guessed 2, a third of 6, counted what a rank *keeps*. But while a layer computes it is whole on every
# rank, and so are its gradients for a moment. The fullest moment is the backward pass of the *first* layer, when all
# other shards of gradients are there already. With more layers that one whole layer weighs less and less: a hundred
# layers on 64 ranks need room for 5 instead of 200. The activations are not cut: they belong to a rank's own samples.
#
# Two moments cost: the gather for backward (frames "again"), and that each rank waits for all others in each
# layer. How much, you will measure.

# %% [markdown] id="zero1-idea"
# ## The optimizer first
#
# Cut only what is never needed whole. Adam keeps two running means for each parameter, and looks at
# them once, in `step`. Parameter *i* is moved by gradient *i* and state *i* alone, so any rank may do it for any
# stretch of parameters. (Not with optimizers that look at a matrix as a whole.) **ZeRO-1** puts all parameters in one row, cuts it into *n* equal shards, and rank *r*
# updates shard *r*:

# %% id="zero1-moves"
show.moving.collective("reduce-scatter", 4)

# %% [markdown] id="zero1-steps"
# 1. **reduce-scatter** of the gradients: rank *r* gets the sum of piece *r*, and makes it the mean;
# 2. **step** of an optimizer that knows only that shard, and so has state for 1/*n* of the parameters;
# 3. **all-gather**: every rank gets all new parameters.
#
# The ranks rarely divide the number of parameters. The row is filled up with zeros (*padding*), which
# nobody reads.
#
# > **Exercise 11.1** — Write it. `dist.reduce_scatter_single(piece, row)` leaves this rank's piece of the sum in `piece`,
# > `dist.all_gather_single(row, piece)` all pieces in `row`. (In older versions of PyTorch they are called
# > `reduce_scatter_tensor` and `all_gather_into_tensor`.) The trial takes three models and makes three steps on 1, 2, 3
# > and 4 ranks, in float64, beside one Adam that sees all samples; and it counts the numbers of the state.

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
        ### GAP self.padding = ...  # how many zeros make it a multiple of the ranks?
        self.padding = -numbers % self.size
        ### END SOLUTION
        self.shard = self.row(self.parameters).chunk(self.size)[self.rank].clone()
        ### BEGIN SOLUTION
        ### GAP self.optimizer = make_optimizer([...])  # what is it to update?
        self.optimizer = make_optimizer([self.shard])
        ### END SOLUTION

    def row(self, tensors):
        return pad(torch.cat([t.detach().flatten() for t in tensors]), (0, self.padding))

    def step(self):
        gradients = self.row([p.grad for p in self.parameters])
        ### BEGIN SOLUTION
        ### GAP self.shard.grad = ...  # the mean over all ranks, of this shard alone
        mine = torch.empty_like(self.shard)
        dist.reduce_scatter_single(mine, gradients)
        self.shard.grad = mine / self.size
        ### END SOLUTION
        self.optimizer.step()
        ### BEGIN SOLUTION
        ### GAP ...  # all shards in one row, and from there into each p, by p.data.copy_(…)
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
# `-numbers % size` is what is missing to the next multiple: 1 for 47 numbers on 2 ranks, 0 for 84 on 4. The
# shard is a copy; a view would keep the whole row alive. Whoever forgets the division hardly notices it with Adam, which
# divides by the size of the gradient: losses fall. But clipping is wrong, and so is a weight decay that is added to the
# gradient.

# %% [markdown] id="sent-idea"
# ## What travels
#
# DDP sends an all-reduce of the gradients. In lesson 02 you wrote one as a ring with two halves. In the first,
# every rank ends with one whole piece of the sum: a reduce-scatter. In the second, the pieces go round: an all-gather.
# Each half sends (*n* − 1) / *n* of the row.
#
# **Predict.** DDP all-reduces gradients; ZeRO-1 reduce-scatters gradients and all-gathers parameters; FSDP gathers
# parameters in forward, once more in backward, and reduce-scatters gradients. Give the bytes of ZeRO-1 and of
# FSDP, in units of DDP's.

# %% id="sent-guess"
### BEGIN SOLUTION
### GAP guess_zero1, guess_fsdp = ..., ...  # times what DDP sends
guess_zero1, guess_fsdp = 2, 3
### END SOLUTION

# %% [markdown] id="sent-how"
# The program below does each with a row of 4 MB over all four ranks, and reads from the counters of the first node's
# network how many bytes have left it. (gloo, which stands in for NCCL here, makes a reduce-scatter by reducing
# everything everywhere. So the two halves of the ring are written out.)

# %% id="sent-file"
# %%writefile "{lab.work}/send_shards.py"
import time

import torch
import torch.distributed as dist
from links.collectives import exchange  # sends one way, receives the other, at once
from observing.node_load import Node

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
row = torch.zeros(1_000_000)
pieces = row.tensor_split(size)
node = Node()


def go_round(steps):
    for step in steps:
        coming = pieces[(rank - step - 1) % size]
        arrived = torch.empty_like(coming)
        exchange(pieces[(rank - step) % size], (rank + 1) % size, arrived, (rank - 1) % size)
        coming.copy_(coming + arrived if step < size - 1 else arrived)


def sent_bytes():
    return sum(out for name, (_, out) in node.network().items() if not name.startswith("lo"))


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
zero1_times = predict("11: bytes of ZeRO-1 over DDP's", guess_zero1, unit="times")
fsdp_times = predict("11: bytes of FSDP over DDP's", guess_fsdp, unit="times")
sending = lab.submit(program.recipe("send-shards", "work/send_shards.py", nodes=2, gpus_per_node=2))
sending.require()

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
claim("ZeRO-1 sends what DDP sends", times["ZeRO-1"], least=1 - off, most=1 + 2 * off, unit="times")
claim(
    "FSDP sends half as much again as ZeRO-1",
    times["FSDP"] / times["ZeRO-1"],
    least=1.5 - off,
    most=1.5 + off,
    unit="times",
)

# %% [markdown] id="sent-explain"
# *What left the first node in one step; predicted: 3/4 of 4 MB for each half of a ring.*
#
# **Explain.** Who guessed 2 thought that two messages are more than one. But an all-reduce *is* these two. ZeRO-1
# only does something useful between them: it steps. So it costs no byte, and there is hardly a reason to train without
# it: only the second half has to hide behind the next forward pass, no longer behind backward. FSDP's third half is the gather for
# backward. Who keeps the parameters from forward to backward (`reshard_after_forward=False`, close to ZeRO-2) saves
# it, and has them all in memory when the activations are there as well.

# %% [markdown] id="fsdp-idea"
# ## Then the layers
#
# Now the real thing, for one layer at a time. The parameters of a layer become views of one row. The row is given its
# room when it is needed, and none when it is not: `row.untyped_storage().resize_(0)` frees the memory and leaves
# the tensor standing, so that autograd, which remembers the parameters for backward, still finds them later. PyTorch's own
# FSDP does the same.
#
# Two hooks tell when: one on the layer's **output** runs in backward just before the layer does; one on each
# **parameter** when its gradient is there. Here is what has to happen, for two layers on four ranks:

# %% id="fsdp-moves"
show.moving.fsdp_step(ranks=4, layers=2)

# %% [markdown] id="fsdp-task"
# > **Exercise 11.2** — Write it. The shard of rank *r* is piece *r* of all the layer's numbers, filled up with zeros.
# > The trial wraps each layer of three models, makes two steps on 1, 2, 3 and 4 ranks and compares with the model that sees
# > all samples, in float64 to ten digits; and its layers notice whether the others were freed while they computed.

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
        ### GAP ...  # the shards of all ranks into the row (yours as self.shard.detach())
        dist.all_gather_single(self.row, self.shard.detach())
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        ### GAP y = self.layer(x)  # and before it, after it, and in backward (y.register_hook)?
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
        ### GAP ...  # the mean, for this shard; then away with what is whole: row and gradients
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
# An optimizer gets the shards, `Adam([one.shard for one in layers])`, and never learns that they are parts. What PyTorch
# adds: the next layer is gathered while this one computes, gradients travel beside backward, and what
# lies in no wrapped layer, such as the head, is not freed between forward and backward, since backward begins with it.

# %% [markdown] id="memory-idea"
# ## What it saves
#
# Lesson 06 ended with the bytes for each parameter: 4 + 4 + 8 in float32, and with bf16 as Megatron-LM keeps it 2 for the
# parameter, 4 for its gradient, 12 for the optimizer. With *d* devices ZeRO-1 divides the last by *d*, ZeRO-2 the
# second as well, ZeRO-3 all.
#
# **Predict.** A model of 13 billion parameters in bf16 on 64 devices with 80 GB each, and one sample of 2048
# tokens for every device. From which stage on does it fit?

# %% id="memory-guess"
### BEGIN SOLUTION
### GAP guess_stage = ...  # "plain", "ZeRO-1", "ZeRO-2" or "ZeRO-3"
guess_stage = "ZeRO-1"
### END SOLUTION

# %% id="memory-see"
stages = ("plain", "ZeRO-1", "ZeRO-2", "ZeRO-3")
fitting = predict("11: first stage with which 13 B fit", guess_stage, choices=stages)
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
# **Explain.** With 64 devices the optimizer's share nearly vanishes. But 2 + 4 bytes for each of 12.85 billion parameters (13 is
# rounded) stay with ZeRO-1: 77 GB, and nearly 80 with the optimizer's 64th, before the first activation. (The figure counts in GiB: 80 GB are 74.5.) ZeRO-2 leaves nearly half of a device
# free, ZeRO-3 three quarters.
#
# Do plans hold? The small model, with eight layers, one sample on each of four devices, by the program of the course:
# plain, with ZeRO-1 (`--use-distributed-optimizer`), and with PyTorch's own FSDP (`--use-torch-fsdp2`).

# %% id="memory-run"
model = {
    "nodes": 2,
    "gpus_per_node": 2,
    "num_layers": 8,
    "vocab_size": 1024,
    "mock_data": True,
    "micro_batch": 1,
    "iterations": 7,
    "memory": (5, 7),
}
runs = {
    name: lab.submit(gpt.recipe(f"shards-{stage}", zero=stage, **model)).require()
    for name, stage in {"plain": 0, "ZeRO-1": 1, "FSDP": 3}.items()
}
show.memory_compare({name: run.memory for name, run in runs.items()}, by="share")


# %% id="memory-plan"
def planned_mib(run):
    recipe = run.recipe
    estimate = plan.predict(gpt.model(recipe), gpt.layout(recipe), plan.box(), "course")
    return sum(estimate.fullest.parts.values()) / MIB


def peak_mib(run):
    """The median of the four ranks: layers come and go at another moment on each."""
    peaks = [sum(run.memory[rank].peak_composition.values()) for rank in range(4)]
    return pd.Series(peaks).median() / MIB


planned = {name: planned_mib(run) for name, run in runs.items()}
measured = {name: peak_mib(run) for name, run in runs.items()}
show.predicted(planned, measured, "MiB", what="memory at the peak")

# %% id="memory-claim" tags=["claim"]
for name in runs:
    claim(
        f"the peak planned with {name}, over the measured one",
        planned[name] / measured[name],
        least=0.85,
        most=1.1,
        unit="times",
    )
claim("FSDP lowers the peak", 100 * measured["FSDP"] / measured["plain"], most=60, unit="%")

# %% [markdown] id="memory-words"
# *Two steps of each, every one stretched to the same width.* What is left of the lowest curve are humps: activations, which
# belong to a rank's own samples and are cut by nobody here. The floor is a quarter of what it was. In between, the
# small teeth are layers that come and go. (ZeRO-1 has two plateaus in each step: copies
# that the exchange needs, first to sum the gradients, then to hand out the parameters. And its gradients are a quarter larger than
# those of *plain*, as the sum of a rank's shard has a buffer of its own.)

# %% [markdown] id="often-idea"
# ## Accumulation, and its price
#
# A large batch in four micro-batches: with DDP and ZeRO-1 the gradients pile up on every rank and travel once
# (lesson 10). FSDP has freed the layers after the first micro-batch, so it must gather them for each. And the
# gradients? Either they are reduce-scattered each time, or they wait, whole, on each rank. The program does the second.
#
# **Predict.** Four micro-batches of one sample, the model from above. How many times as long as with ZeRO-1 does a step
# take with FSDP? Count halves of a ring first.

# %% id="often-guess"
### BEGIN SOLUTION
### GAP guess_longer = ...  # times
guess_longer = 1.5
### END SOLUTION

# %% id="often-run"
longer = predict("11: a step of FSDP over ZeRO-1's, four micro-batches", guess_longer, unit="times")
often = {
    name: lab.submit(gpt.recipe(f"often-{stage}", zero=stage, global_batch=16, **model)).require()
    for name, stage in {"ZeRO-1": 1, "FSDP": 3}.items()
}


# %% id="often-see"
def step_ms(run):
    """Of a quick step; without the first, and those that are recorded."""
    return float(run.log.iterations["elapsed_ms"].iloc[1:5].quantile(0.25))


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
    "with four micro-batches a step of FSDP takes longer than one of ZeRO-1",
    step_ms(often["FSDP"]) / step_ms(often["ZeRO-1"]),
    least=1.5,
    unit="times",
)
whole_gradients = 4 * often["FSDP"].log.parameter_count / MIB
claim(
    "what waits are whole gradients, or a little more",
    (peak_mib(often["FSDP"]) - measured["FSDP"]) / whole_gradients,
    least=0.8,
    most=1.5,
    unit="times",
)

# %% [markdown] id="often-explain"
# **Explain.** Halves of a ring, for *m* micro-batches: ZeRO-1 sends 2, whatever *m* is. FSDP that waits sends 2 *m* + 1,
# here 9; FSDP that does not wait 3 *m*, here 12. A step is not 9/2 times as long: its arithmetic stays the same, and hides
# a part of the messages, the slower the link, the less. And waiting brings back what FSDP was there to save: the bar grows by whole gradients.
# (The figure, of rank 0, counts them as *temporary*, the grey part, since they are no shard.)
#
# So accumulation and FSDP are bad friends. FSDP wants *one* large micro-batch: then what it sends is spread over many
# tokens. Where memory is left, keep the layers whole between the micro-batches (ZeRO-2's way). Where it is not, recompute
# activations (lesson 09) to make the micro-batch larger.

# %% [markdown] id="pays-idea"
# ## When it pays
#
# The gather of the next layer can hide behind the arithmetic of this one. A layer has *P* parameters. Gathering them
# moves nearly 2 *P* bytes in bf16; the forward pass of *T* tokens takes 2 *P T* FLOPs. *P* falls out: whether FSDP
# hides does not depend on the size of the model, but on the tokens that a device has at once.
#
# > **Exercise 11.3** — A device computes 400 TFLOP/s, and its share of the network is 50 GB/s. From how many tokens per
# > device and micro-batch on does a gather take no longer than the forward pass that hides it?

# %% id="pays-gap" tags=["exercise"]
### BEGIN SOLUTION
### GAP tokens_needed = ...
tokens_needed = (2 / 50e9) / (2 / 400e12)  # seconds to gather, over seconds to compute a token
### END SOLUTION

# %% id="pays-check" tags=["check"]
check.ex11_tokens(tokens_needed)

# %% [markdown] id="pays-why" tags=["solution"]
# 8000 tokens: one sequence of 8192, or four of 2048. The number is FLOP/s over bytes/s, the same whatever the layer. Backward is
# alike: twice the arithmetic, beside a gather and a reduce-scatter (half as many tokens again, if gradients are summed in
# float32). With a tenth of the network it is 80 000 tokens, and
# no large model has room for so many activations on a device. Then shard inside a node, and copy between nodes
# ("hybrid sharding").

# %% [markdown] id="pays-explain"
# That is how sharding differs from the other two. **Tensor parallelism** sends activations, four times for each layer, in
# the middle of the arithmetic: more tokens mean more bytes, so it wants the fastest road and nothing else.
# **Pipelines** send little, and pay with a bubble that only many micro-batches shrink. **Sharding** sends parameters:
# more tokens make it cheaper, more devices with the same global batch dearer, until each has less than a sample.
# From the top:
#
# ![A ladder of questions. Do the model, its optimizer and one sample fit into one device? Copy it. Is it the activations? Smaller micro-batches, 16 bits, recomputation. Does it fit if the copies share state and gradients? ZeRO-1 or 2. Is there a sample for every device, and a link that carries the model once more? ZeRO-3. Do the devices sit on a fast road? Tensor parallelism. Otherwise: pipeline parallelism.](../images/which_cut.svg)
#
# *In brackets the lessons. ZeRO-1 goes with everything; ZeRO-3 and pipelines seldom go together, since each micro-batch would
# gather all layers of its stage.*

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Gather the next layer before this one computes: a second buffer, `async_op=True`, and a `wait()` at
# > its turn. What does a rank hold at most now? The trial accepts it, as long as the layer *before* is freed.

# %% [markdown] id="home"
# ## To take home
#
# - FSDP: shard, gather, compute, free; gather again, compute, reduce-scatter, free.
# - ZeRO-1 sends what DDP sends, in two halves, and keeps 1/*d* of the state. It costs no byte.
# - FSDP sends half as much again with one micro-batch; with *m* of them 3 *m* halves of a ring (2 *m* + 1 if its gradients wait),
#   where ZeRO-1 sends 2. It keeps 1/*d* of everything but the activations.
# - Ranks seldom divide a row: fill it up, round up.
# - A gather hides if a device has more tokens at once than FLOP/s over bytes/s.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The trials stay, so that their checks can be run again; so do your programs.

# %% id="clean"
lab.clean(sending, *runs.values(), *often.values(), yes=True)
