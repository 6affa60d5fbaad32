# %% [markdown] id="title"
# # 13 Parallel layers by hand
#
# In lessons 07 and 07b the course's program split matrices and layers for you. Now you write the parts yourself.
# Most parts have about ten lines, and each can be wrong in a way that no loss curve shows. So real ranks compare your
# values and gradients with a serial layer, to ten digits.
#
# | | |
# |---|---|
# | You will be able to | find the groups of ranks from an order such as `tp-cp-dp`; write column- and row-parallel layers with right gradients; write sequence parallelism; write a pipeline with 1F1B and explain why plain sends make it hang |
# | Minutes | 100, and 60 more for exercises 13.4 and 13.5 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 02, 07 and 07b |

# %% id="begin"
import re
from itertools import permutations

import pandas as pd

from course_lib import Lab, check, claim, plan, predict, program, show, trial

lab = Lab()

# %% [markdown] id="groups-idea"
# ## Which ranks communicate with each other?
#
# A rank belongs to several groups at once. The ranks of a **tensor group**, `tp`, share each matrix. The ranks of a
# **context group**, `cp`, share each sequence. The ranks of a **data group**, `dp`, work on different samples. An
# **order string** determines the position of a rank in each group. In `tp-cp-dp` the first axis, `tp`, varies
# fastest, as the last digit does when you count.
#
# Take two nodes with four devices each, the order `cp-tp-dp`, and size 2 on each axis.
#
# **Predict.** With which rank does rank 0 share its **matrices**?

# %% id="groups-guess"
### BEGIN SOLUTION
### GAP guess_partner = ...  # "rank 1" to "rank 7", in place of the dots
guess_partner = "rank 1"
### END SOLUTION

# %% id="groups-see"
partner = predict(
    "13: the tensor partner of rank 0 in cp-tp-dp",
    guess_partner,
    choices=[f"rank {rank}" for rank in range(1, 8)],
)
eight = plan.Layout(context=2, tensor=2, data=2, order="cp-tp-dp-pp")
partner.compare(f"rank {plan.groups(eight, 'tp')[0][1]}")
show.ranks({name: plan.groups(eight, name) for name in ("cp", "tp", "dp")}, devices_per_node=4)

# %% [markdown] id="groups-explain"
# *Each panel shows all ranks, one row for each node. Ranks of the same colour form a group.*
#
# **Explain.** The distance between two neighbours on an axis is the **product of the sizes of all axes before it**.
# Here this distance is 1, then 2, then 4. So rank 1 is the neighbour of rank 0 on `cp`, rank 2 on `tp` and rank 4 on
# `dp`.
#
# Samples are distributed over `dp` only. A tensor group works on the *same* samples, and a context group on parts of
# the same sequences. If a sampler uses the global rank instead of the rank in the data group, the ranks of a tensor
# group read different samples. Then their partial sums do not belong together, the result is wrong, and nothing
# crashes.
#
# How many orders keep a tensor group inside a node? Take four nodes of four devices, with tensor 4, context 2 and
# data 2:

# %% id="groups-orders"
sizes = {"tensor": 4, "context": 2, "data": 2}
orders = ["-".join(names) for names in permutations(("tp", "cp", "dp"))]
inside = [
    order
    for order in orders
    if all(
        len({rank // 4 for rank in group}) == 1
        for group in plan.groups(plan.Layout(**sizes, order=f"{order}-pp"), "tp")
    )
]
print(
    f"{len(inside)} of {len(orders)} orders keep tensor groups inside a node: {', '.join(inside)}"
)

# %% id="groups-claim" tags=["claim"]
claim(
    "number of the six orders that keep tensor groups of four inside a node",
    len(inside),
    least=2,
    most=2,
)

# %% [markdown] id="ex1" tags=["exercise"]
# > **Exercise 13.1** — Write `rank_groups(order, sizes, axis)`, which returns all groups of one axis as lists of
# > ranks. For eight devices with `"tp-cp-dp"` and `{"tp": 4, "cp": 1, "dp": 2}`, the `tp` groups are [0, 1, 2, 3]
# > and [4, 5, 6, 7]. The `dp` groups are [0, 4], [1, 5], [2, 6] and [3, 7]. The check tries all orders of several
# > sizes.


# %% id="ex1-gap" tags=["exercise"]
def rank_groups(order, sizes, axis):
    """`order` is a string, and `sizes` gives the size of each axis by its name."""
    ### BEGIN SOLUTION
    ### GAP return ...  # a list of lists
    apart, world = 1, 1
    for name in order.split("-"):
        if name == axis:
            apart = world
        world *= sizes[name]
    first = [rank for rank in range(world) if rank // apart % sizes[axis] == 0]
    return [[rank + apart * place for place in range(sizes[axis])] for rank in first]
    ### END SOLUTION


# %% id="ex1-check" tags=["check"]
check.ex13_groups(rank_groups)
asked = "tp-cp-dp", {"tp": 4, "cp": 1, "dp": 2}
show.ranks({name: rank_groups(*asked, name) for name in ("tp", "dp")}, devices_per_node=4)

# %% [markdown] id="column-idea"
# ## Does a column-parallel layer need communication?
#
# A linear layer computes *y* = *x* *A* + *b*. In a **column-parallel** layer each rank holds some columns of *A* and
# therefore computes some of the outputs. PyTorch stores the transpose, `[outputs, inputs]`, so the columns of *A*
# are the **rows** of `layer.weight`.
#
# Each rank takes its rows of the weight, its part of the bias, and the whole of *x*, which all ranks have. The
# program below does this on four ranks without communication. It compares the outputs, the gradient of the weight
# and the gradient of *x* with the serial layer.
#
# **Predict.** Which of the three is wrong?

# %% id="column-guess"
### BEGIN SOLUTION
### GAP guess_wrong = ...  # "none", "the outputs", "the gradient of the weight" or "the gradient of x"
guess_wrong = "none"
### END SOLUTION

# %% id="column-file"
# %%writefile "{lab.work}/naive.py"
import torch
import torch.distributed as dist
from torch.distributed.nn.functional import all_reduce
from torch.nn.functional import linear

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)  # the same numbers on every rank
x, weight, dy = (torch.randn(shape, dtype=torch.float64) for shape in ((5, 24), (12, 24), (5, 12)))


def gradients(layer, values, dy):
    values = [value.clone().requires_grad_() for value in values]
    y = layer(*values)
    return y.detach(), *torch.autograd.grad(y, values, dy)


y, dx, dweight = gradients(linear, (x, weight), dy)
part = [whole.chunk(size, dimension)[rank] for whole, dimension in ((weight, 0), (dy, 1))]
mine = gradients(linear, (x, part[0]), part[1])  # outputs are shared: nothing travels
wanted = y.chunk(size, 1)[rank], dx, dweight.chunk(size)[rank]
names = "the outputs", "the gradient of x", "the gradient of the weight"
if rank == 0:
    for name, found, right in zip(names, mine, wanted, strict=True):
        off = float((found - right).norm() / right.norm())
        print(f"column: {name} off by {100 * off:.10f} %", flush=True)

part = [whole.chunk(size, 1)[rank] for whole in (x, weight)]
mine = gradients(lambda x, w: all_reduce(linear(x, w)), part, dy)  # inputs are shared
if rank == 0:
    print(f"row: outputs {float(mine[0].norm() / y.norm()):.10f} times the right ones", flush=True)
    right = dweight.chunk(size, 1)[rank]
    print(f"row: gradient {float(mine[2].norm() / right.norm()):.10f} times the right one")
dist.barrier()

# %% id="column-run"
wrong = predict(
    "13: what is wrong if each rank only takes its slice",
    guess_wrong,
    choices=("none", "the outputs", "the gradient of the weight", "the gradient of x"),
)
naive = lab.submit(program.recipe("naive", "work/naive.py", nodes=2, gpus_per_node=2)).require()

# %% id="column-see"
off = {
    name: float(percent)
    for name, percent in re.findall(r"^column: (.+) off by ([\d.]+) %", naive.text, re.MULTILINE)
}
wrong.compare(next((name for name, percent in off.items() if percent > 1e-6), "none"))
print("\n".join(f"{name:28} off by {percent:.1f} %" for name, percent in off.items()))

# %% id="column-claim" tags=["claim"]
claim("without communication, the outputs are off by", off["the outputs"], most=1e-8, unit="%")
claim(
    "without communication, the gradient of x is off by",
    off["the gradient of x"],
    least=30,
    unit="%",
)

# %% [markdown] id="column-explain"
# **Explain.** Only the gradient of *x* is wrong, so the layer needs communication in the backward pass. A rank's slice
# of the weight affects only the outputs of this rank, so the gradient of the slice is right. But *every* output
# depends on the *whole* of *x*. The gradient of *x* is therefore a sum over all ranks, and each rank knows only its
# own part. The layers before this one would train with different partial gradients on each rank. The loss would still
# fall, only more slowly.
#
# > Data that is **copied** in the forward pass must be **summed** in the backward pass. Data that is **summed**
# > in the forward pass is **copied** in the backward pass.
#
# Autograd needs two functions for this rule:
#
# ![Two ranks, each with some columns of A and some rows of B. CopyIn in front of them does nothing in forward and an all-reduce in backward. SumOut behind them does an all-reduce in forward and nothing in backward.](../images/layer_pairs.svg)
#
# > **Exercise 13.2** — Write `CopyIn` and the slices. Four ranks test the slices, the forward pass and the backward
# > pass. A slice is a *view* that keeps the whole weight in memory unless you clone it. Backward must change a copy
# > of the gradient that it receives, because autograd may need the original.

# %% id="column-own" tags=["exercise"]
# %%writefile "{lab.work}/my_column.py"
import torch
import torch.distributed as dist


class CopyIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        ### BEGIN SOLUTION
        ### GAP return ...  # what has to happen to the ranks' gradients of x?
        total = grad.clone()
        dist.all_reduce(total)
        return total
        ### END SOLUTION


class ColumnParallel(torch.nn.Module):
    def __init__(self, weight, bias):
        """The whole of both, [outputs, inputs] and [outputs]; this rank keeps its slices."""
        super().__init__()
        rank, size = dist.get_rank(), dist.get_world_size()
        ### BEGIN SOLUTION
        ### GAP self.weight = torch.nn.Parameter(...)
        ### GAP self.bias = torch.nn.Parameter(...)
        self.weight = torch.nn.Parameter(weight.chunk(size, 0)[rank].clone())
        self.bias = torch.nn.Parameter(bias.chunk(size)[rank].clone())
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        ### GAP return ...  # this rank's slice of the outputs
        return torch.nn.functional.linear(CopyIn.apply(x), self.weight, self.bias)
        ### END SOLUTION


# %% id="column-trial" tags=["exercise"]
column_trial = lab.submit(trial.recipe("column-trial", "work/my_column.py", "column"))
column_trial.watch()

# %% id="column-check" tags=["check"]
check.ex13_column(column_trial)

# %% [markdown] id="row-idea"
# ## Which gradient does a row-parallel layer need?
#
# In a **row-parallel** layer each rank holds some rows of *A*, which are columns of PyTorch's weight. It needs only
# the matching inputs, and a column-parallel layer in front leaves exactly these inputs. Each rank computes a partial
# sum of *every* output, *y* = *y*₀ + *y*₁ + … So the forward pass ends with an all-reduce.
#
# The program above also ran a row-parallel layer on four ranks. It used
# `torch.distributed.nn.functional.all_reduce`, an all-reduce that works with autograd. Its backward pass is an
# all-reduce too, so it sums the gradients of *y* over all ranks. Newer versions recommend
# `_functional_collectives.all_reduce`, which has the same backward pass. The outputs are right, and each rank
# computes the same loss from them.
#
# **Predict.** By what factor are the **gradients of the weight** too large?

# %% id="row-guess"
### BEGIN SOLUTION
### GAP guess_times = ...  # your number in place of the dots
guess_times = 1
### END SOLUTION

# %% id="row-see"
times = predict("13: gradients of a row-parallel layer with torch's all_reduce", guess_times)
outputs, gradient = (
    float(re.search(rf"^row: {name} ([\d.]+) times", naive.text, re.MULTILINE)[1])
    for name in ("outputs", "gradient")
)
times.compare(gradient)
show.moving.tensor_parallel_mlp(ranks=2)

# %% id="row-claim" tags=["claim"]
claim("the outputs are too large by a factor of", outputs, least=1 - 1e-9, most=1 + 1e-9)
claim("the gradients are too large by a factor of", gradient, least=3.999, most=4.001)

# %% [markdown] id="row-explain"
# *The animation shows an MLP whose first matrix A is split by columns and whose second matrix B is split by rows.
# From left to right you see X, A, Z = X A, the activation Y, B, the partial sum P and the output. The upper row
# of a rank shows values, and the lower row shows gradients.*
#
# **Explain.** The gradients are four times too large. The function assumes that each rank has its **own** loss and
# that the sum of all losses counts. In tensor parallelism all ranks compute the **same** loss from the same *y*. The
# loss counts once, and each rank already has the whole gradient of *y*. Each partial sum needs exactly this
# gradient, without communication. With the extra all-reduce, each further layer multiplies the gradient by four
# again. Adam hides a constant factor, because it divides by the size of the gradients.
#
# The bias belongs to *y*, not to a partial sum. If you add it before the all-reduce, it is added four times. If each
# rank adds a quarter of the bias, *y* is right. But each quarter receives the whole gradient, so the bias moves four
# times as far.
#
# > **Exercise 13.3** — Write `SumOut` and the row-parallel layer. The argument *x* is this rank's slice of the
# > inputs.

# %% id="row-own" tags=["exercise"]
# %%writefile "{lab.work}/my_row.py"
import torch
import torch.distributed as dist


class SumOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ### BEGIN SOLUTION
        ### GAP return ...
        total = x.clone()
        dist.all_reduce(total)
        return total
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad):
        ### BEGIN SOLUTION
        ### GAP return ...
        return grad
        ### END SOLUTION


class RowParallel(torch.nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        rank, size = dist.get_rank(), dist.get_world_size()
        ### BEGIN SOLUTION
        ### GAP self.weight = torch.nn.Parameter(...)
        ### GAP self.bias = torch.nn.Parameter(...)
        self.weight = torch.nn.Parameter(weight.chunk(size, 1)[rank].clone())
        self.bias = torch.nn.Parameter(bias.clone())
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        ### GAP return ...  # the whole of y
        return SumOut.apply(x @ self.weight.T) + self.bias
        ### END SOLUTION


# %% id="row-trial" tags=["exercise"]
row_trial = lab.submit(trial.recipe("row-trial", "work/my_row.py", "row"))
row_trial.watch()

# %% id="row-check" tags=["check"]
check.ex13_row(row_trial)

# %% [markdown] id="attention-words"
# An attention layer is such a pair, too. The matrix for queries, keys and values is column-parallel and is split so
# that whole **heads** stay together. Each rank computes attention for its own heads without communication. The output
# matrix is row-parallel. If one weight stores queries, keys and values one after the other, its first half does not
# contain half of the heads. So `code/parallel/context_parallel.py` orders the rows head by head. PyTorch can split
# such layers for you, with
# [`parallelize_module`](https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html).

# %% [markdown] id="tokens-idea"
# ## How many bytes does sequence parallelism send?
#
# Norms, residuals and dropout lie between two pairs of parallel layers. They work on each token separately, but
# so far every tensor rank computes and keeps them for all tokens. **Sequence parallelism** splits the tokens
# here, so that each rank keeps only its own. In front of the column-parallel layer, an all-gather collects all
# tokens. Behind the row-parallel layer, a reduce-scatter gives each rank the sum for its own tokens.
#
# So two collectives replace one all-reduce. The program below does both with the ring of lesson 02 and counts the
# bytes that a rank sends.
#
# **Predict.** How many bytes do all-gather and reduce-scatter together send for each byte of the all-reduce?

# %% id="tokens-guess"
### BEGIN SOLUTION
### GAP guess_bytes = ...  # your number in place of the dots
guess_bytes = 2
### END SOLUTION

# %% id="tokens-file"
# %%writefile "{lab.work}/count_sent.py"
import torch
import torch.distributed as dist
from links.collectives import ring  # all-reduce as the ring of lesson 02

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
sent, plain = [0], dist.isend


def counted(tensor, *where, **more):
    sent[0] += tensor.numel() * tensor.element_size()
    return plain(tensor, *where, **more)


def one_round(pieces, begin, add):
    """Pieces go round the ring once, n - 1 steps; each step sends one."""
    for step in range(size - 1):
        going, coming = (pieces[(begin - step - ahead) % size] for ahead in (0, 1))
        arrived = torch.empty_like(coming)
        sending = counted(going, (rank + 1) % size)
        dist.recv(arrived, (rank - 1) % size)
        sending.wait()
        coming.copy_(coming + arrived if add else arrived)


def gather(mine):
    pieces = [torch.empty_like(mine) for _ in range(size)]
    pieces[rank].copy_(mine)
    one_round(pieces, rank, add=False)
    return torch.cat(pieces)


def scatter(partial):
    pieces = list(partial.clone().chunk(size))
    one_round(pieces, rank - 1, add=True)
    return pieces[rank]


torch.manual_seed(0)
x, a, b = (torch.randn(shape, dtype=torch.float64) for shape in ((64, 32), (32, 128), (128, 32)))
mine, a, b = x.chunk(size)[rank], a.chunk(size, 1)[rank], b.chunk(size)[rank]
answer = torch.tanh(x @ a) @ b
dist.isend = dist.distributed_c10d.isend = counted  # the ring calls this one now
ring(answer, range(size))
before, sent[0] = sent[0], 0
tokens = scatter(torch.tanh(gather(mine) @ a) @ b)
off = float((tokens - answer.chunk(size)[rank]).abs().max())
if rank == 0:
    print(f"bytes {before} {sent[0]} kept {x.numel()} {mine.numel()} off {off:.1e}", flush=True)
dist.barrier()

# %% id="tokens-run"
more_bytes = predict(
    "13: bytes of all-gather and reduce-scatter, relative to all-reduce", guess_bytes
)
counted = lab.submit(
    program.recipe("count-sent", "work/count_sent.py", nodes=2, gpus_per_node=2)
).require()

# %% id="tokens-see"
found = re.search(r"bytes (\d+) (\d+) kept (\d+) (\d+) off (\S+)", counted.text)
before, after, whole, own = (int(found[place]) for place in range(1, 5))
more_bytes.compare(after / before)
formula = 2 * 3 / 4 * whole * 8 / 1e3
show.predicted(
    dict.fromkeys(("all-reduce", "all-gather + reduce-scatter"), formula),
    {"all-reduce": before / 1e3, "all-gather + reduce-scatter": after / 1e3},
    unit="kB",
    what="bytes that a rank sends",
)

# %% id="tokens-claim" tags=["claim"]
claim(
    "bytes of all-gather and reduce-scatter, relative to one all-reduce",
    after / before,
    least=1,
    most=1,
)
claim("activations between the layers are smaller by a factor of", whole / own, least=4, most=4)

# %% [markdown] id="tokens-explain"
# *"Predicted" is the formula of the ring, 2 (n − 1) / n times the size.*
#
# **Explain.** Both ways send the same bytes. A ring all-reduce has two rounds. The first round leaves each rank with
# one finished part of the sum, so it *is* a reduce-scatter. The second round hands out the parts, so it *is* an
# all-gather. Sequence parallelism only computes the norms between the two rounds, and each rank keeps a quarter of
# the activations there. The input of the matmul is still kept whole here. Megatron-LM keeps only its own tokens and
# gathers once more in backward.
#
# NCCL's rings send these bytes. The box uses gloo, which builds a reduce-scatter from a whole all-reduce and sends
# more.
#
# ![The same two ranks. GatherTokens in front of them does an all-gather in forward and a reduce-scatter in backward. ScatterTokens behind them does the reverse. Outside the pair each rank holds its own tokens.](../images/token_pairs.svg)
#
# Every rank holds the weights of the norms, but sees only its own tokens. So **the gradients of these weights need
# one more sum** over the tensor group at the end of the step. Context parallelism splits the tokens everywhere, so
# *all* gradients are summed over `dp` and `cp`.
#
# > **Exercise 13.4** — Write an attention layer with sharded heads and tokens. On one device it is
# >
# > ```python
# > q, k, v = torch.einsum("tw,khdw->khtd", layer_norm(x, (width,), scale, shift), qkv)  # k: 3, h: heads, t: tokens
# > seen = scaled_dot_product_attention(q, k, v, is_causal=True)  # both are in torch.nn.functional
# > y = x + torch.einsum("htd,whd->tw", seen, out)
# > ```
# >
# > `ParallelAttention(scale, shift, qkv, out)` gets the whole weights. It keeps `self.scale` and `self.shift` whole,
# > and only this rank's heads in `self.qkv` and `self.out`. All four are parameters. `own(x)` takes this rank's
# > tokens and returns this rank's tokens of *y*. `own.finish()` is called after backward. Then all gradients have to
# > equal the gradients on one device. Use `all_gather_single(whole, mine)` and `reduce_scatter_single(mine, whole)`
# > from lesson 11, which write into their first argument.

# %% id="tokens-own" tags=["exercise"]
# %%writefile "{lab.work}/my_attention.py"
import torch
import torch.distributed as dist
from torch.nn.functional import layer_norm, scaled_dot_product_attention

### BEGIN SOLUTION
### GAP ...  # the ways in and out, forward and backward


def all_tokens(mine):
    whole = mine.new_empty(len(mine) * dist.get_world_size(), *mine.shape[1:])
    dist.all_gather_single(whole, mine.contiguous())
    return whole


def own_tokens(whole):
    mine = whole.new_empty(len(whole) // dist.get_world_size(), *whole.shape[1:])
    dist.reduce_scatter_single(mine, whole.contiguous())
    return mine


class GatherTokens(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tokens):
        return all_tokens(tokens)

    @staticmethod
    def backward(ctx, dy):
        return own_tokens(dy)  # each rank used my tokens


class ScatterTokens(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tokens):
        return own_tokens(tokens)

    @staticmethod
    def backward(ctx, dx):
        return all_tokens(dx)


### END SOLUTION
class ParallelAttention(torch.nn.Module):
    def __init__(self, scale, shift, qkv, out):
        super().__init__()
        ### BEGIN SOLUTION
        ### GAP ...
        size, rank = dist.get_world_size(), dist.get_rank()
        self.scale, self.shift = torch.nn.Parameter(scale), torch.nn.Parameter(shift)
        self.qkv = torch.nn.Parameter(qkv.chunk(size, 1)[rank].clone())
        self.out = torch.nn.Parameter(out.chunk(size, 1)[rank].clone())
        ### END SOLUTION

    def forward(self, x):
        ### BEGIN SOLUTION
        ### GAP return ...
        normed = layer_norm(x, x.shape[-1:], self.scale, self.shift)
        q, k, v = torch.einsum("tw,khdw->khtd", GatherTokens.apply(normed), self.qkv)
        seen = scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + ScatterTokens.apply(torch.einsum("htd,whd->tw", seen, self.out))
        ### END SOLUTION

    def finish(self):
        ### BEGIN SOLUTION
        ### GAP ...
        for parameter in (self.scale, self.shift):
            dist.all_reduce(parameter.grad)
        ### END SOLUTION


# %% id="tokens-trial" tags=["exercise"]
attention_trial = lab.submit(trial.recipe("attention-trial", "work/my_attention.py", "attention"))
attention_trial.watch()

# %% id="tokens-check" tags=["check"]
check.ex13_attention(attention_trial)

# %% [markdown] id="order-idea"
# ## When does a pipeline schedule hang?
#
# In a pipeline, a stage sends *y* to the next stage and receives its gradient. The difficult part is the order, the
# **schedule**. If you write a schedule as a generator, you can print it and draw it without any process. GPipe has the
# simplest schedule:


# %% id="order-gpipe"
def gpipe(stages, stage, micro_batches):
    for m in range(micro_batches):
        yield "forward", m
    for m in range(micro_batches):
        yield "backward", m


show.pipeline([gpipe(4, stage, 8) for stage in range(4)], title="GPipe")

# %% [markdown] id="order-predict"
# The first stage of GPipe keeps the activations of all eight micro-batches. With 1F1B it keeps half of them (lesson
# 07b). The program below exchanges the messages of 1F1B on four stages, without any arithmetic. It first uses
# `isend`, which starts to send and returns at once. Then it uses a plain `send`, which returns only when the neighbour
# receives. The time-out of the `send` is three seconds.
#
# **Predict.** What happens with the plain `send`?

# %% id="order-guess"
### BEGIN SOLUTION
### GAP guess_plain = ...  # "it ends", "it is slower" or "it hangs"
guess_plain = "it is slower"
### END SOLUTION

# %% id="order-file"
# %%writefile "{lab.work}/stages.py"
from datetime import timedelta

import torch
import torch.distributed as dist
from parallel.schedules import SCHEDULES

dist.init_process_group("gloo", timeout=timedelta(seconds=20))
stage, stages, micro_batches = dist.get_rank(), dist.get_world_size(), 8
message = torch.zeros(5, 6)


def run(name, patience_s):
    held = most = 0
    sent = []
    for step in SCHEDULES[name](stages, stage, micro_batches):
        way = 1 if step.phase == "forward" else -1
        if 0 <= stage - way < stages:
            dist.recv(torch.empty_like(message), stage - way)
        held += way
        most = max(most, held)
        if 0 <= stage + way < stages:
            sent.append(dist.isend(message, stage + way))
            if patience_s:  # isend, and wait at once: that is what send does
                sent[-1].wait(timedelta(seconds=patience_s))
    for sending in sent:
        sending.wait()
    return most


print(f"stage {stage}: kept {run('1f1b', None)} micro-batches", flush=True)
dist.barrier()
try:
    run("1f1b", 3)
    print(f"stage {stage}: came to the end with plain sends", flush=True)
except RuntimeError:
    print(f"stage {stage}: stuck with plain sends", flush=True)

# %% id="order-run"
plain = predict(
    "13: what 1F1B does with plain sends",
    guess_plain,
    choices=("it ends", "it is slower", "it hangs"),
)
four = lab.submit(program.recipe("stages", "work/stages.py", nodes=2, gpus_per_node=2)).require()

# %% id="order-see"
stuck = re.findall(r"stage (\d): stuck", four.text)
plain.compare("it hangs" if stuck else "it ends")
stages = pd.DataFrame(
    re.findall(r"stage (\d): kept (\d+) micro-batches", four.text),
    columns=["stage", "micro-batches kept"],
).sort_values("stage")
stages.set_index("stage")

# %% id="order-claim" tags=["claim"]
claim("number of the four stages that hang with plain sends", len(stuck), least=2)
claim("micro-batches that the first stage keeps, p − r", int(stages.iloc[0, 1]), least=4, most=4)

# %% [markdown] id="order-explain"
# **Explain.** A schedule hangs if two neighbours both send and wait for the other to receive. Stage 2 has finished two
# forward passes and sends micro-batch 1. Stage 3 has just finished the backward pass of micro-batch 0 and sends the
# gradient to stage 2. This is the deadlock of lesson 02 with two ranks. A library that buffers small messages hides
# the deadlock until the messages grow. GPipe never hangs, because it first sends all messages in one direction. The
# cures are `isend` and `batch_isend_irecv`, which sends and receives in one call.
#
# > **Exercise 13.5** — Write a pipeline that really sends. `train_step(stage, batch, loss_of)` runs one training step
# > on each of the *p* stages:
# >
# > - `stage(x)` computes the layers of this rank. Its output has the shape of *x*.
# > - `batch` is the list of all micro-batches (*x*, target), the same on every rank. The first stage takes *x* from it.
# >   The last stage takes the target, and `loss_of(y, target)` is the mean loss of a micro-batch.
# > - Afterwards, `stage` has the gradients of the **mean** loss over all micro-batches. The last stage returns this
# >   loss.
# >
# > The order is 1F1B. Stage *r* first runs *p* − *r* − 1 forward passes, or one for each micro-batch if there are
# > fewer. Then one forward and one backward pass alternate, and the remaining backward passes come last. So stage *r*
# > holds up to *p* − *r* micro-batches. Send each activation and each gradient once, and wait for every `isend` before
# > the end. The trial compares with a serial model and counts bytes and held micro-batches. If ranks wait forever, it
# > shows which rank each of them waits for.


# %% id="order-own" tags=["exercise"]
# %%writefile "{lab.work}/my_pipeline.py"
import torch
import torch.distributed as dist


def train_step(stage, batch, loss_of):
    rank, size = dist.get_rank(), dist.get_world_size()
    ### BEGIN SOLUTION
    ### GAP ...  # each pass: receive, compute, send; in the order of 1F1B
    is_last = rank == size - 1
    held, sent, losses = [], [], []

    def received(source):
        tensor = torch.empty_like(batch[0][0])
        dist.recv(tensor, source)
        return tensor

    def send(tensor, target):
        sent.append((dist.isend(tensor, target), tensor))  # keeps the tensor until it has left

    ahead = min(size - rank - 1, len(batch))
    for turn in range(len(batch) + ahead):
        if turn < len(batch):
            x, target = batch[turn]
            if rank > 0:
                x = received(rank - 1).requires_grad_()
            y = stage(x)
            if is_last:
                y = loss_of(y, target) / len(batch)
                losses.append(y.detach())
            else:
                send(y.detach(), rank + 1)
            held.append((x, y))
        if turn >= ahead:
            x, y = held.pop(0)
            y.backward(None if is_last else received(rank + 1))
            if rank > 0:
                send(x.grad, rank - 1)
    for work, _ in sent:
        work.wait()
    return sum(losses) if is_last else None
    ### END SOLUTION


# %% id="order-trial" tags=["exercise"]
pipeline_trial = lab.submit(trial.recipe("pipeline-trial", "work/my_pipeline.py", "pipeline"))
pipeline_trial.watch()

# %% id="order-check" tags=["check"]
check.ex13_pipeline(pipeline_trial)

# %% [markdown] id="order-why" tags=["solution"]
# While micro-batch 0 passes through the *p* − *r* − 1 stages behind stage *r*, stage *r* does one forward pass for
# each of these stages. With the first forward pass of the alternating phase it holds *p* − *r* micro-batches, four on
# the first stage and one on the last. While the gradient comes back, the stage is idle, which is the bubble. More
# forward passes during this time would keep more activations, and the step would not end sooner.
#
# Autograd's graph ends at each stage. What `recv` writes is the beginning of this stage's graph, so it needs
# `requires_grad_()`. Its `.grad` is sent back, and the previous stage begins its backward pass with it. Each waiting
# micro-batch needs its own buffer, because the backward pass reads *x* again.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Build an attention layer from your two classes and compare it with a serial one. Use four
# > heads on four ranks, with `scaled_dot_product_attention` in the middle.

# %% [markdown] id="home"
# ## To take home
#
# - The first axis of an order varies fastest. Samples are distributed over the data axis only.
# - Data copied in forward is summed in backward, and summed data is copied. Outputs can be right while gradients are
#   wrong.
# - Add a bias once, after the sum. Clone a slice, or the whole weight stays in memory.
# - Sequence parallelism sends no more bytes than an all-reduce and keeps fewer activations.
# - If ranks hold different tokens, sum the gradients of their weights over these ranks.
# - Draw a schedule before you run it, and never let two neighbours both wait in a send.
# - With torch's own tools: `parallelize_module` with a plan, and `SequenceParallel` in it; lesson 11b.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The trials and your programs stay, so that you can run the checks again.

# %% id="clean"
lab.clean(naive, counted, four, yes=True)
