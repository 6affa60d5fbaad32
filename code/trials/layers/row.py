"""`RowParallel(weight, bias)`: every rank has some of the inputs of a linear layer.

own = RowParallel(weight, bias)        whole ones; the rank keeps its slice of the weight
y = own(x)                             x is this rank's slice, y is whole on every rank
y.backward(dy)                         the gradient of x is this rank's slice
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from trials.layers.keeping import memory_kept
from trials.layers.linear import LinearTrial, last_dimension, whole
from trials.layers.parts import LayerPart, first_wrong, gradient, gradients, slice_of, times

NAME = "RowParallel"


def slices(own: Any, weight: Tensor, bias: Tensor, size: int, rank: int) -> dict[str, Any]:
    """One rank alone may hold the bias; where none does, y will lack it."""
    parts = [slice_of(own, weight, 1, size, rank)]
    held = getattr(own, "bias", None)
    if size == 1 or held is not None:
        mistakes = {
            "cut": bias.chunk(size)[rank],
            "divided": bias / size,
            "zeros": torch.zeros_like(bias),
        }
        parts.append(LayerPart("the bias", held, bias, mistakes, is_parameter=True))
    found = first_wrong(*parts)
    return found | (memory_kept(own) if found["ok"] else {})


def forward(y: Any, x: Tensor, weight: Tensor, bias: Tensor, size: int, rank: int) -> Any:
    product = x @ weight.T
    by_rank = zip(x.chunk(size, -1), weight.chunk(size, 1), strict=True)
    every = [one @ held.T for one, held in by_rank]
    partial = every[rank]
    mistakes = {
        "no bias": product,
        "partial": partial + bias,
        "partial, no bias": partial,
        "bias everywhere": product + size * bias,
        "mean": product / size + bias,
        "mean with the bias": (product + bias) / size,
        "times": size * product + bias,
        "cut": (product + bias).chunk(size, -1)[rank],
        "transposed": (product + bias).transpose(-1, -2),
    }
    summands = [*every, bias.expand_as(product)]
    return first_wrong(LayerPart("y", y, product + bias, mistakes, summands=summands))


def backward(own: Any, x: Tensor, given: tuple[Tensor, ...], size: int, rank: int) -> Any:
    dx, dweight, dbias = gradients(nn.functional.linear, given[:3], given[3])
    parts = []
    for name, found, serial, dimension in (
        ("x", x.grad, dx, -1),
        ("the weight", gradient(own, "weight"), dweight, 1),
    ):
        of_all = serial.chunk(size, dimension)
        mine = of_all[rank]
        mistakes = {"added up": torch.stack(of_all).sum(0), **times(mine, size)}
        parts.append(LayerPart(f"the gradient of {name}", found, mine, mistakes, of_all))
    if getattr(own, "bias", None) is not None:
        held = gradient(own, "bias")
        parts.append(LayerPart("the gradient of the bias", held, dbias, times(dbias, size)))
    return first_wrong(*parts)


attempt = LinearTrial(last_dimension, whole, slices, forward, backward).attempt
