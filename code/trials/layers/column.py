"""`ColumnParallel(weight, bias)`: every rank has some of the outputs of a linear layer.

own = ColumnParallel(weight, bias)     whole ones; the rank keeps its slices
y = own(x)                             x is whole on every rank, y this rank's slice
y.backward(dy)                         the gradient of x is whole again
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from trials.layers.keeping import memory_kept
from trials.layers.linear import LinearTrial, last_dimension, whole
from trials.layers.parts import (
    LayerPart,
    every_so_many,
    first_wrong,
    gradient,
    gradients,
    slice_of,
    times,
)

NAME = "ColumnParallel"


def slices(own: Any, weight: Tensor, bias: Tensor, size: int, rank: int) -> dict[str, Any]:
    pieces = bias.chunk(size)
    mistakes = {"whole": bias, "every so many": every_so_many(bias, 0, size, rank)}
    held = getattr(own, "bias", None)
    found = first_wrong(
        slice_of(own, weight, 0, size, rank),
        LayerPart("the bias", held, pieces[rank], mistakes, pieces, is_parameter=True),
    )
    return found | (memory_kept(own) if found["ok"] else {})


def forward(y: Any, x: Tensor, weight: Tensor, bias: Tensor, size: int, rank: int) -> Any:
    outputs = nn.functional.linear(x, weight, bias)
    pieces = outputs.chunk(size, -1)
    mine = pieces[rank]
    mistakes = {
        "gathered": outputs,
        "transposed": mine.transpose(-1, -2),
        "no bias": mine - bias.chunk(size)[rank],
        **times(mine, size),
    }
    return first_wrong(LayerPart("y", y, mine, mistakes, pieces))


def backward(own: Any, x: Tensor, given: tuple[Tensor, ...], size: int, rank: int) -> Any:
    dx, dweight, dbias = gradients(nn.functional.linear, given[:3], given[3])
    by_rank = zip(given[3].chunk(size, -1), given[1].chunk(size), strict=True)
    alone = [dy @ weight for dy, weight in by_rank]
    mistakes = {"own": alone[rank], **times(dx, size)}
    parts = [LayerPart("the gradient of x", x.grad, dx, mistakes, summands=alone)]
    for name, of_all in {"weight": dweight, "bias": dbias}.items():
        slices_of_all = of_all.chunk(size)
        mine = slices_of_all[rank]
        mistakes = {"added up": torch.stack(slices_of_all).sum(0), **times(mine, size)}
        parts.append(LayerPart(f"the gradient of the {name}", gradient(own, name), mine, mistakes))
    return first_wrong(*parts)


attempt = LinearTrial(whole, last_dimension, slices, forward, backward).attempt
