"""Experts of a mixture on several ranks: rows are sent to their chosen experts and back.

A layer has many MLPs, the experts, and each row uses a few of them (training/router.py chooses).
Expert parallelism gives every rank some of the experts. One layer, forward:

    1. copy every row once for each chosen expert, and sort the copies by expert
    2. send them to the ranks of these experts, by an all-to-all
    3. sort the received rows by expert; every expert computes its rows, like an MLP
    4. restore the order of arrival; a second all-to-all returns the results
    5. restore the order of the rows; add up the results of each row, with their weights

Backward runs from 5 to 1, with all-to-alls in the other direction. No row is dropped: the ranks
first exchange the numbers of rows, which are the sizes of the messages.

    2 ranks, 4 experts: rank 0 has experts 0 and 1, rank 1 has 2 and 3; each row chose one
    rows of rank 0 chose   3 0 0 2      sorted 0 0 | 2 3      2 stay, 2 go to rank 1
    rows of rank 1 chose   1 3 1 1      sorted 1 1 1 | 3      3 go to rank 0, 1 stays
    then rank 0 has        0 0 1 1 1    and rank 1 has 2 3 3

Expert tensor parallelism splits the matrices of each expert as an MLP's. A copy is then sent to
every slice of its expert; the slices return partial sums, which step 5 adds like experts'
results."""

from __future__ import annotations

import argparse
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function

from parallel.layout import ExpertGroups, Group
from parallel.products import Weight, WeightWork
from parallel.tensor_parallel import sliced
from process.pace import communicating
from process.profile_ranges import in_backward, named


def all_to_all(rows: Tensor, sent: list[int], received: list[int], group: Group) -> Tensor:
    """Exchange rows: `sent` and `received` are row counts to and from each rank of the group."""
    with communicating("communication: all-to-all"), named(f"all-to-all of {rows.nbytes} bytes"):
        arrived = rows.new_empty(sum(received), *rows.shape[1:])
        dist.all_to_all_single(arrived, rows.contiguous(), received, sent, group=group.handle)
    return arrived


class AllToAll(Function):
    """All-to-all of rows in forward; in backward, of their gradients in the other direction."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, sent: list[int], received: list[int], group: Group
    ) -> Tensor:
        ctx.sent, ctx.received, ctx.group = sent, received, group
        return all_to_all(rows, sent, received, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return all_to_all(grad, ctx.received, ctx.sent, ctx.group), None, None, None


class _Reorder(Function):
    """Reordering: row `order[n]` becomes row n; backward reverses this for gradients."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return rows[order]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return grad[order.argsort()], None  # argsort of a permutation is its inverse


class _GroupedProduct(Function):
    """Matmul Y = X Wᵀ with one W for each expert; X has `counts` rows of each, in order."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, counts: list[int], work: WeightWork) -> Tensor:
        ctx.save_for_backward(x)
        ctx.weight, ctx.counts, ctx.work = weight, counts, work
        return grouped(x, weight.transpose(1, 2), counts)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        by_expert = ctx.weight.main_grad, grad.split(ctx.counts), x.split(ctx.counts)
        for total, dy, rows in zip(*by_expert, strict=True):
            if rows.shape[0]:
                ctx.work.add_to(total, dy, rows)
        return grouped(grad, ctx.weight, ctx.counts), None, None, None


def grouped(x: Tensor, matrices: Tensor, counts: list[int]) -> Tensor:
    """Multiply rows by their expert's matrix: [rows, in] and [experts, in, out] → [rows, out]."""
    # PyTorch's grouped kernel needs rows of a multiple of 16 bytes, and has no float64.
    even = all(width * x.element_size() % 16 == 0 for width in matrices.shape[1:])
    if x.dtype == torch.float64 or not even:
        by_expert = zip(x.split(counts), matrices, strict=True)
        return torch.cat([rows @ matrix for rows, matrix in by_expert])
    ends = torch.tensor(counts, device=x.device).cumsum(0, dtype=torch.int32)
    return nn.functional.grouped_mm(x, matrices, offs=ends)


class Experts(nn.Module):
    """Experts of one layer on this rank, with the exchange of rows."""

    def __init__(self, args: argparse.Namespace, groups: ExpertGroups, work: WeightWork) -> None:
        super().__init__()
        self.groups, self.work = groups, work
        self.local = args.num_experts // groups.expert.size
        hidden, width = args.hidden_size, args.moe_ffn_hidden_size // groups.tensor.size
        # [experts, outputs, inputs]; each tensor rank has a slice of the width inside an expert.
        self.up = self._cut(torch.empty(self.local, width, hidden), 1)
        self.gate = self._cut(torch.empty(self.local, width, hidden), 1) if args.swiglu else None
        self.down = self._cut(torch.empty(self.local, hidden, width), 2)
        self.owners: Tensor
        self.register_buffer("owners", torch.tensor(groups.owners), persistent=False)
        self.begin()

    def begin(self) -> None:
        """Begin a step, in which no byte was sent to experts on other ranks, or back."""
        self.sent_bytes = {"to": 0, "back": 0}

    def _cut(self, values: Tensor, dimension: int) -> Weight:
        parameter = sliced(nn.Parameter(values), 0, self.groups.expert)
        return sliced(parameter, dimension, self.groups.tensor)

    def forward(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Map [rows, hidden] to the same shape; `weights` and `chosen` are [rows, topk]."""
        group, slices = self.groups.exchange, self.groups.tensor.size
        # Steps 1 and 2.
        copies = x.repeat_interleave(chosen.shape[1] * slices, 0)
        # Sort key of each copy: its destination rank, then the expert there.
        to_rank = self.owners[chosen // self.local]  # [rows, topk, slices]
        key = (to_rank * self.local + (chosen % self.local).unsqueeze(2)).flatten()
        order = key.argsort(stable=True)
        sending = key.bincount(minlength=group.size * self.local).view(group.size, self.local)
        arriving = self._exchanged(sending)  # [ranks, local experts]
        sent, received = sending.sum(1).tolist(), arriving.sum(1).tolist()
        arrived = self._send(_Reorder.apply(copies, order), sent, received, "to")

        # Step 3. Rows arrive sorted by the rank that sent them, then by expert.
        expert = torch.arange(self.local, device=x.device).repeat(group.size)
        by_expert = expert.repeat_interleave(arriving.flatten()).argsort(stable=True)
        counts = arriving.sum(0).tolist()
        with named(f"experts: {' '.join(map(str, counts))} rows"):
            y = self.mlp(_Reorder.apply(arrived, by_expert), counts)

        # Steps 4 and 5.
        y = _Reorder.apply(y, by_expert.argsort())
        y = _Reorder.apply(self._send(y, received, sent, "back"), order.argsort())
        returned = y.view(x.shape[0], -1, x.shape[1])  # [rows, topk · slices, hidden]
        of_copies = weights.repeat_interleave(slices, 1).unsqueeze(1)  # [rows, 1, topk · slices]
        return (of_copies @ returned.to(of_copies.dtype)).squeeze(1).to(x.dtype)

    def mlp(self, x: Tensor, counts: list[int]) -> Tensor:
        """Compute what `Layer.inner` and `down` do, with the matrices of each row's expert."""
        up = _GroupedProduct.apply(x, self.up, counts, self.work)
        if self.gate is None:
            inner = nn.functional.gelu(up, approximate="tanh")
        else:
            gate = _GroupedProduct.apply(x, self.gate, counts, self.work)
            inner = nn.functional.silu(gate) * up
        return _GroupedProduct.apply(inner, self.down, counts, self.work)

    def _exchanged(self, sending: Tensor) -> Tensor:
        """Return how many rows every rank will send to each expert here."""
        group = self.groups.exchange
        ones = [1] * group.size
        return sending if group.size == 1 else all_to_all(sending, ones, ones, group)

    def _send(self, rows: Tensor, sent: list[int], received: list[int], way: str) -> Tensor:
        """Send rows to the experts or back; recomputation is not counted."""
        group = self.groups.exchange
        if group.size == 1:
            return rows
        if torch.is_grad_enabled() and not in_backward():
            leaving = sum(sent) - sent[group.index]
            self.sent_bytes[way] += leaving * rows.shape[1] * rows.element_size()
        return AllToAll.apply(rows, sent, received, group)
