"""The memory trace of a rank: every allocation of the recorded steps, with what it was for.

PyTorch's profiler sees each block that is taken and given back, on CPU and GPU alike. What a block
was for follows from when it lived: what forward leaves behind until backward is an activation, what
begins and ends within a phase is temporary. The format is described in CONTRIBUTING.md.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from torch import Tensor
from torch._C._profiler import _EventType

from observing.memory_blocks import CATEGORIES, Block, Range, classify, end_unseen, lives
from process.device import capacity_bytes

FORMAT = "course-memory-1"
RANGE = re.compile(r"(\w+)(?:#| |: |$)(\d+)?(?: chunk (\d+))?")
PHASES = ("forward", "backward", "recompute", "optimizer", "communication", "data")


def walk(events: Iterable[Any]) -> Iterator[Any]:
    # Not recursive: operators nest in operators, ranges in ranges, deeper than Python may call.
    stack = list(events)
    while stack:
        event = stack.pop()
        yield event
        stack.extend(event.children)


def read(
    recording: Any, first_step: int, device: str
) -> tuple[list[Range], list[tuple[int, int, int]]]:
    """Ranges, and the device's allocations as (time, address, bytes; negative when given back)."""
    ranges, allocations, steps = [], [], []
    for event in walk(recording.profiler.kineto_results.experimental_event_tree()):
        kind, fields = event.typed
        if hasattr(fields, "alloc_size"):  # an allocation or a release, not an operator
            if fields.device.type == device:
                allocations.append((event.start_time_ns, fields.ptr, fields.alloc_size))
            continue
        # A GPU's part of a range has the same name, and lasts until its last kernel has ended.
        found = RANGE.match(event.name) if kind == _EventType.TorchOp else None
        if found and found[1] == "ProfilerStep":
            steps.append(event.start_time_ns)
        elif found and found[1] in PHASES:
            micro_batch, chunk = (int(n) if n else None for n in found.group(2, 3))
            begin, end = event.start_time_ns, event.end_time_ns
            ranges.append(Range(found[1], 0, micro_batch, begin, end, chunk))
    steps.sort()
    # A range's name says its micro-batch, not its step: that is the last "ProfilerStep" before it.
    for one in ranges:
        one.step = first_step + max(0, sum(begin <= one.begin_ns for begin in steps) - 1)
    return sorted(ranges, key=lambda r: r.begin_ns), sorted(allocations)


Standing = tuple[int, int, int | None]  # bytes, category, and when it was released, if it was


def lines(standing: list[Standing], blocks: list[Block], ranges: list[Range]) -> list[list[Any]]:
    """All lines after the header, by time; `standing` are blocks from before."""
    start_ns = min([r.begin_ns for r in ranges] + [b.begin_ns for b in blocks], default=0)
    # In the same microsecond a phase ends, then blocks go, then the next phase begins and takes
    # its own; in another order the curve would have spikes that never were.
    order = {"end": 0, "free": 1, "begin": 2, "alloc": 3}
    found: list[tuple[int, str, list[Any]]] = []
    for number, (size, category, end_ns) in enumerate(standing):
        found.append((start_ns, "alloc", [number, size, category]))
        if end_ns is not None:
            found.append((max(start_ns, end_ns), "free", [number]))
    for number, block in enumerate(blocks, len(standing)):
        found.append((block.begin_ns, "alloc", [number, block.size_bytes, block.category]))
        if block.end_ns is not None:
            found.append((block.end_ns, "free", [number]))
    for one in ranges:
        found.append((one.begin_ns, "begin", one.key()))
        found.append((one.end_ns, "end", one.key()))
    found.sort(key=lambda line: (line[0], order[line[1]]))
    sizes: dict[int, int] = {}
    result: list[list[Any]] = []
    for time_ns, kind, rest in found:
        time_us = round((time_ns - start_ns) / 1e3, 3)
        result.append([kind, time_us, *rest])
        if kind == "alloc":
            sizes[rest[0]] = rest[1]
        elif kind == "free":
            del sizes[rest[0]]
        elif kind == "end":
            result.append(["level", time_us, sum(sizes.values())])
    return result


def storages(tensors: Iterable[Tensor]) -> dict[int, int]:
    """Address and size of the distinct buffers behind these tensors."""
    found = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
    return found


class MemoryRecorder:
    """Knows what lives as long as the run, and writes the trace when a recording is finished."""

    def __init__(self, training: Any) -> None:
        self.training = training
        self.before: dict[int, tuple[int, int]] = {}

    def begin(self) -> None:
        # Taken long before the profiler looks: the recording alone would not know of them.
        self.before = self._standing()

    def _standing(self) -> dict[int, tuple[int, int]]:
        """Address → (bytes, category) of parameters, gradients and optimizer state."""
        return {
            address: (size, CATEGORIES.index(category))
            for category, tensors in self.training.optimizer.tensors().items()
            for address, size in storages(tensors).items()
        }

    def finish(self, recording: Any) -> None:
        args, layout, device = self.training.args, self.training.layout, self.training.device
        owners = {address: category for address, (_, category) in self._standing().items()}
        header = {
            "rank": layout.rank,
            "world_size": layout.grid.world_size,
            "node": socket.gethostname(),
            "device": device.type,
            "limit_bytes": capacity_bytes(device),
            "layout": layout.sizes,
            "note": "",
        }
        path = Path(args.memory_dir) / f"rank{layout.rank}.jsonl.gz"
        # The profiler counts from 0 where iteration lines count from 1.
        ranges, allocations = read(recording, args.profile_step_start + 1, device.type)
        released: dict[int, int] = {}
        blocks = lives(allocations, released)
        end_unseen(blocks, ranges, owners)
        classify(blocks, ranges, owners)
        standing = [(*block, released.get(address)) for address, block in self.before.items()]
        write(path, header, standing, blocks, ranges)


def write(
    path: Path,
    header: dict[str, Any],
    standing: list[Standing],
    blocks: list[Block],
    ranges: list[Range],
) -> None:
    """`standing` is what lived when the recording began."""
    start_ns = min([r.begin_ns for r in ranges] + [b.begin_ns for b in blocks], default=0)
    head = {"format": FORMAT, **header, "start_unix_ns": start_ns, "categories": CATEGORIES}
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.tmp")
    with gzip.open(unfinished, "wt", compresslevel=4) as out:
        for line in [head, *lines(standing, blocks, ranges)]:
            out.write(json.dumps(line, separators=(",", ":")) + "\n")
    unfinished.replace(path)
