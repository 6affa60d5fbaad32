"""A model's weights and gradients in a few numbers, by which ranks and files can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

SUMS = 8
WRAPPERS = ("module.", "_orig_mod.")
"""What DistributedDataParallel and torch.compile put before the name of a weight."""


def norm(tensors: Iterable[Tensor]) -> float:
    """Of all numbers: two ranks that agree in it hold the same ones."""
    squares = [tensor.detach().double().square().sum().cpu() for tensor in tensors]
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0


def norm_in_file(what: Any, model: nn.Module) -> float | None:
    """Of the model's weights, by their names; None where they are not in it."""
    names = [name for name, _ in model.named_parameters()]
    for table in tables(what):
        found = {plain(str(key)): value for key, value in table.items()}
        if all(isinstance(found.get(name), Tensor) for name in names):
            return norm(found[name] for name in names)
    return None


def tables(what: Any) -> Iterator[Mapping[Any, Any]]:
    """`{"model": model.state_dict(), "epoch": 3}` has one within it."""
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
    """Of the first step: this rank's own, and those that the optimizer was given."""

    def __init__(self) -> None:
        self.own: list[float] = []
        self.are_told = False

    def look(self, loss: Tensor, model: nn.Module) -> None:
        """(Hooks of DistributedDataParallel do not run where gradients are only asked for.)"""
        if not self.are_told and not self.own:
            weights = list(model.parameters())
            found = torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)
            self.own = sums(found)

    def told(self, model: nn.Module) -> dict[str, Any]:
        self.are_told = True
        return {"own": self.own, "used": sums(weight.grad for weight in model.parameters())}


def sums(tensors: Iterable[Tensor | None]) -> list[float]:
    """Sums with random signs, the same on all ranks; they are as linear as what they stand for."""
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(SUMS, dtype=torch.float64)
    for tensor in tensors:
        if tensor is None:
            continue
        shape = (SUMS, tensor.numel())
        signs = torch.randint(0, 2, shape, generator=generator).double() * 2 - 1
        total += signs @ tensor.detach().flatten().double().cpu()
    return total.tolist()
