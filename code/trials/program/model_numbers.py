"""Short summaries of a model's weights and gradients, to compare ranks and files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

SUMS = 8
WRAPPERS = ("module.", "_orig_mod.")
"""What DistributedDataParallel and torch.compile put before the name of a weight."""


def norm(tensors: Iterable[Tensor]) -> float:
    """Return the norm of all numbers; ranks with equal norms hold equal numbers."""
    squares = [tensor.detach().double().square().sum().cpu() for tensor in tensors]
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0


def norm_in_file(what: Any, model: nn.Module) -> float | None:
    """Return the norm of the model's weights in saved content; None if some are missing."""
    names = [name for name, _ in model.named_parameters()]
    for table in tables(what):
        found = {plain(str(key)): value for key, value in table.items()}
        if all(isinstance(found.get(name), Tensor) for name in names):
            return norm(found[name] for name in names)
    return None


def tables(what: Any) -> Iterator[Mapping[Any, Any]]:
    """Yield all tables at any depth, as in `{"model": model.state_dict(), "epoch": 3}`."""
    if isinstance(what, nn.Module):
        what = what.state_dict()
    if isinstance(what, Mapping):
        yield what
        what = list(what.values())
    for value in what if isinstance(what, list | tuple) else ():
        yield from tables(value)


def plain(name: str) -> str:
    for prefix in WRAPPERS:
        name = name.removeprefix(prefix)
    return name


class FirstGradients:
    """Gradients of the first step: this rank's own, and the optimizer's."""

    def __init__(self) -> None:
        self.own: list[float] = []
        self.are_told = False

    def look(self, loss: Tensor, model: nn.Module) -> None:
        """Compute this rank's gradients; `autograd.grad` runs no hooks of DDP."""
        if not self.are_told and not self.own:
            weights = list(model.parameters())
            found = torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)
            self.own = sums(found)

    def told(self, model: nn.Module) -> dict[str, Any]:
        self.are_told = True
        return {"own": self.own, "used": sums(weight.grad for weight in model.parameters())}


def sums(tensors: Iterable[Tensor | None]) -> list[float]:
    """Return sums with random signs, equal on all ranks; they are linear, like the gradients."""
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(SUMS, dtype=torch.float64)
    for tensor in tensors:
        if tensor is None:
            continue
        shape = (SUMS, tensor.numel())
        signs = torch.randint(0, 2, shape, generator=generator).double() * 2 - 1
        total += signs @ tensor.detach().flatten().double().cpu()
    return total.tolist()
