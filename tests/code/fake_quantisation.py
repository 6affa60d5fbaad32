"""A linear layer in eight bits for one device. It rounds its matrices to eight-bit numbers, and
multiplies them as usual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import max_pool2d

TYPES = {448.0: torch.float8_e4m3fn, 57344.0: torch.float8_e5m2}


@dataclass(frozen=True)
class Eight:
    recipe: str
    hybrid: bool
    samples: int  # of a micro-batch, whose rows are one matrix


def rounded(x: Tensor, recipe: str, largest: float = 448.0, weight: bool = False) -> Tensor:
    """Round a matrix [m, k] for a product that sums over k."""
    tile = {
        "tensorwise": (x.shape[0], x.shape[1]),
        "rowwise": (1, x.shape[1]),
        "blockwise": (128 if weight else 1, 128),
        "mxfp8": (1, 32),
    }[recipe]
    most = max_pool2d(x.abs().unsqueeze(0), tile, tile).squeeze(0)
    scale = torch.exp2(torch.floor(torch.log2(largest / most.clamp(min=1e-30))))
    scale = scale.repeat_interleave(tile[0], 0).repeat_interleave(tile[1], 1)
    return (x * scale).to(TYPES[largest]).to(x.dtype) / scale


class _Product(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eight: Eight) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eight = eight
        return rounded(x, eight.recipe) @ rounded(weight, eight.recipe, weight=True).t()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        recipe, largest = ctx.eight.recipe, 57344.0 if ctx.eight.hybrid else 448.0
        of_weight = rounded(weight.t(), recipe, weight=True).t()
        dy = rounded(grad.t(), recipe, largest)
        dx = rounded(grad, recipe, largest) @ of_weight
        return dx, dy @ rounded(x.t(), recipe).t(), None


class FakeQuantised(nn.Linear):
    eight: Eight

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to [samples, positions, inputs], by micro-batch. Rows are sorted by
        position, then by sample."""
        done = []
        for piece in x.split(self.eight.samples):
            y = _Product.apply(piece.transpose(0, 1).flatten(0, 1), self.weight, self.eight)
            done.append(y.view(x.shape[1], -1, y.shape[1]).transpose(0, 1))
        y = torch.cat(done)
        return y if self.bias is None else y + self.bias
