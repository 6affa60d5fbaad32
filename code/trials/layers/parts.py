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

from trials.shares import close


@dataclass(frozen=True)
class LayerPart:
    """What was found, what the serial layer has, and by mistake what else it might be."""

    name: str
    found: Any
    wanted: Tensor
    mistakes: Mapping[str, Tensor | None] = field(default_factory=dict)

    def judged(self) -> dict[str, Any]:
        told = {"ok": False, "part": self.name}
        if not isinstance(self.found, Tensor):
            kind = self.found if isinstance(self.found, str) else type(self.found).__name__
            return told | {"slip": "none" if self.found is None else "no tensor", "has": kind}
        found = self.found.detach()
        shapes = {"has": list(found.shape), "wanted": list(self.wanted.shape)}
        if found.dtype != self.wanted.dtype:
            return told | {"slip": "dtype", "has": str(found.dtype)}
        if close(found, self.wanted):
            return {"ok": True}
        for mistake, value in self.mistakes.items():
            if value is not None and close(found, value):
                return told | {"slip": mistake} | shapes
        return told | {"slip": "shape" if shapes["has"] != shapes["wanted"] else "values"} | shapes


def first_wrong(*parts: LayerPart) -> dict[str, Any]:
    found = (part.judged() for part in parts)
    return next((one for one in found if not one["ok"]), {"ok": True})


def times(wanted: Tensor, size: int) -> dict[str, Tensor]:
    """Sums of equal numbers, and means where nothing is to be divided."""
    return {"times": size * wanted, "mean": wanted / size}


def draw(seed: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    """The same on every rank."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def slice_of(own: Any, weight: Tensor, dimension: int, size: int, rank: int) -> list[LayerPart]:
    """The rank's slice of the weight, a parameter of its own."""
    mine = weight.chunk(size, dimension)[rank]
    across = 1 - dimension
    held = getattr(own, "weight", None)
    if isinstance(held, Tensor) and not isinstance(held, nn.Parameter):
        held = "a tensor that is no torch.nn.Parameter"
    mistakes = {
        "whole": weight,
        "transposed": mine.T,
        "other dimension": weight.chunk(size, across)[rank],
        "other dimension, transposed": weight.chunk(size, across)[rank].T,
        "another rank's": weight.chunk(size, dimension)[0],
        "every so many": weight.index_select(
            dimension, torch.arange(rank, weight.shape[dimension], size)
        ),
    }
    return [LayerPart("the weight", held, mine, mistakes)]


def kept_bytes(own: Any) -> float:
    """Numbers that the slice keeps in memory, in units of its own: a view keeps the whole."""
    weight = own.weight
    return float(weight.untyped_storage().nbytes() / (weight.numel() * weight.element_size()))


def gradient(own: Any, name: str) -> Any:
    return getattr(getattr(own, name, None), "grad", None)


def gradients(
    layer: Callable[..., Tensor], values: Sequence[Tensor], dy: Tensor
) -> tuple[Tensor, ...]:
    """Those of the serial layer."""
    own = [one.clone().requires_grad_() for one in values]
    return torch.autograd.grad(layer(*own), own, dy)
