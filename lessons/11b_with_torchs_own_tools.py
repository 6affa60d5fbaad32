# %% [markdown] id="title"
# # 11b With torch's own tools
#
# You have written data parallelism and FSDP by hand, and you know tensor parallelism and pipelines. PyTorch has a tool
# for each of them. The code of the model stays the same as for one device. A few more lines say how to divide it, and
# PyTorch derives the collectives. In this lesson you predict these collectives and count them. Then you divide a small
# GPT over 2 × 2 ranks yourself.
#
# | | |
# |---|---|
# | You will be able to | arrange ranks in a mesh; read how a DTensor is divided; divide a model over one mesh with `parallelize_module` and `fully_shard`; predict and count the collectives of a step; run a pipeline schedule; load a checkpoint in another layout |
# | Minutes | 55 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 07, 07b and 11 |

# %% id="begin"
import re

import pandas as pd

from course_lib import Lab, check, claim, plan, predict, program, show, trial

lab = Lab()

# %% [markdown] id="mesh-idea"
# ## Which ranks belong together?
#
# Tensor parallelism and data parallelism each need groups of ranks. A **DeviceMesh** arranges the ranks in a
# table and gives each of its dimensions a name:
#
# ```python
# mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
# ```
#
# | | tensor 0 | tensor 1 |
# |---|---|---|
# | data 0 | rank 0 | rank 1 |
# | data 1 | rank 2 | rank 3 |
#
# Ranks are numbered row by row. On each rank, `mesh["tensor"]` contains the ranks of its row, which share one copy of
# the model. `mesh["data"]` contains the ranks of its column.
#
# **Predict.** With which rank does rank 1 average its gradients?

# %% id="mesh-guess"
### BEGIN SOLUTION
### GAP guess_partner = ...  # your number in place of the dots
guess_partner = 0
### END SOLUTION

# %% [markdown] id="dtensor-idea"
# ## How much of a tensor is on a rank?
#
# A **DTensor** is a tensor on a mesh. Its shape is the shape of the whole tensor, and each rank holds a local part. It
# has one **placement** for each dimension of the mesh:
#
# | placement | the ranks along this dimension hold |
# |---|---|
# | `Shard(0)` | different rows |
# | `Shard(1)` | different columns |
# | `Replicate()` | the same numbers |
# | `Partial()` | summands: the tensor is their sum |
#
# **Predict.** A matrix of 8 × 6 numbers has the placements `[Shard(0), Replicate()]` on the mesh above. How many
# of its 48 numbers does each of the four ranks hold?

# %% id="dtensor-guess"
### BEGIN SOLUTION
### GAP guess_numbers = ...
guess_numbers = 12
### END SOLUTION

# %% [markdown] id="dtensor-how"
# The program below answers both questions. It also computes the MLP of lesson 07 with DTensors: *x* times columns of
# *a*, then times rows of *b*. `CommDebugMode` counts the collectives of each line.

# %% id="dtensor-file"
# %%writefile "{lab.work}/look_at_mesh.py"
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.nn import functional

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
rank = dist.get_rank()
for name in ("data", "tensor"):
    print(f"rank {rank}: {name} {dist.get_process_group_ranks(mesh.get_group(name))}", flush=True)

whole = torch.arange(48.0).view(8, 6)
for placements in (
    [Shard(0), Replicate()],
    [Shard(0), Shard(1)],
    [Shard(0), Shard(0)],
    [Replicate(), Replicate()],
):
    local = distribute_tensor(whole, mesh, placements).to_local()
    if rank == 3:
        print(f"{placements} holds {tuple(local.shape)}, {local.numel()} numbers", flush=True)


def count(line, compute):
    """Print the placements of a result, and the collectives that it took."""
    with CommDebugMode() as calls:
        result = compute()
    if rank == 0:
        counts = {str(call).split(".")[-1]: n for call, n in calls.get_comm_counts().items()}
        print(f"{line} gives {result.placements} with {counts or 'no collective'}", flush=True)
    return result


x = distribute_tensor(torch.randn(4, 6), mesh, [Shard(0), Replicate()])
a = distribute_tensor(torch.randn(6, 8), mesh, [Replicate(), Shard(1)])
b = distribute_tensor(torch.randn(8, 6), mesh, [Replicate(), Shard(0)])
h = count("x @ a", lambda: x @ a)
h = count("gelu(h)", lambda: functional.gelu(h))
y = count("h @ b", lambda: h @ b)
count("2 * y", lambda: 2 * y)
count("gelu(y)", lambda: functional.gelu(y))
count("y replicated", lambda: y.redistribute(placements=[Shard(0), Replicate()]))
dist.barrier()

# %% id="dtensor-run"
partner = predict("11b: rank with which rank 1 averages its gradients", guess_partner)
numbers = predict(
    "11b: how many of 48 numbers a rank holds with Shard and Replicate", guess_numbers
)
looked = lab.submit(
    program.recipe("look-at-mesh", "work/look_at_mesh.py", nodes=2, gpus_per_node=2)
).require()

# %% id="dtensor-see"
groups = {
    (int(rank), name): [int(one) for one in members.split(", ")]
    for rank, name, members in re.findall(r"^rank (\d): (\w+) \[(.+)\]", looked.text, re.MULTILINE)
}
partner.compare(sum(groups[1, "data"]) - 1)
held = re.findall(r"^\[(.+)\] holds \((.+)\), (\d+) numbers", looked.text, re.MULTILINE)
numbers.compare(int(held[0][2]))
print(*(f"[{where}]: {shape}" for where, shape, _ in held), sep="\n")
print(*re.findall(r"^.+ gives .+ with .+$", looked.text, re.MULTILINE), sep="\n")
show.ranks({name: [groups[0, name], groups[3, name]] for name in ("data", "tensor")}, 2)

# %% id="dtensor-claim" tags=["claim"]
silent = re.findall(r"^(.+) gives .+ with no collective", looked.text, re.MULTILINE)
claim("the partner of rank 1 in data is rank", sum(groups[1, "data"]) - 1, least=3, most=3)
claim(
    "how many of 48 numbers a rank holds with Shard and Replicate",
    int(held[0][2]),
    least=24,
    most=24,
)
claim("lines, of the six, that call no collective", len(silent), least=4, most=4)

# %% [markdown] id="dtensor-explain"
# *Squares in one colour form a group. Each row is a node.*
#
# **Explain.** Rank 1 averages with rank 3, the other rank of its column. If you guessed 0, you took the row instead.
# The last dimension varies fastest, so tensor ranks are neighbours on one node, as lesson 04 recommends.
#
# Each rank holds 24 numbers. `Shard(0)` halves the matrix over `data`, and `Replicate()` gives both tensor ranks the
# same half. If you guessed 12, you divided by the number of ranks. A tensor is divided only over the dimensions that
# have a `Shard`.
#
# Neither matmul calls a collective. The result of `h @ b` is `Partial`: each tensor rank has a summand. PyTorch delays
# the sum until an operator needs it. `2 * y` doubles each summand and needs no sum. `gelu` is not linear, so PyTorch
# adds the summands first, with a reduce-scatter. If you ask for `Replicate`, the sum is an all-reduce.

# %% [markdown] id="plan-idea"
# ## How many all-reduces does a plan call?
#
# `parallelize_module` turns the parameters of a model into DTensors. A **plan** says how to divide each layer:
#
# - `ColwiseParallel()` divides the outputs of a linear layer, like the first matrix in lesson 07;
# - `RowwiseParallel()` divides its inputs, like the second matrix, and adds the summands of the output.
#
# A linear layer stores its weight as [outputs, inputs], so `ColwiseParallel` shards dimension 0. The next cell shows
# the model, which does not mention ranks:

# %% id="plan-model"
lab.code("trials/mesh/model.py", "PlainAttention", "PlainMLP", "PlainBlock")

# %% [markdown] id="plan-predict"
# Each tensor rank computes its own heads, so the program halves `attention.heads`. It divides one block with this plan
# of six lines:
#
# ```python
# {
#     "attention.query": ColwiseParallel(),
#     "attention.key": ColwiseParallel(),
#     "attention.value": ColwiseParallel(),
#     "attention.out": RowwiseParallel(),
#     "mlp.up": ColwiseParallel(),
#     "mlp.down": RowwiseParallel(),
# }
# ```
#
# In lesson 07, a layer needed four all-reduces, two in forward and two in backward. Here PyTorch applies each entry
# of the plan separately. Each `RowwiseParallel` adds up its output, and each `ColwiseParallel` adds up the gradient
# of its input.
#
# **Predict.** How many all-reduces does this plan call in forward and backward of one block?

# %% id="plan-guess"
### BEGIN SOLUTION
### GAP guess_all_reduces = ...
guess_all_reduces = 4
### END SOLUTION

# %% [markdown] id="gathers-predict"
# The same program then shards the small GPT with `fully_shard`, PyTorch's FSDP. The model has an embedding, two
# blocks, a norm and a head. The program wraps each block, and then the model with the remaining parameters:
#
# ```python
# for block in model.blocks:
#     fully_shard(block, mesh=mesh["data"])
# fully_shard(model, mesh=mesh["data"])
# ```
#
# One all-gather collects the parameters of each wrapped module. FSDP gathers for forward and again for backward
# (lesson 11). Only the parameters outside the blocks stay gathered in between, because backward begins with the head.
#
# **Predict.** How many all-gathers does this model call in forward and backward?

# %% id="gathers-guess"
### BEGIN SOLUTION
### GAP guess_gathers = ...
guess_gathers = 6
### END SOLUTION

# %% id="count-file"
# %%writefile "{lab.work}/count_calls.py"
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from trials.mesh.model import VOCABULARY, WIDTH, same_gpt

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
row = mesh.get_local_rank("data")
columns = "attention.query", "attention.key", "attention.value", "mlp.up"
plan = {name: ColwiseParallel() for name in columns}
plan |= {name: RowwiseParallel() for name in ("attention.out", "mlp.down")}
once = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())


def divided(block, plan):
    parallelize_module(block, mesh["tensor"], plan)
    block.attention.heads //= mesh["tensor"].size()
    return block


def sharded(model):
    for block in model.blocks:
        fully_shard(block, mesh=mesh["data"])
    return fully_shard(model, mesh=mesh["data"])


def calls_of(compute):
    with CommDebugMode() as mode:
        result = compute()
    counts = {"gather": 0, "reduce_scatter": 0, "all_reduce": 0}
    for call, number in mode.get_comm_counts().items():
        counts[next(kind for kind in counts if kind in str(call))] += number
    return result, counts


def compare(name, own, serial, x, dy, here):
    """Count the calls of both passes, and compare with the serial model on all samples."""
    y, forward = calls_of(lambda: own(x[here]))
    _, backward = calls_of(lambda: y.backward(dy[here]))
    right = serial(x)
    right.backward(dy * len(x[here]) / len(x))  # fully_shard averages over the rows
    off = float((y - right[here]).abs().max())
    for one, other in zip(own.parameters(), serial.parameters(), strict=True):
        found = one.grad.full_tensor() if isinstance(one.grad, DTensor) else one.grad
        off = max(off, float((found - other.grad).abs().max()))
    if dist.get_rank() == 0:
        for direction, counts in (("forward", forward), ("backward", backward)):
            print(f"{name}: {direction} {counts}", flush=True)
        print(f"{name}: off by {off:.1e}", flush=True)


torch.manual_seed(0)
x, dy = torch.randn(2, 4, 8, WIDTH, dtype=torch.float64)
for name, more in {"six lines": {}, "seven lines": {"attention": once}}.items():
    block, serial = same_gpt(1).blocks[0], same_gpt(1).blocks[0]
    compare(name, divided(block, more | plan), serial, x, dy, slice(None))

tokens, dy = torch.randint(VOCABULARY, (4, 8)), torch.randn(4, 8, VOCABULARY, dtype=torch.float64)
here = slice(2 * row, 2 * row + 2)
compare("sharded", sharded(same_gpt(1)), same_gpt(1), tokens, dy, here)

both = same_gpt(1)
for block in both.blocks:
    divided(block, plan)
compare("both", sharded(both), same_gpt(1), tokens, dy, here)
if dist.get_rank() == 0:
    for name, one in both.blocks[0].named_parameters():
        print(f"{name} {tuple(one.shape)} is {tuple(one.to_local().shape)} here", flush=True)
dist.barrier()

# %% id="count-run"
all_reduces = predict("11b: all-reduces of a block with a plan of six lines", guess_all_reduces)
gathers = predict("11b: all-gathers of a model with two wrapped blocks", guess_gathers)
counted = lab.submit(
    program.recipe("count-calls", "work/count_calls.py", nodes=2, gpus_per_node=2)
).require()

# %% id="count-see"
calls = pd.DataFrame(
    {
        (name, direction): dict(
            (kind, int(number)) for kind, number in re.findall(r"'(\w+)': (\d+)", counts)
        )
        for name, direction, counts in re.findall(
            r"^(.+): (forward|backward) \{(.+)\}", counted.text, re.MULTILINE
        )
    }
).T
total = calls.groupby(level=0, sort=False).sum()
off = max(map(float, re.findall(r"off by (.+)$", counted.text, re.MULTILINE)))
all_reduces.compare(int(total["all_reduce"]["six lines"]))
gathers.compare(int(total["gather"]["sharded"]))
calls

# %% id="count-claim" tags=["claim"]
claim(
    "all-reduces of a block with a plan of six lines",
    total["all_reduce"]["six lines"],
    least=6,
    most=6,
)
claim(
    "all-reduces of a block with a seventh line",
    total["all_reduce"]["seven lines"],
    least=4,
    most=4,
)
claim("all-gathers of a model with two wrapped blocks", total["gather"]["sharded"], least=5, most=5)
claim("largest difference from the serial model, also of a gradient", off, most=1e-12)

# %% [markdown] id="count-explain"
# **Explain.** The plan of six lines calls six all-reduces. Each of the two `RowwiseParallel` layers calls one in
# forward, and each of the four `ColwiseParallel` layers calls one in backward. Query, key and value share their input,
# but each layer adds up the gradient of this input separately. If you guessed 4, you counted as in lesson 07. A
# seventh line brings the count down to four:
#
# ```python
# "attention": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
# ```
#
# The input of the attention is then *one* DTensor. Its three gradients stay `Partial`, autograd adds them, and one
# all-reduce follows. The results are right in both cases, so only a count shows the difference.
#
# The sharded model calls five all-gathers: three in forward, and two in backward for the blocks. If you guessed 6,
# you counted the gather of the other parameters twice. The gradients take three reduce-scatters.
#
# ## How do both tools share one mesh?
#
# First `parallelize_module` divides the layers over `mesh["tensor"]`. Then `fully_shard` divides each rank's part over
# `mesh["data"]`. The order matters, because FSDP must gather exactly the part of a layer with which a tensor rank
# computes. The next cell shows the parts of a block on rank 0.

# %% id="parts"
parts = re.findall(r"^(\S+) \((.+?),?\) is \((.+?),?\) here", counted.text, re.MULTILINE)
pd.DataFrame(parts, columns=["parameter", "whole", "on one rank"]).set_index("parameter")

# %% [markdown] id="parts-explain"
# The query's matrix is divided over dimension 0 twice and keeps 6 of 24 rows. `attention.out` is divided over
# dimension 1 by tensor parallelism and over dimension 0 by FSDP. The norms are whole on the tensor ranks, so they
# are only halved.
#
# > **Exercise 11b.1** — Write `parallelize(model, mesh)` for the small GPT. It has `embed`, the list `blocks`,
# > `norm` and `head`. This time the norms also work in parallel, as in **sequence parallelism** (lesson 07):
# > between the layers, each tensor rank keeps only its own positions. Activations are [samples, positions, width],
# > so these placements are `Shard(1)`.
# >
# > - The embedding is `RowwiseParallel` with replicated input. Its output is divided by positions, with
# >   `output_layouts=Shard(1)`. The last layer of each attention and each MLP has the same `output_layouts`.
# > - The norms are `SequenceParallel()`.
# > - `PrepareModuleInput` gathers the positions before attention and MLP.
# > - The head gets this rank's positions and returns whole logits.
#
# The trial calls your function on meshes of 1 × 1, 1 × 2, 3 × 1 and 2 × 2 ranks. It compares the parts, the logits
# and all gradients with the serial model. On 2 × 2 ranks it also counts the collectives of the forward pass.

# %% id="own" tags=["exercise"]
# %%writefile "{lab.work}/my_parallelize.py"
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


def parallelize(model, mesh):
    data, tensor = mesh["data"], mesh["tensor"]
    positions = Shard(1)
    ### BEGIN SOLUTION
    ### GAP gathered = PrepareModuleInput(input_layouts=..., desired_input_layouts=...)
    ### GAP around = {"embed": ..., "norm": ..., "head": ...}
    ### GAP inside = {"norm1": ..., "attention": gathered, ...}  # ten layers of a block
    gathered = PrepareModuleInput(input_layouts=positions, desired_input_layouts=Replicate())
    around = {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=positions),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=positions, output_layouts=Replicate()),
    }
    columns = ColwiseParallel()
    inside = {
        "norm1": SequenceParallel(),
        "attention": gathered,
        "attention.query": columns,
        "attention.key": columns,
        "attention.value": columns,
        "attention.out": RowwiseParallel(output_layouts=positions),
        "norm2": SequenceParallel(),
        "mlp": gathered,
        "mlp.up": columns,
        "mlp.down": RowwiseParallel(output_layouts=positions),
    }
    ### END SOLUTION
    parallelize_module(model, tensor, around)
    ### BEGIN SOLUTION
    ### GAP ...  # for each block: its plan, its heads, its shards; then the shards of the model
    for layer in model.blocks:
        parallelize_module(layer, tensor, inside)
        layer.attention.heads //= tensor.size()
        fully_shard(layer, mesh=data)
    fully_shard(model, mesh=data)
    ### END SOLUTION
    return model


# %% id="own-trial" tags=["exercise"]
parallelize_trial = lab.submit(
    trial.recipe("parallelize-trial", "work/my_parallelize.py", "parallelize")
)
parallelize_trial.watch()

# %% id="own-check" tags=["check"]
check.ex11b_parallelize(parallelize_trial)

# %% [markdown] id="own-why" tags=["solution"]
# Forward calls nine all-gathers: three for parameters, five for positions and one for the logits. Positions are
# gathered before each attention, before each MLP and before the head. Forward calls five reduce-scatters: after the
# embedding and at the end of each part. In backward, PyTorch adds the gradients of the five norms over the tensor
# ranks. If you leave the norms out of the plan, the forward pass is still right, but these gradients are wrong.

# %% [markdown] id="stages-idea"
# ## A pipeline is a stage and a schedule
#
# In `torch.distributed.pipelining`, a **PipelineStage** is a rank's part of the model. A **schedule** splits the batch
# into micro-batches, runs the stage, and sends activations and gradients. The program below runs four stages with
# eight micro-batches. It counts for how many micro-batches a stage holds activations at once.

# %% id="stages-file"
# %%writefile "{lab.work}/run_stages.py"
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

dist.init_process_group("gloo")
rank, stages = dist.get_rank(), dist.get_world_size()


def layer(number):
    torch.manual_seed(number)
    return nn.Sequential(nn.Linear(16, 16), nn.GELU()).double()


def loss_of(y, target):
    return (y - target).square().mean()


torch.manual_seed(100)
x, target = torch.randn(2, 32, 16, dtype=torch.float64)
serial = nn.Sequential(*(layer(number) for number in range(stages)))
loss_of(serial(x), target).backward()

for name, schedule in {"GPipe": ScheduleGPipe, "1F1B": Schedule1F1B}.items():
    part, held = layer(rank), []
    stage = PipelineStage(part, rank, stages, torch.device("cpu"))

    def count(*_, stage=stage, held=held):
        held.append(len(stage.fwd_cache) + 1)  # micro-batches that wait for backward, and this one

    part.register_forward_hook(count)
    run = schedule(stage, 8, loss_of)
    run.step(*([x] if rank == 0 else []), target=target, losses=[])
    pairs = zip(part.parameters(), serial[rank].parameters(), strict=True)
    off = max(float((one.grad - other.grad).abs().max()) for one, other in pairs)
    print(f"{name}: stage {rank} holds {max(held)}, off by {off:.1e}", flush=True)
dist.barrier()

# %% id="stages-run"
staged = lab.submit(
    program.recipe("run-stages", "work/run_stages.py", nodes=2, gpus_per_node=2)
).require()

# %% id="stages-see"
found = re.findall(r"(\w+): stage (\d) holds (\d), off by (\S+)", staged.text)
at_once = (
    pd.DataFrame(found, columns=["schedule", "stage", "held", "off"])
    .astype({"stage": int, "held": int, "off": float})
    .pivot(index="schedule", columns="stage", values="held")
)
at_once

# %% id="stages-claim" tags=["claim"]
claim("with GPipe, stage 0 holds micro-batches", at_once[0]["GPipe"], least=8, most=8)
claim("with 1F1B, stage 0 holds micro-batches", at_once[0]["1F1B"], least=4, most=4)
claim(
    "largest difference of a gradient from the serial model",
    max(float(off) for *_, off in found),
    most=1e-12,
)

# %% [markdown] id="stages-explain"
# **Explain.** The gradients equal the gradients of the serial model. With GPipe, every stage holds all eight
# micro-batches. With 1F1B, stage *s* of four holds 4 − *s*, as in lesson 07b. To change the schedule you change one
# name. PyTorch also has interleaved and zero-bubble schedules.

# %% [markdown] id="saved-idea"
# ## Which layouts can read a checkpoint?
#
# `torch.distributed.checkpoint` saves what each rank holds. For a DTensor, it also writes where this part lies in the
# whole tensor. The program below saves a model that is divided over 2 × 2 ranks. Then it loads the files into a model
# with different weights, on a mesh of 4 × 1 and on a single rank.
#
# **Predict.** Which of the two layouts gets exactly the saved weights: `"4 x 1"`, `"1 rank"`, `"both"` or
# `"neither"`?

# %% id="saved-guess"
### BEGIN SOLUTION
### GAP guess_layouts = ...  # "4 x 1", "1 rank", "both" or "neither"
guess_layouts = "neither"
### END SOLUTION

# %% id="saved-file"
# %%writefile "{lab.work}/save_and_load.py"
import sys

import torch
import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from trials.mesh.model import same_gpt

given = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
saves, folder = given["--action"] == "save", given["--folder"]
dist.init_process_group("gloo")
shape = (2, 2) if saves else (dist.get_world_size(), 1)
mesh = init_device_mesh("cpu", shape, mesh_dim_names=("data", "tensor"))
model = same_gpt(1 if saves else 2)
plan = {"mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()}
for block in model.blocks:
    parallelize_module(block, mesh["tensor"], plan)
    fully_shard(block, mesh=mesh["data"])
fully_shard(model, mesh=mesh["data"])

weights = model.state_dict()  # DTensors: each rank's parts, with their places in the whole
(checkpoint.save if saves else checkpoint.load)(weights, checkpoint_id=folder)
whole = {name: one.full_tensor() for name, one in weights.items()}
right = same_gpt(1).state_dict()
equal = sum(torch.equal(whole[name], right[name]) for name in right)
if dist.get_rank() == 0:
    part = tuple(weights["blocks.0.mlp.up.weight"].to_local().shape)
    print(f"mesh {shape}: {equal} of {len(right)} equal; mlp.up is {part} here", flush=True)
dist.barrier()

# %% id="saved-run"
layouts = predict(
    "11b: layouts that read a checkpoint of 2 x 2 ranks",
    guess_layouts,
    choices=("4 x 1", "1 rank", "both", "neither"),
)
folder = str(lab.work / "divided_checkpoint")


def with_files(name, action, **devices):
    return lab.submit(
        program.recipe(name, "work/save_and_load.py", action=action, folder=folder, **devices)
    ).require()


saved = with_files("save-2x2", "save", nodes=2, gpus_per_node=2)
loaded = {
    "4 x 1": with_files("load-4x1", "load", nodes=2, gpus_per_node=2),
    "1 rank": with_files("load-1", "load"),
}

# %% id="saved-see"
for run in (saved, *loaded.values()):
    print(*re.findall(r"^mesh .+", run.text, re.MULTILINE))
equal = {
    name: [int(one) for one in re.findall(r": (\d+) of (\d+) equal", run.text)[0]]
    for name, run in loaded.items()
}
exact = [name for name, (same, of) in equal.items() if same == of]
layouts.compare("both" if exact[1:] else [*exact, "neither"][0])

# %% id="saved-claim" tags=["claim"]
claim("number of the two layouts that get every saved bit", len(exact), least=2, most=2)

# %% [markdown] id="saved-explain"
# **Explain.** Both layouts get exactly the saved weights. If you guessed neither, you assumed that each file
# belongs to one rank of one layout. But the files contain parts of whole tensors, with names and positions. A rank
# looks up the parts that overlap its own part, and copies them. In both layouts of four ranks, a rank has 24 of the
# 96 rows of `mlp.up`, but not the same rows. On 2 × 2, rank 1 has rows 48 to 71, half of the second half. On 4 × 1,
# it has rows 24 to 47.
#
# The course's own checkpoints (`code/checkpoints/slices.py`) work in the same way. You need this when the number of
# devices changes, for example after a node is lost (lesson 16b).

# %% [markdown] id="names"
# ## What are these tools called in other programs?
#
# **torchtitan** ([Liang and others, 2024](https://arxiv.org/abs/2410.06511)) is a training program built from these
# tools. It divides a model in the same order, first the plan and then `fully_shard`. Its options are sizes of the
# mesh. Megatron-LM has its own layers, like the layers that you write in lesson 13.
#
# | kind | by hand in this course | torch | [torchtitan](https://github.com/pytorch/torchtitan)'s option | Megatron-LM's option |
# |---|---|---|---|---|
# | groups of ranks | order string (07b, 13) | `init_device_mesh` | all sizes together | all sizes together |
# | data | DDP (02, 03) | `DistributedDataParallel` | `data_parallel_replicate_degree` | the ranks that are left |
# | sharded data | FSDP (11) | `fully_shard` | `data_parallel_shard_degree` | `--use-torch-fsdp2` |
# | tensor | `ColumnParallel`, `RowParallel` (07, 13) | `ColwiseParallel`, `RowwiseParallel` | `tensor_parallel_degree` | `--tensor-model-parallel-size` |
# | sequence | `GatherTokens` (13) | `SequenceParallel` | `enable_sequence_parallel` | `--sequence-parallel` |
# | pipeline | schedules (07b, 13) | `PipelineStage`, `Schedule1F1B` | `pipeline_parallel_degree` | `--pipeline-model-parallel-size` |
# | context | `ContextAttention` (13b) | `context_parallel` | `context_parallel_degree` | `--context-parallel-size` |
# | experts | `AllToAll` (13c) | `all_to_all_single` | `expert_parallel_degree` | `--expert-model-parallel-size` |
# | accumulation | `no_sync` (10) | `set_requires_gradient_sync` | by batch sizes | by batch sizes |
# | checkpoint | slices (16b) | `torch.distributed.checkpoint` | the same | `--ckpt-format torch_dist` |
#
# `code/twins/` contains tensor, sharded, pipeline and context parallelism and a checkpoint twice, by hand and with
# torch's tools. On GPUs, `"cpu"` and `"gloo"` change to `"cuda"` and `"nccl"`, and each rank puts its data on its own
# GPU. Counts and shapes stay the same, and times do not transfer. PyTorch 2.13 calls its tensor parallelism
# [experimental](https://docs.pytorch.org/docs/2.13/distributed.tensor.parallel.html), and `context_parallel` is in
# `torch.distributed.tensor.experimental`.

# %% [markdown] id="home"
# ## To take home
#
# - A mesh names its dimensions, and each tool gets one of them.
# - A DTensor is divided only over the dimensions with a `Shard`. `Partial` is a sum that PyTorch has not computed
#   yet.
# - First `parallelize_module`, then `fully_shard` on each block, then on the model.
# - A plan with right results can still call superfluous collectives. Count them with `CommDebugMode`.
# - Divide the number of heads, and keep the norms in the plan.
# - A checkpoint of DTensors can be read in any layout.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The next cell deletes all runs except the trial. Your programs and the small checkpoint in `work/` stay.
#
# **References**
#
# - Liang and others, 2024, TorchTitan: [arXiv 2410.06511](https://arxiv.org/abs/2410.06511)
# - PyTorch, [tensor parallelism](https://docs.pytorch.org/docs/2.13/distributed.tensor.parallel.html)
# - PyTorch, [fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)

# %% id="clean"
lab.clean(looked, counted, staged, saved, *loaded.values(), yes=True)
