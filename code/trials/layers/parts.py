"""What the trials of parallel layers share: a result is held against the serial one, and against
those to which the likely mistakes lead.

Every part has a name, and a wrong one is told with the name of the mistake whose numbers it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from trials.shares import close, shares

ROUNDED = 1e-5
"""So far from the right number, in units of the largest one, is what once was float32."""


@dataclass(frozen=True)
class LayerPart:
    """What was found, what the serial layer has, and by mistake what else it might be."""

    name: str
    found: Any
    wanted: Tensor
    mistakes: Mapping[str, Tensor | None] = field(default_factory=dict)
    pieces: Sequence[Tensor] = ()
    """Those of all ranks; one of them is wanted."""
    summands: Sequence[Tensor] = ()
    """What adds up to it, by rank."""
    is_parameter: bool = False

    def judged(self) -> dict[str, Any]:
        told = {"ok": False, "part": self.name}
        if not isinstance(self.found, Tensor):
            kind = type(self.found).__name__
            return told | {"slip": "none" if self.found is None else "no tensor", "has": kind}
        if self.is_parameter and not isinstance(self.found, nn.Parameter):
            return told | {"slip": "no parameter"}
        if self.is_parameter and not self.found.requires_grad:
            return told | {"slip": "frozen"}
        found = self.found.detach()
        if found.dtype != self.wanted.dtype:
            return told | {"slip": "dtype", "has": str(found.dtype)}
        if close(found, self.wanted):
            return {"ok": True}
        shapes = {"has": list(found.shape), "wanted": list(self.wanted.shape)}
        return told | self._slip(found) | shapes

    def _slip(self, found: Tensor) -> dict[str, Any]:
        for mistake, value in self.mistakes.items():
            if value is not None and close(found, value):
                return {"slip": mistake}
        for rank, piece in enumerate(self.pieces):
            if close(found, piece):
                return {"slip": "another rank's", "whose": rank}
        if found.shape != self.wanted.shape:
            return {"slip": "shape"}
        if not bool(torch.isfinite(found).all()):
            return {"slip": "not finite"}
        if float((found - self.wanted).abs().max()) < ROUNDED * float(self.wanted.abs().max()):
            return {"slip": "rounded"}
        held = shares(found, list(self.summands)) if len(self.summands) > 1 else None
        return {"slip": "shares", "shares": held} if held else {"slip": "values"}


def first_wrong(*parts: LayerPart) -> dict[str, Any]:
    found = (part.judged() for part in parts)
    return next((one for one in found if not one["ok"]), {"ok": True})


def times(wanted: Tensor, size: int) -> dict[str, Tensor]:
    """Sums of equal numbers, and means where nothing is to be divided."""
    return {"times": size * wanted, "mean": wanted / size}


def slice_of(own: Any, weight: Tensor, dimension: int, size: int, rank: int) -> LayerPart:
    """The rank's slice of the weight, a parameter of its own."""
    pieces = weight.chunk(size, dimension)
    across = weight.chunk(size, 1 - dimension)[rank]
    mistakes = {
        "whole": weight,
        "transposed": pieces[rank].T,
        "other dimension": across,
        "other dimension, transposed": across.T,
        "every so many": every_so_many(weight, dimension, size, rank),
    }
    held = getattr(own, "weight", None)
    return LayerPart("the weight", held, pieces[rank], mistakes, pieces, is_parameter=True)


def every_so_many(tensor: Tensor, dimension: int, size: int, rank: int) -> Tensor:
    return tensor.index_select(dimension, torch.arange(rank, tensor.shape[dimension], size))


def gradient(own: Any, name: str) -> Any:
    return getattr(getattr(own, name, None), "grad", None)


def gradients(
    layer: Callable[..., Tensor], values: Sequence[Tensor], dy: Tensor
) -> tuple[Tensor, ...]:
    """Those of the serial layer."""
    own = [one.clone().requires_grad_() for one in values]
    return torch.autograd.grad(layer(*own), own, dy)
