"""Test 08b.1: `BlockMatmul` multiplies matrices in eight bits, with a scale for each 32 numbers.

y = BlockMatmul.apply(x, weight)       [rows, k] and [outputs, k] → [rows, outputs]
y.backward(dy)

Each rank has some of the k columns of both matrices, and the test adds up y. Blocks of 32 never
extend over ranks, so the gradients are slices of the serial ones."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trials.ranks import Ranks

BLOCK, ROWS, OUTPUTS, K = 32, 64, 96, 384
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
LARGEST = 448.0


def test(BlockMatmul: Any, ranks: Ranks) -> None:
    x, weight, dy, *exponents = ranks.draw(
        (ROWS, K), (OUTPUTS, K), (ROWS, OUTPUTS), (ROWS, 1), (OUTPUTS,), (K,)
    )
    # Sizes differ by more than E4M3 can hold, but all summands of a product are of equal size, so
    # that no error is hidden.
    row, output, column = ((5 * one).round().clamp(-10, 10).exp2() for one in exponents)
    x *= column / row
    weight /= output[:, None] * column
    dy *= row * output
    x[:BLOCK, :BLOCK] = 0
    here = slice(ranks.rank * K // ranks.size, (ranks.rank + 1) * K // ranks.size)
    mine, own = (one[:, here].clone().requires_grad_() for one in (x, weight))
    y = ranks.run("forward", BlockMatmul.apply, mine, own)
    total = y.detach().clone() if isinstance(y, Tensor) else y
    if isinstance(y, Tensor) and (y.shape, y.dtype) == (dy.shape, dy.dtype):
        dist.all_reduce(total)
    same(ranks, "y", total, x, weight, row * output)
    ranks.run("backward", y.backward, dy.clone())
    same(ranks, "the gradient of x", mine.grad, dy, weight.T, (column / row)[:, here], here)
    undo = 1 / (output[:, None] * column)
    same(ranks, "the gradient of the weight", own.grad, dy.T, x.T, undo[:, here], here)


def same(
    ranks: Ranks, what: str, found: Any, a: Tensor, b: Tensor, undo: Tensor,
    here: slice = slice(None),
) -> None:  # fmt: skip
    """Compare with the fake-quantised a bᵀ, after undoing the differences in size."""
    right = quantised(a), quantised(b)
    pairs = {
        "plain": (a, b), "dy is plain": (a, right[1]), "as in dX": (quantised(a.T).T, right[1]),
        "as in forward": (right[0], quantised(b.T).T),
    } | {name: (quantised(a, name), quantised(b, name)) for name in MISTAKES}  # fmt: skip
    if isinstance(found, Tensor) and found.shape == undo.shape:
        found = found * undo
    ranks.same(what, found, undo * (right[0] @ right[1].T)[:, here], mistakes={
        name: undo * (one @ other.T)[:, here] for name, (one, other) in pairs.items()
    })  # fmt: skip


MISTAKES = (
    "per tensor", "per row", "other axis", "inverted", "too large", "nearest", "signed",
    "no power of two", "e5m2",
)  # fmt: skip


def quantised(matrix: Tensor, mistake: str = "") -> Tensor:
    """Round to what eight bits can hold, with a scale for each block along the last dimension."""
    if mistake == "other axis":
        return quantised(matrix.T).T
    dtype = E5M2 if mistake == "e5m2" else E4M3
    size = {"per tensor": matrix.numel(), "per row": matrix.shape[1]}.get(mistake, BLOCK)
    blocks = matrix.reshape(-1, size)
    largest = (blocks if mistake == "signed" else blocks.abs()).amax(1, keepdim=True)
    scale = LARGEST / torch.where(largest == 0, 1, largest)
    if mistake == "nearest":
        scale = scale.log2().round().exp2()
    elif mistake != "no power of two":
        scale = scale.log2().floor().exp2() * (2 if mistake == "too large" else 1)
    scale = 1 / scale if mistake == "inverted" else scale
    return ((blocks * scale).to(dtype).to(matrix.dtype) / scale).view_as(matrix)
