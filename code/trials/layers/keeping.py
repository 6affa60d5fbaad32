"""What a layer keeps: in memory beside its slices, from one step to the next, and as it came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node

CHANGED = -0.5
"""So many times itself is each weight in the second step."""
AGAIN = ", step 2"
"""Behind the name of a case. A layer that keeps a sum, or a weight as it was, is right once."""


def change(own: Any, names: Sequence[str]) -> None:
    """What an optimizer does between two steps."""
    with torch.no_grad():
        for name in names:
            held = getattr(own, name, None)
            if isinstance(held, Tensor):
                held.mul_(CHANGED)
                held.grad = None


def memory_kept(own: Any) -> dict[str, float]:
    """All that the layer keeps, and what its parameters do, in units of what these have to: a view
    keeps the whole."""
    named = [getattr(own, name, None) for name in ("weight", "bias")]
    slices = [one for one in named if isinstance(one, Tensor)]
    needed = sum(one.numel() * one.element_size() for one in slices)
    every = [*slices, *getattr(own, "__dict__", {}).values()]
    if isinstance(own, nn.Module):
        every += [*own.parameters(), *own.buffers()]
    return {"kept": storage_bytes(every) / needed, "viewed": storage_bytes(slices) / needed}


def storage_bytes(values: Iterable[Any]) -> int:
    storages = [one.untyped_storage() for one in values if isinstance(one, Tensor)]
    return sum({one.data_ptr(): one.nbytes() for one in storages}.values())


class GradientsAsTheyCame:
    """Copies of all that backward hands from one function to the next, to be compared with it
    afterwards: who changes in place what came, changes it for others as well."""

    def __init__(self, y: Tensor, dy: Tensor) -> None:
        self.kept = [(dy, dy.clone())]
        seen: set[Node] = set()
        to_see = [y.grad_fn]
        while to_see:
            node = to_see.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            to_see += [one for one, _ in node.next_functions]
            node.register_hook(self._keep)

    def _keep(self, handed_on: Sequence[Tensor | None], came: Sequence[Tensor | None]) -> None:
        self.kept += [(one, one.clone()) for one in handed_on if one is not None]

    def have_changed(self) -> bool:
        return any(not torch.equal(one, before) for one, before in self.kept)
