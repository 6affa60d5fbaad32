"""Layers that notice what is done to their parameters: were they whole when they computed, and were
they the right ones?"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from trials.room import BYTES, stays
from trials.shares import EQUAL, close, right_digits


class Freed(RuntimeError):
    """A layer was to compute while its parameters had no room."""

    def __init__(self, number: int) -> None:
        super().__init__(f"layer {number} has to compute, and its parameters are freed")
        self.layer = number


class WatchedLayer(nn.Module):
    """W x + b; or W2 tanh(W1 x + b1) + b2, whose gradients come one part after the other.
    `serial` and `before` are the right numbers of this step and of the last."""

    def __init__(self, number: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.number = number
        self.parts = nn.ModuleList(
            nn.Linear(a, b, dtype=torch.float64) for a, b in pairwise(widths)
        )
        self.shapes = [(b, a) for a, b in pairwise(widths)]
        self.serial = self.before = torch.zeros(0)
        self.look_around: Callable[[WatchedLayer, str], None] = lambda *_: None
        self.storages: list[tuple[StorageWeakRef, int]] = []
        self.wrong: dict[str, Any] | None = None
        self.was_in_backward = False

    @property
    def numbers(self) -> int:
        return sum(b * a + b for b, a in self.shapes)

    def begin(self, serial: torch.Tensor, look_around: Callable[[WatchedLayer, str], None]) -> None:
        self.before, self.serial = self.serial, serial.clone()
        self.look_around = look_around
        self.storages, self.wrong, self.was_in_backward = [], None, False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shapes: list[tuple[int, ...]] = [
            shape for whole in self.shapes for shape in (whole, whole[:1])
        ]
        self.look(
            "forward", 0, [p for part in self.parts for p in (part.weight, part.bias)], shapes
        )
        for place, part in enumerate(self.parts):
            x = torch.tanh(x) if place else x
            x = Affine.apply(x, part.weight, part.bias, self, place)  # type: ignore[no-untyped-call]
        return x

    def look_back(self, place: int, weight: torch.Tensor) -> None:
        start = sum(b * a + b for b, a in self.shapes[:place])
        self.was_in_backward = True
        self.look("backward", start, [weight], [self.shapes[place]])

    def look(
        self, phase: str, start: int, tensors: list[Any], shapes: list[tuple[int, ...]]
    ) -> None:
        """What is there at the moment when the layer computes."""
        for tensor, shape in zip(tensors, shapes, strict=True):
            if tensor.shape != shape or tensor.untyped_storage().nbytes() < BYTES * tensor.numel():
                raise Freed(self.number + 1)
            if len(shape) > 1:
                reference = StorageWeakRef(tensor.untyped_storage())
                self.storages.append((reference, BYTES * tensor.numel()))
        self.look_around(self, phase)
        found = torch.cat([tensor.detach().flatten() for tensor in tensors])
        if self.wrong is None:
            self.wrong = self.judged(found, start, phase)

    def judged(self, found: torch.Tensor, start: int, phase: str) -> dict[str, Any] | None:
        wanted = self.serial[start : start + len(found)]
        near = (found - wanted).abs() <= EQUAL * torch.clamp(wanted.abs(), min=1.0)
        if bool(near.all()):
            return None
        known = set(self.serial.tolist())
        stale = self.before[start : start + len(found)]
        return {
            "layer": self.number + 1, "phase": phase, "numbers": self.numbers,
            "looked at": [start, start + len(found)],
            "places": [start + place for place in (~near).nonzero().flatten().tolist()],
            "stale": len(stale) > 0 and close(found, stale),
            "elsewhere": sum(number in known for number in found[~near].tolist()),
            "digits": right_digits(found, wanted),
        }  # fmt: skip

    def is_whole(self) -> bool:
        """Some tensor that this layer computed with still has its room."""
        return any(stays(storage, least_bytes) for storage, least_bytes in self.storages)

    def has_room(self) -> bool:
        """Its parameters have room at this moment."""
        weights = [getattr(part, "weight", None) for part in self.parts]
        return any(
            isinstance(weight, torch.Tensor)
            and weight.numel() == b * a
            and weight.untyped_storage().nbytes() >= BYTES * b * a
            for weight, (b, a) in zip(weights, self.shapes, strict=True)
        )

    def keeps_gradients(self) -> bool:
        grads = [p.grad for p in self.parameters() if p.is_leaf]
        return any(grad is not None and grad.untyped_storage().nbytes() for grad in grads)


class Affine(torch.autograd.Function):
    """X forward: W x + b. Backward: looks at W once more."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, layer: WatchedLayer,
        place: int,
    ) -> torch.Tensor:  # fmt: skip
        ctx.save_for_backward(x, weight)
        ctx.layer, ctx.place = layer, place
        return x @ weight.T + bias

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        ctx.layer.look_back(ctx.place, weight)
        return slopes[0] @ weight, slopes[0].T @ x, slopes[0].sum(0), None, None


def whole(layer: WatchedLayer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in layer.parameters()]).clone()


def in_turn(layers: list[Any], x: torch.Tensor) -> Any:
    """One layer after the other, with a tanh between them."""
    for place, layer in enumerate(layers):
        x = layer(torch.tanh(x) if place else x)
    return x


def plain_step(
    layers: list[WatchedLayer], serial: list[torch.Tensor], x: torch.Tensor, y: torch.Tensor
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The serial model's answer, and all gradients of each layer in one row."""
    numbers = [one.clone().requires_grad_() for one in serial]
    for number, (layer, own) in enumerate(zip(layers, numbers, strict=True)):
        parts = own.split([count for b, a in layer.shapes for count in (b * a, b)])
        for place, shape in enumerate(layer.shapes):
            x = torch.tanh(x) if number or place else x
            x = nn.functional.linear(x, parts[2 * place].view(shape), parts[2 * place + 1])
    nn.functional.mse_loss(x, y).backward()
    return x.detach(), [one.grad for one in numbers if one.grad is not None]
