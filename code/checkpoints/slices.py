"""Tensors of a checkpoint: every rank writes its slices and reads the slices it needs.

    rank<R>.bin   numbers, one slice after the other, and no executable content
    tensors.json  the size of each tensor, and the position of each slice

Data ranks have equal slices; the data rank with the least to write writes a slice."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from checkpoints.agreement import Group, from_all, from_first
from checkpoints.files import write_json
from process.reading import read_json

TENSORS = "tensors.json"
BYTES = {"float32": 4, "float64": 8}


@dataclass(frozen=True)
class Slice:
    """Part of a whole tensor on one rank."""

    values: Tensor
    whole: list[int]
    offsets: list[int]


def write(state: dict[str, Slice], folder: Path, group: Group = None) -> None:
    """Write the slices. All ranks call this, and all raise an error if one rank cannot write."""
    mine = {(n, tuple(s.offsets)): _described(s) for n, s in state.items() if s.values.numel()}
    offers = from_all(lambda: mine, group)
    owners: dict[tuple[str, tuple[int, ...]], list[int]] = defaultdict(list)
    for rank, offer in enumerate(offers):
        for key in offer:
            owners[key].append(rank)
    ends, own, me = [0] * len(offers), [], dist.get_rank()
    tensors: dict[str, Any] = {}
    for key in sorted(owners):
        name, offsets = key
        rank = min(owners[key], key=ends.__getitem__)
        kind, whole, sizes = offers[rank][key]
        tensor = tensors.setdefault(name, {"type": kind, "size": whole, "slices": []})
        place = {"file": f"rank{rank}.bin", "start": ends[rank]}
        tensor["slices"].append({"offsets": offsets, "sizes": sizes, **place})
        ends[rank] += math.prod(sizes) * BYTES[kind]
        own += [state[name].values] if rank == me else []
    from_all(lambda: _write_numbers(folder / f"rank{me}.bin", own), group)
    from_first(lambda: write_json(folder / TENSORS, tensors), group)


def _described(part: Slice) -> tuple[str, list[int], list[int]]:
    return str(part.values.dtype).removeprefix("torch."), part.whole, list(part.values.shape)


def _write_numbers(path: Path, tensors: list[Tensor]) -> None:
    with path.open("wb") as file:
        for values in tensors:
            file.write(values.detach().cpu().contiguous().numpy().data.cast("B"))
        file.flush()
        os.fsync(file.fileno())


def read_tensors(folder: Path) -> dict[str, Any]:
    """Return the description for `read`. Raise a ValueError if a tensor is incomplete."""
    tensors: dict[str, Any] = read_json(folder / TENSORS)
    held = {file.name: file.stat().st_size for file in folder.glob("rank*.bin")}
    for name, tensor in tensors.items():
        numbers = math.prod(tensor["size"])
        for one in tensor["slices"]:
            here = math.prod(one["sizes"])
            if not 0 <= one["start"] <= held[one["file"]] - here * BYTES[tensor["type"]]:
                raise ValueError(f"{TENSORS}: a part of {name} is missing in its file")
            places = zip(one["offsets"], one["sizes"], tensor["size"], strict=True)
            if not all(0 <= at <= at + size <= whole for at, size, whole in places):
                raise ValueError(f"{TENSORS}: a part of {name} lies outside of it")
            numbers -= here
        if numbers:
            raise ValueError(f"{TENSORS} does not list all parts of {name}")
    return tensors


def read(state: dict[str, Slice], folder: Path, tensors: dict[str, Any]) -> None:
    """Read the values of `state` in place. Raise a ValueError if a tensor is missing or differs."""
    for name, mine in state.items():
        there = tensors.get(name, {"size": "unknown"})
        if there["size"] != mine.whole:
            raise ValueError(f"the size of {name} is {there['size']}, not {mine.whole}")
        for one in there["slices"]:
            begin = [max(pair) for pair in zip(one["offsets"], mine.offsets, strict=True)]
            ends = zip(one["offsets"], one["sizes"], mine.offsets, mine.values.shape, strict=True)
            end = [min(at + size, own + length) for at, size, own, length in ends]
            if all(first < last for first, last in zip(begin, end, strict=True)):
                count = math.prod(one["sizes"])
                numbers = np.fromfile(folder / one["file"], there["type"], count, "", one["start"])
                values = torch.from_numpy(numbers.reshape(one["sizes"]))
                part = values[_cut(begin, end, one["offsets"])]
                mine.values[_cut(begin, end, mine.offsets)].detach().copy_(part)


def _cut(begin: list[int], end: list[int], offsets: list[int]) -> tuple[slice, ...]:
    return tuple(
        slice(first - at, last - at) for first, last, at in zip(begin, end, offsets, strict=True)
    )
