"""Tensor parallelism: every matrix is split into slices, one per rank of the tensor group.

    column parallel   Y = X Wᵀ, W split by rows (outputs):  each rank gets a slice of Y
    row parallel      Y = X Wᵀ, W split by columns (inputs): each rank gets a partial sum of Y

An MLP has one matmul of each kind, so it needs one sum in forward and one in backward. The sums are
pairs of autograd functions: the forward of one is the backward of the other:

                  forward          backward
    CopyIn        nothing          all-reduce        before a column-parallel matmul
    SumOut        all-reduce       nothing           after a row-parallel matmul
    GatherRows    all-gather       reduce-scatter    as CopyIn, with sequence parallelism
    ScatterRows   reduce-scatter   all-gather        as SumOut, with sequence parallelism

Activations are matrices of one row per token; rows are ordered by position, then by sample, so that
a slice of the sequence is a slice of the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Function

from parallel.layout import Group
from parallel.products import Weight, WeightWork
from process.pace import communicating
from training.eight_bits import EightBits, linear


def all_reduce(x: Tensor, group: Group) -> Tensor:
    with communicating("communication: all-reduce"):
        dist.all_reduce(x, group=group.handle)
    return x


def all_gather(x: Tensor, group: Group) -> Tensor:
    with communicating("communication: all-gather"):
        rows = x.new_empty(x.shape[0] * group.size, *x.shape[1:])
        dist.all_gather_single(rows, x.contiguous(), group=group.handle)
    return rows


def reduce_scatter(x: Tensor, group: Group) -> Tensor:
    with communicating("communication: reduce-scatter"):
        rows = x.new_empty(x.shape[0] // group.size, *x.shape[1:])
        dist.reduce_scatter_single(rows, x.contiguous(), group=group.handle)
    return rows


class CopyIn(Function):
    """Identity in forward; in backward the sum of every rank's dX."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return x.view_as(x)  # autograd requires a new tensor object; a view copies nothing

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # In place: the gradient comes from the next matmul, and only this function uses it.
        return all_reduce(grad.contiguous(), ctx.group), None


class SumOut(Function):
    """Sum of every rank's X in forward; identity in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.mark_dirty(x)  # the sum overwrites X, and autograd has to know this
        return all_reduce(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # Y = X₀ + X₁ + …, so each rank's X has the gradient of Y itself: nothing is sent.
        return grad, None


class GatherRows(Function):
    """All-gather of rows in forward, [rows, …] → [ranks · rows, …]; in backward each rank gets its
    own rows of dY, summed over all ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return all_gather(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return reduce_scatter(grad, ctx.group), None


class ScatterRows(Function):
    """Reverse of GatherRows: this rank's rows of the sum in forward, all rows of dY in backward.
    Together they send as many bytes as an all-reduce, which consists of the two."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return reduce_scatter(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return all_gather(grad, ctx.group), None


@dataclass(frozen=True)
class Slicing:
    """Split of the matrices in a piece of the model."""

    group: Group
    by_rows: bool  # sequence parallelism: between matmuls, the group also splits the rows
    work: WeightWork
    fp8: EightBits | None = None  # formats of the linear layers, if they have eight bits


def enter(x: Tensor, slicing: Slicing) -> Tensor:
    """Give every rank all rows of X, as a column-parallel matmul needs them."""
    if slicing.group.size == 1:
        return x
    return (GatherRows if slicing.by_rows else CopyIn).apply(x, slicing.group)


def leave(x: Tensor, slicing: Slicing) -> Tensor:
    """Sum after a row-parallel matmul, as a whole or split into rows."""
    if slicing.group.size == 1:
        return x
    return (ScatterRows if slicing.by_rows else SumOut).apply(x, slicing.group)


class ColumnParallel(nn.Module):
    """Linear layer with a slice of the outputs: weight [outputs / ranks, inputs]."""

    def __init__(self, inputs: int, outputs: int, slicing: Slicing, bias: bool = True) -> None:
        super().__init__()
        self.slicing, group = slicing, slicing.group
        self.fp8 = replace(slicing.fp8, outputs=group) if slicing.fp8 else None
        mine = outputs // group.size
        self.weight = sliced(nn.Parameter(torch.empty(mine, inputs)), 0, group)
        self.bias = sliced(nn.Parameter(torch.empty(mine)), 0, group) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return self.of_entered(enter(x, self.slicing))

    def of_entered(self, x: Tensor) -> Tensor:
        """Multiply rows that have passed `enter`. Two matrices can share one call of `enter`."""
        return linear(self.fp8, x, self.weight, self.bias, self.slicing.work)


class RowParallel(nn.Module):
    """Linear layer with a slice of the inputs: weight [outputs, inputs / ranks], then sum and
    bias."""

    def __init__(self, inputs: int, outputs: int, slicing: Slicing, bias: bool = True) -> None:
        super().__init__()
        self.slicing, group = slicing, slicing.group
        self.fp8 = replace(slicing.fp8, inputs=group) if slicing.fp8 else None
        self.weight = sliced(nn.Parameter(torch.empty(outputs, inputs // group.size)), 1, group)
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        work = self.slicing.work
        if self.slicing.group.size == 1:
            return linear(self.fp8, x, self.weight, self.bias, work)
        y = leave(linear(self.fp8, x, self.weight, None, work), self.slicing)
        return y if self.bias is None else y.add_(self.bias)


def sliced(parameter: Weight, dimension: int, group: Group) -> nn.Parameter:
    """Mark this dimension of the parameter as split over the group."""
    if group.size > 1:
        parameter.cuts = {**cuts_of(parameter), dimension: group}
    return parameter


def partial(parameter: Weight) -> None:
    """Mark a parameter whose gradient tensor ranks sum, although all have equal values."""
    parameter.partial = True


def is_partial(parameter: Tensor) -> bool:
    return getattr(parameter, "partial", False)


def cuts_of(parameter: Tensor) -> dict[int, Group]:
    """Return the split dimensions of a parameter, each with the ranks that share it."""
    return getattr(parameter, "cuts", {})


def whole_shape(parameter: Tensor) -> torch.Size:
    """Return the parameter's shape in the undivided model."""
    cuts = cuts_of(parameter)
    return torch.Size(n * cuts[d].size if d in cuts else n for d, n in enumerate(parameter.shape))


def slice_of(parameter: Tensor) -> tuple[slice, ...]:
    """Return the slice of the whole parameter that this rank holds."""
    at = {dimension: group.index for dimension, group in cuts_of(parameter).items()}
    return tuple(
        slice(at.get(dimension, 0) * n, (at.get(dimension, 0) + 1) * n)
        for dimension, n in enumerate(parameter.shape)
    )
