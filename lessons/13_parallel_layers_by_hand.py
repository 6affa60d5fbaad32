# %% [markdown] id="title"
# # 13 Parallel layers by hand
#
# Lesson 07 cut matrices and lesson 07b dealt out layers, and the program of the course did the work. Now you write
# it: the groups of ranks, a linear layer that is shared by its outputs and one that is shared by its inputs, forward
# **and backward**, the exchange that spares memory and sends no more, and the schedule of a pipeline. Each piece is
# ten lines. Each can be wrong in a way that no loss curve shows, so real ranks hold yours against the serial layer,
# values and gradients, to ten digits.
#
# | | |
# |---|---|
# | You will be able to | say from an order such as `tp-cp-dp` who talks to whom; write column- and row-parallel layers with collectives that autograd knows; find a gradient that is wrong behind an output that is right; write sequence parallelism; write 1F1B as a generator, and say why it hangs with plain sends |
# | Minutes | 45 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lessons 02, 07 and 07b |

# %% id="begin"
import re
import runpy
from itertools import permutations

import pandas as pd

from course_lib import Lab, check, claim, plan, predict, program, show, trial

lab = Lab()

# %% [markdown] id="groups-idea"
# ## Who talks to whom
#
# A rank of a large training has several addresses at once: a place among those with whom it shares every matrix
# (tensor, `tp`), one among those with whom it shares a sequence (context, `cp`), one among those who see other samples
# (data, `dp`). An **order string** turns a number into these places. In `tp-cp-dp` the first axis varies fastest, as
# the last digit does when you count.
#
# Two nodes with four devices each, and the order is `cp-tp-dp`, all sizes 2: pieces of a sequence next to each other.
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
# *Each panel shows all ranks, one row for each node. Ranks of one colour are a group.*
#
# **Explain.** Two neighbours on an axis are as many ranks apart as **all axes before it have places together**: 1 for
# the first, then 2, then 4. So rank 1 is the neighbour on `cp`, rank 2 on `tp`, rank 4 on `dp`.
#
# The groups also say who gets which data. Samples are dealt out over `dp` alone: a tensor group works on the *same*
# samples, a context group on pieces of the same sequences. A sampler that takes the rank among all in the place of the
# one in the data group gives the ranks of a tensor group different samples. Their partial sums then belong to
# different things, the sum is nonsense, and nothing crashes.
#
# How many orders are good? Take four nodes of four devices, with tensor 4, context 2 and data 2:

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
print(f"of {len(orders)} orders these keep tensor groups within a node: {', '.join(inside)}")

# %% id="groups-claim" tags=["claim"]
claim(
    "of six orders so many keep the tensor groups of four in nodes of four",
    len(inside),
    least=2,
    most=2,
)

# %% [markdown] id="ex1" tags=["exercise"]
# > **Exercise 13.1** — Write `rank_groups(order, sizes, axis)`: all groups of one axis, as lists of ranks. Eight
# > devices, `"tp-cp-dp"`, `{"tp": 4, "cp": 1, "dp": 2}`: the `tp` groups are [0, 1, 2, 3] and [4, 5, 6, 7], the `dp`
# > groups [0, 4], [1, 5], [2, 6], [3, 7]. (The check tries all orders of several sizes, and draws.)


# %% id="ex1-gap" tags=["exercise"]
def rank_groups(order, sizes, axis):
    """The order as a text; sizes by name of the axis."""
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
# ## Shared by outputs
#
# A linear layer is *y* = *x* *A* + *b*. **Column-parallel**: each rank has some columns of *A*, so it has some of the
# outputs. A trap at the start: torch keeps the weight as `[outputs, inputs]`, the transpose. The columns of *A* are the
# **rows** of `layer.weight`, its dimension 0.
#
# Forward looks done before it has begun. Each rank takes its rows of the weight, its part of the bias, and the
# whole of *x*, which all ranks have; nothing travels. The program below does exactly that on four ranks, and compares
# with the serial layer: the outputs, and after backward the gradients of weight and *x*.
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
    "13: what is wrong where each rank only takes its slice",
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
claim("the outputs are right", off["the outputs"], most=1e-8, unit="%")
claim("and the gradient of x is not: it is off by", off["the gradient of x"], least=30, unit="%")

# %% [markdown] id="column-explain"
# **Explain.** Each rank's own slice depends on nobody else, so its gradient is right. But *every* output was made
# of the *whole* of *x*, so *x* gets a share of its gradient from every rank, and a rank knows only its own. The layers
# before this one would be trained with a quarter of the truth, another quarter on each rank. The loss falls all the
# same, only worse.
#
# > What is **copied** forward has to be **summed** backward, and what is **summed** forward is **copied** backward.
#
# It is the rule behind all that follows. To write it down, autograd needs a pair of functions of its own:
#
# ![Two ranks, each with some columns of A and some rows of B. Before them stands CopyIn: nothing forward, all-reduce backward. Behind them SumOut: all-reduce forward, nothing backward.](../images/layer_pairs.svg)
#
# > **Exercise 13.2** — Write `CopyIn` and the slices. Four ranks try it: slices, forward, backward. Two things are easily
# > overlooked: a slice is a *view* that keeps the whole weight in memory, unless it is cloned; and backward should
# > change a copy of the gradient that it gets, since others may need it as it is.

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
# ## Shared by inputs
#
# **Row-parallel** is the other half: each rank has some rows of *A* (columns of torch's weight), and needs only those
# inputs that belong to them, just what a column-parallel layer leaves. What it computes is a partial sum of *every*
# output: *y* = *y*₀ + *y*₁ + … So forward ends with an all-reduce.
#
# PyTorch has one that autograd knows: `torch.distributed.nn.functional.all_reduce`. (Newer versions call it deprecated and
# name `_functional_collectives.all_reduce` instead, which goes backward in the same way.) The program above used it in its
# second half, for a row-parallel layer. Its outputs are right.
#
# **Predict.** How many times as large as the right ones are the **gradients of the weight**, on four ranks?

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
claim("the outputs are right", outputs, least=1 - 1e-9, most=1 + 1e-9, unit="times")
claim("and the gradients too large by the number of ranks", gradient, least=3.999, most=4.001)

# %% [markdown] id="row-explain"
# *An MLP forward and backward, its first matrix by columns and its second by rows.*
#
# **Explain.** Is that function wrong? No, it answers another question. It supposes that each rank has a loss
# of its **own** and that the sum of all losses counts; *y* is part of each, so its gradients are added up. In tensor
# parallelism all ranks compute the **same** loss from the same *y*. It counts once, every rank already has the whole
# gradient of *y*, and each partial sum gets just that: nothing travels. With the extra sum, each further
# layer on the way back multiplies by four again. And Adam, which divides by the gradients' size, hides a constant
# factor well.
#
# Then the bias. It belongs to *y*, not to a partial sum. Who adds it before the all-reduce adds it four times; who
# keeps a quarter of it on each rank has a right *y*, and a bias that moves four times as far: each quarter gets the whole
# gradient.
#
# > **Exercise 13.3** — Write `SumOut` and the row-parallel layer. *x* comes in as this rank's slice.

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
# An attention layer is the same pair. The matrix that makes queries, keys and values is column-parallel, cut so that
# whole *heads* stay together. Each rank attends with its heads, which need nothing of the others. The output
# matrix is row-parallel. The first cut has one more trap: where queries, keys and values lie in one weight, one after
# the other, its first half is no half of the heads. (`code/parallel/context_parallel.py` therefore orders the rows head by head.)

# %% [markdown] id="tokens-idea"
# ## The memory between the layers
#
# Between two such pairs lie norms, residuals and dropout. They work on each token alone, and every tensor rank
# does all of it, on the same tokens, and keeps the same activations for backward. **Sequence parallelism** cuts the
# tokens there: each rank keeps its own. Before the column-parallel layer it needs all of them (all-gather); behind the
# row-parallel one, each rank gets the sum for its own tokens alone (reduce-scatter).
#
# Two collectives stand where one all-reduce was. The program below counts what each rank really hands to `isend`, once
# with each, both written as the ring of lesson 02.
#
# **Predict.** How many times as many bytes as the all-reduce do all-gather and reduce-scatter send together?

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
more_bytes = predict("13: bytes of gather and scatter over those of all-reduce", guess_bytes)
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
    what="what a rank sends",
)

# %% id="tokens-claim" tags=["claim"]
claim("gather and scatter send as much as one all-reduce", after == before)
claim("and what lies between the layers is kept once, not four times", whole / own, least=4, most=4)

# %% [markdown] id="tokens-explain"
# *"Predicted" is the formula of the ring, 2 (n − 1) / n times the size.*
#
# **Explain.** A ring goes round twice: the first round leaves each rank with one finished piece, which *is* a
# reduce-scatter; the second hands the pieces out, which *is* an all-gather. Sequence parallelism lets them
# stand apart, and does the norms in between. Same bytes, and a quarter of the activations there. (What goes *into* the product is still
# kept whole, as written here. Megatron-LM keeps its own tokens and gathers once more in backward.) (NCCL's
# rings send it so. gloo, which the box talks through, makes a reduce-scatter of a whole all-reduce, and so sends
# more: another reason to count at the formula and measure on the machine that you will use.)
#
# ![The two ranks of before. In front stands GatherTokens: all-gather forward, reduce-scatter backward. Behind them ScatterTokens, the reverse. Outside, each rank has its own tokens.](../images/token_pairs.svg)
#
# There is a price. The weights of the norms are on every rank, but each sees its own tokens only: **their gradients
# need one more sum** over the tensor group, at the end of the step. Context parallelism, which cuts the tokens
# everywhere, needs it for *all* weights: its gradients are summed over `dp` and `cp`.
#
# > **Exercise 13.4** — Write the pair. `all_gather_single(whole, mine)` and `reduce_scatter_single(mine, whole)`,
# > lesson 11's pair, write into their first argument.

# %% id="tokens-own" tags=["exercise"]
# %%writefile "{lab.work}/my_tokens.py"
import torch
import torch.distributed as dist


def gather(x):
    whole = x.new_empty(len(x) * dist.get_world_size(), *x.shape[1:])
    dist.all_gather_single(whole, x.contiguous())
    return whole


def scatter(x):
    mine = x.new_empty(len(x) // dist.get_world_size(), *x.shape[1:])
    dist.reduce_scatter_single(mine, x.contiguous())
    return mine


class GatherTokens(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ### BEGIN SOLUTION
        ### GAP return ...
        return gather(x)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad):
        ### BEGIN SOLUTION
        ### GAP return ...  # each rank used my tokens
        return scatter(grad)
        ### END SOLUTION


class ScatterTokens(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ### BEGIN SOLUTION
        ### GAP return ...
        return scatter(x)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad):
        ### BEGIN SOLUTION
        ### GAP return ...
        return gather(grad)
        ### END SOLUTION


def split_mlp(x, a, b):
    """x: this rank's tokens; a, b: its slices of the weights, as torch keeps them."""
    whole = GatherTokens.apply(x)
    return ScatterTokens.apply(torch.nn.functional.gelu(whole @ a.T) @ b.T)


# %% id="tokens-trial" tags=["exercise"]
tokens_trial = lab.submit(trial.recipe("tokens-trial", "work/my_tokens.py", "tokens"))
tokens_trial.watch()

# %% id="tokens-check" tags=["check"]
check.ex13_tokens(tokens_trial)

# %% [markdown] id="order-idea"
# ## A pipeline that waits for nobody
#
# The other cut, between layers, needs no new mathematics: send *y* to the next stage, and its gradient back. Here
# the difficulty is **order**. As a generator, a schedule is a list that can be printed, drawn and tested before any
# process exists. GPipe's is the simplest:


# %% id="order-gpipe"
def gpipe(stages, stage, micro_batches):
    for m in range(micro_batches):
        yield "forward", m
    for m in range(micro_batches):
        yield "backward", m


show.pipeline([gpipe(4, stage, 8) for stage in range(4)], title="GPipe")

# %% [markdown] id="order-predict"
# GPipe's first stage keeps the activations of all eight micro-batches; with 1F1B it was half of them (lesson 07b). Below,
# four stages run the course's own 1F1B, each a small layer. First with `isend`, which begins to send and goes on; then with a plain `send`, which returns when the
# neighbour has begun to receive. (Patience is three seconds.)
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
torch.manual_seed(0)
weights = [torch.randn(6, 6, dtype=torch.float64, requires_grad=True) for _ in range(stages)]
inputs = torch.randn(micro_batches, 5, 6, dtype=torch.float64)


def run(name, patience_s):
    held, most, sent = {}, 0, []
    for step in SCHEDULES[name](stages, stage, micro_batches):
        m, forward = step.micro_batch, step.phase == "forward"
        source = stage - 1 if forward else stage + 1
        come = torch.ones(5, 6, dtype=torch.float64) if not forward else inputs[m].clone()
        if 0 <= source < stages:
            dist.recv(come, source)
        if forward:
            come.requires_grad_()
            held[m] = come, torch.tanh(come @ weights[stage])
            most, result = max(most, len(held)), held[m][1].detach()
        else:
            x, y = held.pop(m)
            y.backward(come)
            result = x.grad
        target = stage + 1 if forward else stage - 1
        if 0 <= target < stages:
            sending = dist.isend(result, target)
            sent.append((sending, result))
            if patience_s:  # isend, and wait at once: that is what send does
                sending.wait(timedelta(seconds=patience_s))
    for sending, _ in sent:
        sending.wait()
    return most


most = run("1f1b", None)
y = inputs
for weight in weights:
    y = torch.tanh(y @ weight)
wanted = torch.autograd.grad(y.sum(), weights[stage])[0]
off = float((weights[stage].grad - wanted).abs().max() / wanted.abs().max())
print(f"stage {stage}: kept {most} micro-batches, gradient off by {off:.1e}", flush=True)
dist.barrier()
try:
    run("1f1b", 3)
    print(f"stage {stage}: came to the end with plain sends", flush=True)
except RuntimeError:
    print(f"stage {stage}: stuck with plain sends", flush=True)

# %% id="order-run"
plain = predict(
    "13: 1F1B with plain sends", guess_plain, choices=("it ends", "it is slower", "it hangs")
)
four = lab.submit(program.recipe("stages", "work/stages.py", nodes=2, gpus_per_node=2)).require()

# %% id="order-see"
stuck = re.findall(r"stage (\d): stuck", four.text)
plain.compare("it hangs" if stuck else "it ends")
stages = pd.DataFrame(
    re.findall(r"stage (\d): kept (\d+) micro-batches, gradient off by (\S+)", four.text),
    columns=["stage", "micro-batches kept", "gradient off by"],
).sort_values("stage")
stages.set_index("stage")

# %% id="order-claim" tags=["claim"]
claim("1F1B hangs with plain sends", bool(stuck))
off_by = stages["gradient off by"].astype(float).max()
claim("with isend its gradients are the serial ones: off by", off_by, most=1e-10)
claim("the first stage keeps 4 micro-batches, p − r", int(stages.iloc[0, 1]), least=4, most=4)

# %% [markdown] id="order-explain"
# **Explain.** Follow two neighbours. Stage 2 has gone forward twice and sends micro-batch 1 on. Stage 3 has just finished
# backward of micro-batch 0, and sends the gradient to stage 2. Each waits for the other to receive. It is the circle of
# lesson 02 again, with two ranks. (A library that buffers small messages hides it, until messages grow.) GPipe never meets it, since all traffic goes one way first. Two cures are in
# use: sends that go on at once (`isend`), or one call that sends and receives together (`batch_isend_irecv`).
#
# > **Exercise 13.5** — Write 1F1B. Stage *r* of *p* first runs ahead, so many micro-batches that the first gradient
# > finds it ready and not more; then one forward and one backward in turn; then the rest. It may never keep more than
# > *p* − *r* micro-batches, and the whole may take no longer than GPipe, with fewer micro-batches than stages, too.
# > Ranks carry it out and compare gradients; the check tries 128 pipelines without any rank, and draws one.


# %% id="order-own" tags=["exercise"]
# %%writefile "{lab.work}/my_schedule.py"
def one_f_one_b(stages, stage, micro_batches):
    """Yields ("forward", 0), ("backward", 0) and so on, in the order of this stage."""
    ### BEGIN SOLUTION
    ### GAP ...  # yield in a loop, or in three
    ahead = min(stages - stage - 1, micro_batches)
    for turn in range(micro_batches + ahead):
        if turn < micro_batches:
            yield "forward", turn
        if turn >= ahead:
            yield "backward", turn - ahead
    ### END SOLUTION


# %% id="order-trial" tags=["exercise"]
order_trial = lab.submit(trial.recipe("order-trial", "work/my_schedule.py", "schedule"))
order_trial.watch()

# %% id="order-check" tags=["check"]
check.ex13_schedule(lab.work / "my_schedule.py", order_trial)
mine = runpy.run_path(lab.work / "my_schedule.py")["one_f_one_b"]
show.pipeline([mine(4, stage, 8) for stage in range(4)], title="your 1F1B")

# %% [markdown] id="order-why" tags=["solution"]
# While micro-batch 0 passes the *p* − *r* − 1 stages behind stage *r*, one forward for each of them fills the way *out*. Together with
# the first of the pairs that makes *p* − *r* micro-batches in hand: four on the first stage, one on the last. The way back stays
# empty: it is the bubble of the picture. More forwards there would hold more, and end no sooner.

# %% [markdown] id="challenge" tags=["exercise"]
# > **Going further** — Write a whole attention layer from your two, and hold it against a serial one: four heads on
# > four ranks, `scaled_dot_product_attention` in the middle.

# %% [markdown] id="home"
# ## To take home
#
# - The first axis of an order varies fastest; samples are dealt out over the data axis alone.
# - Copied forward, summed backward; summed forward, copied backward. Right outputs say nothing about gradients.
# - A bias is added once, after the sum. A slice is cloned, or the whole weight stays.
# - Gather and scatter are the two rounds of one all-reduce: sequence parallelism sends no more, and keeps less.
# - What is cut over tokens needs the gradients of its weights summed over them.
# - A schedule is data. Test it before it runs, and never let two neighbours send first.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The trials stay, so that their checks can be run again; so do your programs.

# %% id="clean"
lab.clean(naive, counted, four, yes=True)
