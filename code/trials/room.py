"""What has room in memory while nothing needs it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.multiprocessing.reductions import StorageWeakRef

    from trials.watched_layers import WatchedLayer

BYTES = 8
"""Of a number in float64."""
PATIENCE_S = 2.0
"""A thread of gloo may hold what it received a little longer than the program does. So long a trial
waits in all before it says that something was not freed."""
DEEPEST = 3
"""Lists in lists."""


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


class Room:
    """Of a step: what the other layers took up while one computed, and what stayed after it.

    Who has computed is to be freed. Of those to come the next one may be there already, since it
    may be gathered while this one computes; no other.
    """

    def __init__(self, own: list[Any], layers: list[WatchedLayer]) -> None:
        self.own, self.layers = own, layers
        self.found: dict[str, Any] = {"kept": []}

    def look(self, layer: WatchedLayer, phase: str) -> None:
        at = layer.number
        done, later = self.layers[:at], self.layers[at + 2 :]
        if phase == "backward":
            done, later = self.layers[at + 1 :], self.layers[: max(0, at - 1)]
        for what, has_room in ((phase, [one for one in done if one.is_whole()]),
                               ("early", [one for one in later if one.has_room()])):  # fmt: skip
            if has_room:
                told = {"at": at + 1, "layer": has_room[0].number + 1}
                self.found.setdefault(what, told)
        if phase == "forward" and layer is self.layers[-1]:
            self.found["kept"] += kept(self.own, self.layers[:-1])

    def at_last(self) -> dict[str, Any]:
        self.found["kept"] += kept(self.own, self.layers)
        return self.found | {
            "after": [layer.number + 1 for layer in self.layers if layer.is_whole()],
            "gradients": [layer.number + 1 for layer in self.layers if layer.keeps_gradients()],
            "row of gradients": rows_kept([one.shard.grad for one in self.own]),
        }


def kept(own: list[Any], layers: list[WatchedLayer]) -> list[dict[str, Any]]:
    """Attributes with more than half of the numbers of one of these layers, the first ones. What
    several layers share, and the parameters themselves, are no copies."""
    tables = [numbers_by_attribute(one) for one in own]
    times = Counter(key for table in tables for key in {k for held in table.values() for k in held})
    found = []
    for one, table, layer in zip(own, tables, layers, strict=False):
        known = [one.shard, one.shard.grad, *layer.parameters()]
        exempt = {t.untyped_storage()._cdata for t in known if isinstance(t, torch.Tensor)}
        for name, held in table.items():
            numbers = sum(n for key, n in held.items() if key not in exempt and times[key] == 1)
            if numbers > layer.numbers / 2:
                told = {"layer": layer.number + 1, "name": name, "numbers": numbers}
                found.append(told | {"of": layer.numbers})
    return found


def numbers_by_attribute(one: Any) -> dict[str, dict[int, int]]:
    """How many numbers each storage holds that an attribute leads to."""
    table = dict(getattr(one, "__dict__", {}))
    for inner in ("_parameters", "_buffers"):
        table |= table.get(inner) or {}
    return {
        name: {
            tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() // tensor.itemsize
            for tensor in tensors_in(value)
            if tensor.is_floating_point() and not tensor.is_meta
        }
        for name, value in table.items()
        if name not in ("_parameters", "_buffers", "_modules")
    }


def tensors_in(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict | list | tuple | set) and depth < DEEPEST:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(inner, depth + 1)


def rows_kept(gradients: list[torch.Tensor]) -> list[int]:
    """Layers whose gradient is a piece of something longer that is not the others' as well."""
    storages = [gradient.untyped_storage() for gradient in gradients]
    times = Counter(storage._cdata for storage in storages)
    return [
        number
        for number, (one, storage) in enumerate(zip(gradients, storages, strict=True), 1)
        if storage.nbytes() > one.itemsize * one.numel() and times[storage._cdata] == 1
    ]
