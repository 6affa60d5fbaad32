"""Short summaries of a model's weights and gradients, to compare ranks and files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

# What DistributedDataParallel and torch.compile put before the name of a weight.
WRAPPERS = ("module.", "_orig_mod.")


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


def own_gradients(loss: Tensor, model: nn.Module) -> list[float]:
    """Compute this rank's gradients; `autograd.grad` runs no hooks of DDP."""
    weights = list(model.parameters())
    return first_numbers(torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True))


def first_numbers(tensors: Iterable[Tensor | None]) -> list[float]:
    """Return one number of each gradient, to compare it with the mean over the ranks."""
    return [0.0 if one is None else float(one.detach().flatten()[0]) for one in tensors]
