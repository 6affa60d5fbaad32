# %% [markdown] id="title"
# # 13b Long sequences by hand
#
# A book, an hour of sound or a detailed weather map can be too long for one device. Tensor parallelism helps little,
# because it splits attention into no more parts than there are heads. **Context parallelism** splits the sequence
# itself: each rank holds some of the positions, with all layers and all weights. Only attention has to change. In
# this lesson you distribute the positions evenly, write the attention, and find gradients that need one more sum.
#
# | | |
# |---|---|
# | You will be able to | split a causal sequence so that all ranks have equal work; write attention over several ranks, forward and backward; name the sum that context parallelism adds and the bytes that it sends; choose the kind of parallelism that makes a model fit |
# | Minutes | 55 |
# | Devices | 2 nodes with 2 devices each |
# | Before | lesson 13 |

# %% id="begin"
import re

import pandas as pd

from course_lib import Lab, check, claim, gpt, plan, predict, program, show, trial

lab = Lab()

# %% [markdown] id="pieces-idea"
# ## How much longer does the rank with the late positions need?
#
# Norms, MLPs and residuals work on each position separately. But in **causal attention** each position looks back at
# all earlier positions, so late positions have more work. The program below computes attention over 6144 positions
# on four ranks. It splits the sequence into eighths and gives each rank two of them, in two ways:
#
# | eighth of the sequence | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |
# |---|---|---|---|---|---|---|---|---|
# | number of eighths it looks back at | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |
# | rank, in order | 0 | 0 | 1 | 1 | 2 | 2 | 3 | 3 |
# | rank, early and late | 0 | 1 | 2 | 3 | 3 | 2 | 1 | 0 |
#
# A step ends when the last rank is done.
#
# **Predict.** By what factor is a step in order longer than a step with early and late eighths?

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
longer = predict("13b: step in order, relative to early and late pieces", guess_longer)
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
unit_ms = computed.to_numpy().sum() / 72  # for one eighth that looks back at one eighth
show.predicted(
    {f"{way}, rank {rank}": unit_ms * pairs[way][rank] for way in pairs for rank in range(4)},
    {f"{way}, rank {rank}": computed[way][rank] for way in pairs for rank in range(4)},
    unit="ms",
    what="computing",
)

# %% id="pieces-claim" tags=["claim"]
claim("step in order, relative to early and late pieces", ratio, least=1.1, most=1.9)
claim(
    "computing of the last rank in order, relative to the first",
    in_order[3] / in_order[0],
    least=2.5,
)

# %% [markdown] id="pieces-explain"
# *"Predicted" distributes the measured time by the number of pairs of eighths: 3, 7, 11 and 15 in order, and 9
# otherwise.*
#
# **Explain.** A step lasts as long as rank 3 needs for its pairs. Rank 3 has 15 pairs in order and 9 otherwise, a
# factor of 1.67. The measured factor can be smaller, because ranks with equal numbers of pairs are not equally fast.
# If you guessed 5, you compared the 15 pairs of rank 3 with the 3 pairs of rank 0. The other ranks wait for rank 3, and
# no faster link helps them. Llama 3 also splits its sequences into [early and late
# pieces](https://arxiv.org/abs/2407.21783).
#
# ![Two triangles of squares, with eight rows of queries and eight columns of keys. Row n has n squares, because the nth eighth looks back at n eighths. In order, each rank owns two neighbouring rows, so ranks 0 to 3 own 3, 7, 11 and 15 pairs. With early and late pieces, each rank owns one row from the top and one from the bottom, so every rank owns 9 pairs.](../images/causal_pieces.svg)
#
# *A square is a pair of an eighth of the queries and an eighth of the keys. Its colour and hatching show the rank
# that computes it.*
#
# > **Exercise 13b.1** — Write `pieces(length, rank, size)`, which returns the positions of a rank as a list. A
# > list of two lists is also right. All ranks must have the same number of positions. Count how many positions each
# > of a rank's own positions looks back at. The sum of these counts must also be the same on all ranks. The length is
# > a multiple of `2 * size`.


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
# *The squares are 32 positions, and each colour is a rank.*
#
# ## Which gradient needs one more sum?
#
# Each rank keeps the queries of its own positions and needs the keys and values of all positions. So the forward
# pass gathers keys and values with an all-gather. The backward pass therefore needs a reduce-scatter, as in lesson
# 13.

# %% id="context-moves"
show.moving.collective("all-gather", ranks=4)

# %% [markdown] id="context-predict"
# The program below does this on four ranks with the course's `code/parallel/context_parallel.py`. It compares the
# outputs, the gradient of *x* and the gradient of the weights with the serial layer.
#
# **Predict.** Which of the three is wrong after `backward()`?

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
    "before the sum, the gradient of the weights is off by",
    off["the gradient of the weights"],
    least=30,
    unit="%",
)
claim("after one more sum over the ranks, it is off by", off["summed"], most=1e-8, unit="%")

# %% [markdown] id="context-explain"
# **Explain.** The gradient of the weights is wrong, because no rank has added the parts from all positions. As in
# data parallelism, the ranks hold the same weights and see different tokens. So the gradients of all weights,
# including norms and MLPs, are summed over `dp` **and** `cp` in the same all-reduce. If each rank averages its own
# loss, the program divides after the sum. A test that compares only outputs and losses never finds the error.
#
# > **Exercise 13b.2** — Write the attention of one head. You need the backward pass of `Gather`, the queries,
# > keys, values and mask, and in `finish` the missing sum. `positions` contains the positions of the rows in `x`.
# > Four ranks compare your layer with the serial layer.

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
# ## How many bytes does context parallelism send?
#
# The unit is the size of the activations between two layers. In the forward pass each rank sends keys and values
# around the ring, 2 × (*n* − 1) / *n* units, and in the backward pass as much again. Tensor parallelism needs four
# all-reduces with two rounds each, 8 × (*n* − 1) / *n* units. In most models of today several query heads share one
# head of keys and values. Then context parallelism sends less by the same factor.

# %% id="sent"
tensor = 8 * (4 - 1) / 4
context = float(re.search(r"^sent ([\d.]+)", compared.text, re.MULTILINE)[1])  # both ways
print(f"tensor {tensor:.1f}, context {context:.1f}, with 8 query heads per key {context / 8:.2f}")
places = plan.Layout(tensor=2, context=2, data=2, order="tp-cp-dp-pp")
show.ranks({name: plan.groups(places, name) for name in ("tp", "cp", "dp")}, devices_per_node=4)

# %% id="sent-claim" tags=["claim"]
claim(
    "bytes of context parallelism for each byte of tensor parallelism",
    context / tensor,
    least=0.5,
    most=0.5,
)

# %% [markdown] id="sent-explain"
# *Two nodes with four devices each, in the order `tp-cp-dp`.*
#
# Context parallelism sends half as much as tensor parallelism, or less. Tensor parallelism can hardly hide its
# messages behind computing, so it gets the fastest links, and context parallelism comes next. This is the order
# `tp-cp-dp`.
#
# **Ulysses** ([Jacobs and others, 2023](https://arxiv.org/abs/2309.14509)) uses an **all-to-all**, in which each
# rank sends a different piece to every other rank. It turns some positions of all heads into all positions of some
# heads, and reverses this after attention. With more ranks, each rank sends less, but Ulysses cannot use more ranks
# than heads.

# %% [markdown] id="around-idea"
# ## How can a rank attend to more keys than it holds?
#
# The program above gathers all keys and values on every rank, so their memory does not shrink with more ranks.
# **Ring attention** ([Liu and others, 2023](https://arxiv.org/abs/2310.01889)) passes them from rank to rank, piece
# by piece. A rank computes with one piece while the next piece arrives. The work of attention grows with the square
# of the length, but a piece grows only with the length. So long sequences hide the messages behind computing. The
# course's program does this with `--cp-comm-type p2p`.
#
# A softmax needs the sum over all keys, which a rank never holds together. For each query, an **online softmax**
# keeps the largest score so far $m$, the sum $s$ of all $e^{score - m}$, and the output $o$ before the division by
# $s$. If a new piece contains a larger score, $m$ grows, and $s$ and $o$ are multiplied by $e^{m_{old} - m_{new}}$.
# After the last piece, $y = o / s$, and $L = m + \ln s$.
#
# For the backward pass, the keys and values go round the ring again. With $L$, the probabilities of a piece are
# $P = e^{S - L}$. In the formulas below, $*$ multiplies number by number, and $w$ is the width of a head:
#
# | gradient | of a piece |
# |---|---|
# | scores | $dS = P * (dY\,V^T - r)$, with $r$ = the sum of each row of $dY * Y$ |
# | queries | $dQ = dS\,K / \sqrt{w}$, added up over all pieces |
# | keys | $dK = dS^T Q / \sqrt{w}$, added up over all ranks |
# | values | $dV = P^T dY$, added up over all ranks |
#
# > **Exercise 13b.3** — Write both directions of `RingAttention`. The function `pass_on` sends tensors to the next
# > rank and returns the tensors of the rank before. The function `scores_of` computes the scores of your queries
# > with a piece of the keys, and −∞ for a hidden key. The trial compares values and gradients with serial attention,
# > and counts what a rank keeps for backward.

# %% id="around-own" tags=["exercise"]
# %%writefile "{lab.work}/my_ring_attention.py"
import torch
import torch.distributed as dist


def pass_on(*tensors):
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1:
        return tensors
    boxes = [torch.empty_like(one) for one in tensors]
    works = [dist.isend(one.contiguous(), (rank + 1) % size) for one in tensors]
    for box in boxes:
        dist.recv(box, (rank - 1) % size)
    for work in works:
        work.wait()
    return boxes


def scores_of(queries, keys, of_queries, of_keys):
    scores = queries @ keys.T / queries.shape[1] ** 0.5
    return scores.masked_fill(of_keys[None, :] > of_queries[:, None], float("-inf"))


class RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, queries, keys, values, positions):
        """Each [positions of this rank, width], and the positions themselves."""
        ### BEGIN SOLUTION
        ### GAP largest, total, out = ...  # for each query: m, s and o, before any piece
        ### GAP ...  # for each piece: scores, the new m, and s and o with this piece; then pass it on
        ### GAP y, log_sum = ...
        largest = queries.new_full((len(queries), 1), float("-inf"))
        total, out = torch.zeros_like(largest), torch.zeros_like(queries)
        piece = keys, values, positions
        for step in range(dist.get_world_size()):
            if step > 0:
                piece = pass_on(*piece)
            scores = scores_of(queries, piece[0], positions, piece[2])
            before, largest = largest, torch.maximum(largest, scores.amax(1, keepdim=True))
            weights, shrink = torch.exp(scores - largest), torch.exp(before - largest)
            total = shrink * total + weights.sum(1, keepdim=True)
            out = shrink * out + weights @ piece[1]
        y, log_sum = out / total, largest + torch.log(total)
        ### END SOLUTION
        ctx.save_for_backward(queries, keys, values, positions, y, log_sum)
        return y

    @staticmethod
    def backward(ctx, grad):
        queries, keys, values, positions, y, log_sum = ctx.saved_tensors
        ### BEGIN SOLUTION
        ### GAP dqueries = ...  # stays here; the gradients of keys and values travel with their piece
        ### GAP ...  # for each piece: its probabilities and three gradients; then pass it on
        ### GAP return dqueries, dkeys, dvalues, None
        row_sum, root = (grad * y).sum(1, keepdim=True), queries.shape[1] ** 0.5
        dqueries, dkeys, dvalues = map(torch.zeros_like, (queries, keys, values))
        of_keys = positions
        for _ in range(dist.get_world_size()):
            weights = torch.exp(scores_of(queries, keys, positions, of_keys) - log_sum)
            dscores = weights * (grad @ values.T - row_sum) / root
            dqueries += dscores @ keys
            dkeys += dscores.T @ queries
            dvalues += weights.T @ grad
            keys, values, of_keys, dkeys, dvalues = pass_on(keys, values, of_keys, dkeys, dvalues)
        return dqueries, dkeys, dvalues, None
        ### END SOLUTION


def ring_attention(queries, keys, values, positions):
    return RingAttention.apply(queries, keys, values, positions)


# %% id="around-trial" tags=["exercise"]
around_trial = lab.submit(
    trial.recipe("around-trial", "work/my_ring_attention.py", "ring-attention")
)
around_trial.watch()

# %% id="around-check" tags=["check"]
check.ex13b_ring(around_trial)

# %% [markdown] id="around-why" tags=["solution"]
# Keys and values may stop one step before their own rank, but their gradients must take this last step. A ring sends
# keys and values twice, so it sends more bytes than the gather. In return, a rank never holds all of them. Your
# `pass_on` waits at once. The course's program starts the messages first, then computes, and waits last.

# %% [markdown] id="hide-idea"
# ## How many tokens per device hide the ring?
#
# While a rank computes with one piece, the next piece arrives. Compare the two for *t* tokens per device, one head of
# width *h* and *b* bytes per number:
#
# - **Compute.** Scores and output need 2 FLOPs for each query, key and channel. A device with *C* FLOP/s needs 4 *t*²
#   *h* / *C* seconds for a whole piece.
# - **Message.** Keys and values have 2 *b h t* bytes. A link with *W* bytes/s needs 2 *b h t* / *W* seconds.
#
# The work grows with *t*², so here the tokens do not cancel. The ring is hidden if
#
# $$t \geq \frac{b}{2} \cdot \frac{C}{W} \quad\text{tokens per device}$$
#
# A causal mask halves the work and doubles this number. If *g* query heads share a head of keys and values, the
# message and this number are *g* times smaller.
#
# The program below measures both on four ranks: attention to one piece without a mask, and the message to the next
# rank. Each number has 4 bytes, and *W* is the link of the box.

# %% id="hide-file"
# %%writefile "{lab.work}/ring_times.py"
import statistics
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size, width = dist.get_rank(), dist.get_world_size(), 512


class Piece(torch.nn.Module):
    """Attention of a rank's queries to the keys and values of one piece."""

    def forward(self, queries, keys, values):
        return (queries @ keys.T / width**0.5).softmax(-1) @ values


def pass_on(rows):
    arrived = torch.empty_like(rows)
    works = dist.isend(rows, (rank + 1) % size), dist.irecv(arrived, (rank - 1) % size)
    for work in works:
        work.wait()


def quartile_ms(call, *given):
    times = []
    for _ in range(9):
        dist.barrier()
        began = time.perf_counter()
        call(*given)
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.quantiles(times, n=4)[0]


piece = Piece()
for tokens in (128, 256, 512, 1024):
    queries, keys, values = torch.randn(3, tokens, width)
    computing = quartile_ms(piece, queries, keys, values)
    message = quartile_ms(pass_on, torch.stack([keys, values]))
    print(f"rank {rank}: {tokens} tokens, {computing:.2f} ms, message {message:.2f} ms", flush=True)
dist.barrier()

# %% id="hide-run"
ring = lab.submit(
    program.recipe("ring-times", "work/ring_times.py", nodes=2, gpus_per_node=2)
).require()
each = pd.DataFrame(
    re.findall(
        r"^rank \d: (\d+) tokens, ([\d.]+) ms, message ([\d.]+) ms", ring.text, re.MULTILINE
    ),
    columns=["tokens", "computing", "message"],
).astype(float)
# A message between nodes takes longest, and all ranks wait for it.
lasts = each.groupby("tokens").agg({"computing": "median", "message": "max"})
most = int(lasts.index.max())
flop_per_s = 4 * most**2 * 512 / (lasts["computing"][most] / 1000)
link_bytes_per_s = (lab.site.link_gbit or 1.0) * 1e9 / 8
print(f"C = {flop_per_s / 1e9:.1f} GFLOP/s, W = {link_bytes_per_s / 1e9:.3f} GB/s")

# %% [markdown] id="hide-predict"
# **Predict.** At how many tokens per device does attention begin to take longer than the message?

# %% id="hide-guess"
### BEGIN SOLUTION
### GAP guess_tokens = ...  # tokens per device
guess_tokens = 100
### END SOLUTION

# %% id="hide-see"
enough = predict("13b: tokens per device that hide the ring", guess_tokens, unit="tokens")
by_rule = 4 / 2 * flop_per_s / link_bytes_per_s
by_run = most * lasts["message"][most] / lasts["computing"][most]
enough.compare(by_run)
print(f"by the rule {by_rule:.0f} tokens, by the run {by_run:.0f}")
lines = lasts.rename_axis("tokens per device").reset_index()
show.lines(
    {
        name: lines[["tokens per device", name]].rename(columns={name: "ms"})
        for name in ("computing", "message")
    },
    x="tokens per device",
    y="ms",
    title="Attention to one piece, and the message with the next piece",
    log="xy",
)

# %% id="hide-claim" tags=["claim"]
over = lasts["message"] / lasts["computing"]
claim(
    f"message / computing with 256 tokens, relative to {most:,} tokens",
    over[256] / over[most],
    least=2,
    unit="times",
)
if lab.site.box and lab.nodes_are_separate:
    claim(
        "tokens that hide the ring, by the rule relative to the run",
        by_rule / by_run,
        least=0.6,
        most=1.6,
        unit="times",
    )

# %% [markdown] id="hide-explain"
# **Explain.** With four times the tokens, the message has four times the bytes and attention has sixteen times the
# FLOPs. The lines cross near the number of the rule. With fewer tokens per device a part of each message is exposed.
# At a fixed sequence length, more ranks leave fewer tokens for each rank, so the length limits the number of ranks.
#
# **On real hardware.** Liu and others ([2023, table 2](https://arxiv.org/abs/2310.01889)) use the same rule. An A100
# with 312 TFLOP/s needs about 1,000 tokens on NVLink with 300 GB/s, and about 24,500 on InfiniBand with 12.5 GB/s.
# With *b* = 2, the rule gives 312,000 / 300 = 1,040 and 312,000 / 12.5 = 24,960.

# %% [markdown] id="long-idea"
# ## Does a long sequence fit on four devices?
#
# A model of 2.4 million weights trains on sequences of 4,096 tokens. Weights, gradients and Adam's numbers need 36
# MiB for any length. Activations and logits grow with the number of tokens. Each device has 256 MiB.

# %% id="long-plan"
LONG, MIB = 4096, 256
long_model = plan.preset("tiny").but(sequence=LONG)
needs = plan.predict(long_model, plan.Layout(precision="fp32"), plan.box(), "course")
memory = needs.table().query("of == 'memory'").set_index("part")["value"] * 1024
memory.rename("MiB on one device").round().to_frame()

# %% [markdown] id="long-predict"
# **Predict.** Which runs fit in 256 MiB: on `"one device"`, with `"context 4"` on four devices, `"both"`, or
# `"neither"`? With context 4, each rank has a quarter of the tokens.

# %% id="long-guess"
### BEGIN SOLUTION
### GAP guess_long = ...  # "one device", "context 4", "both" or "neither"
guess_long = "neither"
### END SOLUTION

# %% id="long-run"
long_fits = predict(
    "13b: sequences of 4,096 tokens in 256 MiB",
    guess_long,
    choices=("one device", "context 4", "both", "neither"),
)


def long_run(name, **spread):
    return gpt.recipe(
        name, model="tiny", seq_length=LONG, iterations=4, device_memory_gib=MIB / 1024,
        memory=True, **spread,
    )  # fmt: skip


long_runs = {
    "one device": lab.submit(long_run("long-alone")),
    "context 4": lab.submit(long_run("long-context", nodes=2, gpus_per_node=2, context=4)),
}

# %% id="long-see"
for name, run in long_runs.items():
    print(f"{name}: {run.wait()}")
    print(*re.findall(r"^.*OutOfMemoryError.*$", run.text, re.MULTILINE)[:1], sep="\n")
fitting = [name for name, run in long_runs.items() if run.fits]
long_fits.compare("both" if fitting[1:] else [*fitting, "neither"][0])

# %% [markdown] id="long-memory-idea"
# The run recorded all tensors (lesson 06). The next cell compares its fullest rank with the plan for context 4:

# %% id="long-memory"
record = long_runs["context 4"].memory
fullest = max((record[rank].peak_composition for rank in range(4)), key=lambda of: sum(of.values()))
spread = plan.predict(
    long_model, plan.Layout(precision="fp32", context=4), plan.box(), "course"
).stages[0]
tensors = pd.DataFrame({"planned (MiB)": spread.traced, "recorded (MiB)": fullest}) / 2**20
tensors.loc["total"] = tensors.sum()
mask_mib = 4 * 9 * 512**2 * 4 / 2**20
print(f"masks: 4 layers × 9 × 512² numbers × 4 bytes = {mask_mib:.0f} MiB")
tensors.round(1)

# %% id="long-claim" tags=["claim"]
claim("number of the two runs that fit in 256 MiB", len(fitting), least=1, most=1)
planned_mib, recorded_mib = tensors.loc["total"]
claim("tensors of the fullest rank with context 4, relative to the plan for one device",
      recorded_mib / needs.allocated_gib / 1024, least=0.35, most=0.75, unit="times")  # fmt: skip
if record[0].device == "cpu":
    claim("tensors of the fullest rank with context 4, relative to the plan and the masks",
          recorded_mib / (planned_mib + mask_mib), least=0.97, most=1.03, unit="times")  # fmt: skip

# %% [markdown] id="long-explain"
# **Explain.** One device is out of memory, and four devices with context 4 train. Context parallelism splits the
# activations and the logits by four. A rank still needs more than a quarter of the memory. It holds all weights and
# Adam's numbers, and in each layer the gathered keys and values.
#
# On CPUs, a rank keeps something else. PyTorch's attention stores a **mask** for each piece that sees earlier pieces,
# with one 32-bit number for each pair of a query and a key. The two pieces of a rank see 9 pieces together, and a
# piece has 512 tokens. The plan leaves these masks out. On a GPU the attention kernel derives the mask from the
# positions and stores none.
#
# Recomputation (lesson 09) or tensor parallelism would help here as well. With a million tokens, even the
# activations of one layer do not fit on one device. Tensor ranks split them too, but a model cannot have more tensor
# ranks than heads.

# %% [markdown] id="weather-idea"
# ## Which kind of parallelism makes a model fit?
#
# The patches of a weather map are a sequence too. Every patch looks at every other patch, so ranks can take the
# patches in order. The program `train_vit.py` forecasts six hours ahead with the layers of lesson 13 and the gathers
# of this lesson. The model has 14.7 million weights. With its gradient and Adam's two numbers, each weight needs 16
# bytes, 235 MB or 224 MiB in all. You have four devices with 160 MiB each.
#
# **Predict.** What makes the model fit: tensor 4, context 4, either of them, or neither?

# %% id="weather-guess"
### BEGIN SOLUTION
### GAP guess_fits = ...  # "tensor 4", "context 4", "either" or "neither"
guess_fits = "either"
### END SOLUTION

# %% id="weather-run"
fits = predict(
    "13b: what makes the model fit on four devices of 160 MiB",
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
there = [name for name, run in cuts.items() if run.fits]
fits.compare("either" if there[1:] else [*there, "neither"][0])


def found_in(run, wanted):
    return re.findall(wanted, run.text, re.MULTILINE)


for run in cuts.values():
    print(*found_in(run, r"^.*(?:OutOfMemoryError|train loss|Training memory).*$")[:2], sep="\n")
count = found_in(cuts["tensor 4"], r"number of parameters on .*: (\d+)")
share = 100 * float(*count or ["nan"]) / 14.7e6
print(f"tensor 4: {share:.0f} % of the weights on a rank")

# %% id="weather-claim" tags=["claim"]
claim("number of the two runs that fit in 160 MiB", len(there), least=1, most=1)
claim("share of the weights that a rank holds with tensor 4", share, least=26, most=29, unit="%")

# %% [markdown] id="weather-explain"
# **Explain.** Only tensor 4 fits. Context parallelism splits only what grows with the *sequence*. Every rank still
# holds all weights, all gradients and all numbers of Adam. DDP, which sums the gradients, even holds the gradients
# twice. Tensor parallelism splits all weights except the embedding, the positions, the head and the norms, so a rank
# holds slightly more than a quarter. A large model on large maps needs both.

# %% [markdown] id="home"
# ## To take home
#
# - Causal attention has more work at late positions, so give each rank an early and a late piece.
# - Gather keys and values, and keep queries. The backward pass of an all-gather is a reduce-scatter.
# - If ranks see different tokens, sum the gradients of all weights over `dp` and `cp`.
# - Context parallelism splits activations, and tensor parallelism splits weights. Large models on long sequences need
#   both.
# - Compare gradients with the serial model, not only losses.
# - With torch's own tools: `context_parallel`; lesson 11b.

# %% [markdown] id="clean-idea"
# ## Cleaning up
#
# The next cell deletes all runs except the two trials.
#
# **References**
#
# - Liu and others, 2023, ring attention: [arXiv 2310.01889](https://arxiv.org/abs/2310.01889)
# - Jacobs and others, 2023, Ulysses: [arXiv 2309.14509](https://arxiv.org/abs/2309.14509)
# - Meta, 2024, Llama 3: [arXiv 2407.21783](https://arxiv.org/abs/2407.21783)

# %% id="clean"
lab.clean(timed, compared, made, ring, *long_runs.values(), *cuts.values(), yes=True)
