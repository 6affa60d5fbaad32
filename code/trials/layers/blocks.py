"""Test 08b.1: `BlockMatmul` multiplies matrices in eight bits, with a scale for each 32 numbers.

y = BlockMatmul.apply(x, weight)       [rows, k] and [outputs, k] → [rows, outputs]
y.backward(dy)

Each rank has some of the k columns of both matrices, and the test adds up y. Blocks of 32 never
extend over ranks, so the gradients are slices of the serial ones."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trials.compare import difference
from trials.ranks import Ranks

BLOCK, ROWS, OUTPUTS, K = 32, 64, 96, 384
E4M3 = torch.float8_e4m3fn
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
    own_x, own_weight = (one[:, here].clone().requires_grad_() for one in (x, weight))
    y = ranks.run("forward", BlockMatmul.apply, own_x, own_weight)
    total = y.detach().clone() if isinstance(y, Tensor) else y
    if isinstance(y, Tensor) and (y.shape, y.dtype) == (dy.shape, dy.dtype):
        dist.all_reduce(total)
    own = sys.modules[BlockMatmul.__module__]
    same(ranks, "y", total, x, weight, row * output, own)
    ranks.run("backward", y.backward, dy.clone())
    same(ranks, "the gradient of x", own_x.grad, dy, weight.T, (column / row)[:, here], own, here)
    undo = 1 / (output[:, None] * column)
    same(ranks, "the gradient of the weight", own_weight.grad, dy.T, x.T, undo[:, here], own, here)


def same(
    ranks: Ranks, what: str, found: Any, a: Tensor, b: Tensor, undo: Tensor, own: Any,
    here: slice = slice(None),
) -> None:  # fmt: skip
    """Compare with the fake-quantised a bᵀ, after undoing the differences in size. If it differs,
    look first at how the learner's file rounds a matrix."""
    right = quantised(a), quantised(b)
    pairs = {
        "plain": (a, b), "dy is plain": (a, right[1]), "as in dX": (quantised(a.T).T, right[1]),
        "as in forward": (right[0], quantised(b.T).T),
        "other axis": (quantised(a.T).T, quantised(b.T).T),
    }  # fmt: skip
    if isinstance(found, Tensor) and found.shape == undo.shape:
        found = found * undo
    mistakes = {name: undo * (one @ other.T)[:, here] for name, (one, other) in pairs.items()}
    wanted = undo * (right[0] @ right[1].T)[:, here]
    if difference(found, wanted, mistakes=mistakes).get("mistake") == "values":
        seen: dict[str, Any] = {}
        with contextlib.suppress(Exception):  # a file may do without these functions
            seen = rounding(own, a)
        ranks.holds("the rounding", not seen, **seen)
    ranks.same(what, found, wanted, mistakes=mistakes)


def rounding(own: Any, matrix: Tensor) -> dict[str, Any]:
    """Measure the number that `quantise` and `dequantise` of a file round worst; {} if none."""
    values, scales = own.quantise(matrix.clone())
    found, wanted = own.dequantise(values, scales), quantised(matrix)
    blocks = matrix.reshape(-1, BLOCK)
    right = scales_of(blocks)
    missed = ((found - wanted).reshape(-1, BLOCK) * right).abs()
    if float(missed.max()) == 0:
        return {}
    at = int(missed.argmax())
    scale = float(scales.expand(len(matrix), -1, BLOCK).flatten()[at])
    return {
        "mistake": "right" if scale == float(right[at // BLOCK]) else "",
        "number": float(matrix.flatten()[at]), "has": float(found.flatten()[at]),
        "wanted": float(wanted.flatten()[at]), "dtype": str(values.dtype).removeprefix("torch."),
        "largest": float(blocks[at // BLOCK].abs().max()),
        "scale": scale,
        "right_scale": float(right[at // BLOCK]),
    }  # fmt: skip


def scales_of(blocks: Tensor) -> Tensor:
    largest = blocks.abs().amax(1, keepdim=True)
    return (LARGEST / torch.where(largest == 0, 1, largest)).log2().floor().exp2()


def quantised(matrix: Tensor) -> Tensor:
    """Round to what eight bits can hold, with a scale for each block along the last dimension."""
    blocks = matrix.reshape(-1, BLOCK)
    scales = scales_of(blocks)
    return ((blocks * scales).to(E4M3).to(matrix.dtype) / scales).view_as(matrix)
