"""Matmuls of eight-bit numbers (--fp8-format), which a GPU computes twice as fast as bfloat16.

A number of 8 bits is a sign, an exponent and a mantissa:

    e4m3   4 bits of exponent, 3 of mantissa   up to 448      inputs and weights
    e5m2   5 bits of exponent, 2 of mantissa   up to 57,344   gradients, with `hybrid`

The range is small. So each block of a matrix has a scale, which moves its largest number to the end
of the range; the product is divided by it. Blocks (--fp8-recipe), in a product that sums over k:

    tensorwise   the whole matrix
    rowwise      the numbers that one sum uses: a whole row, along k
    blockwise    128 numbers along k; of a weight, 128 × 128
    mxfp8        32 numbers along k

Megatron-LM has these recipes too, except `rowwise`, which is torchao's.

Scales are powers of two: scaling is then exact, and only the cast to 8 bits rounds. A matrix is
quantised for each of its products, because each product sums over a different dimension:

    Y = X Wᵀ    over inputs            dX = dY W    over outputs           dW = dYᵀ X    over rows

Since Hopper, GPUs multiply `tensorwise` and `rowwise` in eight bits (`torch._scaled_mm`). Other
recipes and devices are emulated: cast to 8 bits and back, then multiply. Both sum the same
products.

Every layout computes the same. A block of a whole matrix or row can extend over ranks, which then
agree on its largest number. Smaller blocks never do: layout_checks.py refuses such sizes. The rows
are those of one micro-batch.

Only the linear layers of attention and MLP use eight bits. The rest is a small part of the time,
or needs the precision: embeddings, head and loss, norms, the products of queries and keys and of
probabilities and values, routers and experts (whose rows are of several micro-batches, mixed in an
order that depends on the layout), sums over ranks, gradients and the optimizer's weights."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

from parallel.layout import ALONE, Group
from parallel.products import WeightWork, product
from process.pace import communicating

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
# Power of two at the end of the range; both largest numbers are 0.875 times it.
TOP = {E4M3: 9, E5M2: 16}
BLOCK = {"blockwise": 128, "mxfp8": 32}
# Scales are float32: a larger exponent would overflow.
LARGEST_EXPONENT = 126


@dataclass(frozen=True)
class EightBits:
    """Formats of a linear layer's matrices, and the ranks that have the other parts of each
    dimension."""

    recipe: str
    gradients: torch.dtype = E4M3  # inputs and weights are always E4M3
    rows: Group = ALONE
    inputs: Group = ALONE
    outputs: Group = ALONE


def eight_bits_of(args: argparse.Namespace, context: Group) -> EightBits | None:
    if args.fp8_format is None:
        return None
    gradients = E5M2 if args.fp8_format == "hybrid" else E4M3
    return EightBits(args.fp8_recipe, gradients, rows=context)


@dataclass(frozen=True)
class Quantised:
    """Matrix [m, k] in eight bits: each number is its value divided by the scale of its block."""

    values: Tensor
    scales: Tensor  # [blocks down, 1, blocks along k, 1]

    def numbers(self, dtype: torch.dtype) -> Tensor:
        """Return the exact numbers that the eight bits represent: the fake-quantised matrix."""
        down, _, along, _ = self.scales.shape
        m, k = self.values.shape
        wide = self.values.to(self.scales.dtype).view(down, m // down, along, k // along)
        return (wide / self.scales).view(m, k).to(dtype)


def quantise(
    matrix: Tensor, dtype: torch.dtype, block: tuple[int, int], groups: Sequence[Group]
) -> Quantised:
    """Quantise [m, k] in blocks of `block` numbers along m and k. 0 is the whole dimension, over
    all ranks of its group."""
    m, k = matrix.shape
    down, along = block[0] or m, block[1] or k
    wide = matrix.to(torch.promote_types(matrix.dtype, torch.float32))
    blocks = wide.reshape(m // down, down, k // along, along)
    largest = blocks.abs().amax((1, 3), keepdim=True)
    for size, group in zip(block, groups, strict=True):
        if not size and group.size > 1:
            with communicating("communication: largest number"):
                dist.all_reduce(largest, dist.ReduceOp.MAX, group=group.handle)
    scales = scale_to(TOP[dtype], largest)
    return Quantised((blocks * scales).to(dtype).view(m, k).contiguous(), scales)


def scale_to(top: int, largest: Tensor) -> Tensor:
    """Return the largest power of two that keeps `largest` within 0.875 · 2^top."""
    mantissa, exponent = torch.frexp(largest)  # mantissa · 2^exponent, mantissa from 0.5 to 1
    exponent = (top - exponent - (mantissa > 0.875).int()).clamp(
        -LARGEST_EXPONENT, LARGEST_EXPONENT
    )
    scale = torch.ldexp(torch.ones_like(largest), exponent)
    # The cast would turn an infinity into the largest number, and hide an overflow.
    return torch.where(largest.isfinite(), scale, torch.nan)


def block_of(recipe: str, weight: bool = False) -> tuple[int, int]:
    """Return the size of a block along m and k; 0 is the whole dimension."""
    if recipe == "tensorwise":
        return 0, 0
    if recipe == "rowwise":
        return 1, 0
    size = BLOCK[recipe]
    return (size if weight and recipe == "blockwise" else 1), size


def multiply(a: Quantised, b: Quantised, dtype: torch.dtype) -> Tensor:
    """Return a bᵀ: [m, k] and [n, k] → [m, n]."""
    if multiplies_in_eight_bits(a, b, dtype):
        # _scaled_mm takes a factor for each row of a and of b, or one for each matrix.
        factors = (1 / a.scales).float().view(-1, 1), (1 / b.scales).float().view(1, -1)
        return torch._scaled_mm(a.values, b.values.t(), *factors, out_dtype=dtype)
    return a.numbers(dtype) @ b.numbers(dtype).t()


def multiplies_in_eight_bits(a: Quantised, b: Quantised, dtype: torch.dtype) -> bool:
    """Return True if `_scaled_mm` works: one scale per matrix or row, on Hopper or later."""
    if not has_eight_bits(a.values.device):
        return False
    whole = all(q.scales.shape[2] == 1 for q in (a, b))
    sixteens = not any(size % 16 for q in (a, b) for size in q.values.shape)
    by_row = a.scales.numel() > 1 or b.scales.numel() > 1
    types = (torch.bfloat16,) if by_row else (torch.bfloat16, torch.float16, torch.float32)
    return whole and sixteens and dtype in types


def has_eight_bits(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


def emulated(args: argparse.Namespace, device: torch.device) -> str | None:
    """Return a note for the log, if all matmuls in eight bits are emulated."""
    if args.fp8_format and (args.fp8_recipe in BLOCK or not has_eight_bits(device)):
        return f"--fp8-recipe {args.fp8_recipe} is emulated here: equal results, no speed"
    return None


class _EightBitProduct(Function):
    """Y = X Wᵀ + b of products.py, with all three matmuls in eight bits."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, work: WeightWork, fp8: EightBits
    ) -> Tensor:
        of_x, of_weight = block_of(fp8.recipe), block_of(fp8.recipe, weight=True)
        y = multiply(
            quantise(x, E4M3, of_x, (fp8.rows, fp8.inputs)),
            quantise(weight, E4M3, of_weight, (fp8.outputs, fp8.inputs)),
            x.dtype,
        )
        # For dW, which sums over rows: one byte per activation stays until backward, not two.
        kept = quantise(x.t(), E4M3, of_x, (fp8.inputs, fp8.rows))
        ctx.save_for_backward(kept.values, kept.scales)
        ctx.weight, ctx.bias, ctx.work, ctx.fp8 = weight, bias, work, fp8
        return y if bias is None else y.add_(bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        fp8, weight = ctx.fp8, ctx.weight
        of_grad, of_weight = block_of(fp8.recipe), block_of(fp8.recipe, weight=True)
        dx = multiply(
            quantise(grad, fp8.gradients, of_grad, (fp8.rows, fp8.outputs)),
            quantise(weight.t(), E4M3, of_weight, (fp8.inputs, fp8.outputs)),
            grad.dtype,
        )
        dy = quantise(grad.t(), fp8.gradients, of_grad, (fp8.outputs, fp8.rows))
        # A function, since a zero-bubble schedule computes dW later.
        dw = partial(multiply, dy, Quantised(*ctx.saved_tensors), grad.dtype)
        return dx, ctx.work.add_result(weight, dw), ctx.work.add_bias(ctx.bias, grad), None, None


def linear(
    fp8: EightBits | None, x: Tensor, weight: Tensor, bias: Tensor | None, work: WeightWork
) -> Tensor:
    """Return X Wᵀ + b of a linear layer, in eight bits or as products.py does."""
    if fp8 is None:
        return product(x, weight, bias, work)
    out: Tensor = _EightBitProduct.apply(x, weight, bias, work, fp8)
    return out
