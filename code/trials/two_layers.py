"""Two layers that notice what is done to their parameters: were they whole when they computed, were
they the right ones, and was the other layer freed meanwhile."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from trials.shares import EQUAL, close, shares

SAMPLES = 3
BYTES = 8
"""Of a number in float64."""
PATIENCE_S = 2.0
"""A thread of gloo may hold what it received a little longer than the program does. So long a trial
waits in all before it says that something was not freed."""


class Freed(RuntimeError):
    """A layer was to compute while its parameters had no room."""

    def __init__(self, number: int) -> None:
        super().__init__(f"layer {number} has to compute, and its parameters are freed")
        self.layer = number


class WatchedLayer(nn.Module):
    """y = W x + b. `serial` and `before` are the right numbers of this step and of the last."""

    def __init__(self, number: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.number, self.shape = number, (outputs, inputs)
        self.weight = nn.Parameter(torch.randn(outputs, inputs, dtype=torch.float64))
        self.bias = nn.Parameter(torch.randn(outputs, dtype=torch.float64))
        self.serial = self.before = torch.zeros(0)
        self.neighbours: list[WatchedLayer] = []
        self.storages: list[StorageWeakRef] = []
        self.wrong: dict[str, Any] | None = None
        self.other_is_whole: dict[str, bool] = {}

    def begin(self, serial: torch.Tensor, neighbours: list[WatchedLayer]) -> None:
        self.before, self.serial = self.serial, serial.clone()
        self.neighbours = [layer for layer in neighbours if layer is not self]
        self.storages, self.wrong, self.other_is_whole = [], None, {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.look("forward", self.weight, self.bias)
        result: torch.Tensor = Affine.apply(x, self.weight, self.bias, self)  # type: ignore[no-untyped-call]
        return result

    def look(self, phase: str, *tensors: torch.Tensor) -> None:
        """What is there at the moment when the layer computes."""
        wanted = [self.shape, self.shape[:1]]
        for tensor, shape in zip(tensors, wanted, strict=False):
            if tensor.shape != shape or tensor.untyped_storage().nbytes() < BYTES * tensor.numel():
                raise Freed(self.number + 1)
        self.storages.append(StorageWeakRef(tensors[0].untyped_storage()))
        self.other_is_whole[phase] = any(layer.is_whole() for layer in self.neighbours)
        found = torch.cat([tensor.detach().flatten() for tensor in tensors])
        if self.wrong is None:
            self.wrong = self.judged(found, phase)

    def judged(self, found: torch.Tensor, phase: str) -> dict[str, Any] | None:
        wanted = self.serial[: len(found)]
        near = (found - wanted).abs() <= EQUAL * torch.clamp(wanted.abs(), min=1.0)
        if bool(near.all()):
            return None
        known = set(self.serial.tolist())
        return {
            "layer": self.number + 1, "phase": phase, "numbers": len(found),
            "places": (~near).nonzero().flatten().tolist(),
            "stale": len(self.before) > 0 and close(found, self.before[: len(found)]),
            "elsewhere": sum(number in known for number in found[~near].tolist()),
        }  # fmt: skip

    def is_whole(self) -> bool:
        """Some tensor that this layer computed with still has its room."""
        least = BYTES * self.shape[0] * self.shape[1]
        return any(stays(storage, least) for storage in self.storages)

    def keeps_gradients(self) -> bool:
        there = [getattr(self, name, None) for name in ("weight", "bias")]
        grads = [p.grad for p in there if isinstance(p, torch.Tensor) and p.is_leaf]
        return any(grad is not None and grad.untyped_storage().nbytes() for grad in grads)


class Affine(torch.autograd.Function):
    """X forward: W x + b. Backward: looks at W once more."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, layer: WatchedLayer
    ) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.layer = layer
        return x @ weight.T + bias

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        ctx.layer.look("backward", weight)
        return slopes[0] @ weight, slopes[0].T @ x, slopes[0].sum(0), None


class Patience:
    left_s = PATIENCE_S


def stays(storage: StorageWeakRef, least_bytes: int) -> bool:
    began = time.monotonic()
    while bytes_of(storage) >= least_bytes:
        if time.monotonic() - began > Patience.left_s:
            Patience.left_s = 0.0
            return True
        time.sleep(0.001)
    return False


def bytes_of(reference: StorageWeakRef) -> int:
    storage = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
    return 0 if storage is None else int(storage.nbytes())


def whole(layer: WatchedLayer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in layer.parameters()]).clone()


def draw(size: int, widths: tuple[int, ...], seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The samples of all ranks: those of rank r are rows r, r + size, …"""
    generator = torch.Generator().manual_seed(seed)
    x, y = (
        torch.randn(SAMPLES * size, width, generator=generator, dtype=torch.float64)
        for width in (widths[0], widths[-1])
    )
    return x, y


def plain_step(
    layers: list[WatchedLayer], serial: list[torch.Tensor], x: torch.Tensor, y: torch.Tensor
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The serial model's answer, and all gradients of each layer in one row."""
    numbers = [one.clone().requires_grad_() for one in serial]
    for place, (layer, own) in enumerate(zip(layers, numbers, strict=True)):
        weight, bias = own.split([layer.shape[0] * layer.shape[1], layer.shape[0]])
        x = nn.functional.linear(torch.tanh(x) if place else x, weight.view(layer.shape), bias)
    nn.functional.mse_loss(x, y).backward()
    return x.detach(), [one.grad for one in numbers if one.grad is not None]


def judged_gradient(shard: torch.Tensor, by_rank: list[torch.Tensor]) -> dict[str, Any]:
    """Of one shard, beside what each rank's samples alone would give; padding does not count."""
    found, wanted = shard.grad, torch.stack(by_rank).mean(0)
    if found is None:
        return {"ok": False, "slip": "no gradient"}
    if found.shape != shard.shape:
        return {"ok": False, "slip": "gradient shape", "has": list(found.shape)}
    found = found.detach()[: len(wanted)]
    if close(found, wanted):
        return {"ok": True}
    return {"ok": False, "slip": "gradients", "shares": shares(found, by_rank)}
