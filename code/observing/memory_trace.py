"""The memory trace of a rank: every allocation of the recorded steps, with what it was for.

PyTorch's profiler sees each block that is taken and given back, on CPU and GPU alike. What a block
was for follows from when it lived: what forward leaves behind until backward is an activation, what
begins and ends within a phase is temporary. The format is described in docs/formats.md.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor
from torch._C._profiler import _EventType

from process.device import capacity_bytes

FORMAT = "course-memory-1"
RANGE = re.compile(r"(\w+)(?:#| |: |$)(\d+)?(?: chunk (\d+))?")
PHASES = ("forward", "backward", "recompute", "optimizer", "communication", "data")
CATEGORIES = ["parameters", "gradients", "optimizer", "activations", "temporary"]
PARAMETERS, GRADIENTS, OPTIMIZER, ACTIVATIONS, TEMPORARY = range(5)


@dataclass
class Range:
    """A phase of one step: a range of the profile whose name begins with a phase's."""

    phase: str
    step: int
    micro_batch: int | None
    begin_ns: int
    end_ns: int
    chunk: int | None = None

    def key(self) -> list[Any]:
        """Name in the trace; the chunk is told where ranks have several."""
        chunk = [] if self.chunk is None else [self.chunk]
        return [self.phase, self.step, self.micro_batch, *chunk]


@dataclass
class Block:
    address: int
    size_bytes: int
    begin_ns: int
    end_ns: int | None = None
    category: int = TEMPORARY
    seen: bool = False  # its end, by the profiler


def lives(allocations: list[tuple[int, int, int]], standing: list[Block]) -> list[Block]:
    """Each block from its allocation to its release, also those that stood before the recording.

    What a thread of the network layer gives back is not recorded, as after an all-reduce: a block
    has ended at the latest when its place is taken again.
    """
    blocks: list[Block] = []
    alive = {block.address: block for block in standing}
    for time_ns, address, size in allocations:
        if size > 0:
            if address in alive:  # its release was not recorded: the place is free, as it is taken
                alive[address].end_ns = time_ns
            alive[address] = Block(address, size, time_ns)
            blocks.append(alive[address])
        elif address in alive:
            block = alive.pop(address)
            block.end_ns, block.seen = time_ns, True
    return blocks


def end_unseen(blocks: list[Block], ranges: list[Range], owners: dict[int, int]) -> None:
    """A block that a thread of the communication library gave back last has no end in the profile.
    It ended with its collective, the one within which it was made or the next. (What a pipeline
    stage sends is given back by the program, which waits until it has arrived.)"""
    sending = [r for r in ranges if r.phase == "communication"]
    last = {r.step: r.end_ns for r in ranges if r.phase in ("forward", "backward")}
    ends = sorted([*last.values(), *[r.end_ns for r in sending]])
    for block in blocks:
        if not block.seen and (block.end_ns or block.address not in owners):
            home = _inside(sending, block.begin_ns)
            later = next((end_ns for end_ns in ends if end_ns > block.begin_ns), None)
            found = [end for end in (home.end_ns if home else later, block.end_ns) if end]
            block.end_ns = min(found, default=None)


def classify(blocks: list[Block], ranges: list[Range], owners: dict[int, int]) -> None:
    """`owners` says which category's buffers lie at an address when the recording ends."""
    outer = [r for r in ranges if r.phase not in ("communication", "recompute")]
    again = [r for r in ranges if r.phase == "recompute"]
    steps = {r.step: r.begin_ns for r in ranges if r.phase == "optimizer"}
    for block in blocks:
        home = _inside(outer, block.begin_ns)
        # Moments of Adam are made by its first step, within the recording: they live on, at an
        # address that the optimizer names when the recording ends.
        if block.end_ns is None and block.address in owners:
            block.category = owners[block.address]
        elif home is None:
            continue
        elif home.phase in ("forward", "data"):  # what outlives it waits for backward
            kept = block.end_ns is None or block.end_ns > home.end_ns
            block.category = ACTIVATIONS if kept else TEMPORARY
        elif home.phase == "backward":
            block.category = _in_backward(block, home, _inside(again, block.begin_ns))
            read_ns = steps.get(home.step)
            if read_ns is not None and block.end_ns is not None and block.end_ns > read_ns:
                block.category = GRADIENTS  # the optimizer read it


def _in_backward(block: Block, home: Range, recomputed: Range | None) -> int:
    end_ns = block.end_ns
    # Made again for backward to read, so it outlives the recomputation, or the whole phase.
    if recomputed and (end_ns is None or end_ns > min(home.end_ns, recomputed.end_ns)):
        return ACTIVATIONS
    return GRADIENTS if end_ns is None else TEMPORARY


def _inside(ranges: list[Range], time_ns: int) -> Range | None:
    """The latest range that holds this moment; ranges of one kind do not overlap."""
    at = bisect_right(ranges, time_ns, key=lambda one: one.begin_ns)
    return ranges[at - 1] if at and time_ns <= ranges[at - 1].end_ns else None


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


def lines(blocks: list[Block], ranges: list[Range], start_ns: int) -> list[list[Any]]:
    """All lines after the header, by time."""
    # In the same microsecond a phase ends, then blocks go, then the next phase begins and takes
    # its own; in another order the curve would have spikes that never were.
    order = {"end": 0, "free": 1, "begin": 2, "alloc": 3}
    found: list[tuple[int, str, list[Any]]] = []
    for number, block in enumerate(blocks):
        found.append((block.begin_ns, "alloc", [number, block.size_bytes, block.category]))
        if block.end_ns is not None:
            found.append((max(start_ns, block.end_ns), "free", [number]))
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
        # The profiler counts from 0 where iteration lines count from 1.
        ranges, allocations = read(recording, args.profile_step_start + 1, device.type)
        start_ns = min([r.begin_ns for r in ranges] + [a[0] for a in allocations], default=0)
        standing = [
            Block(address, size, start_ns, category=category)
            for address, (size, category) in self.before.items()
        ]
        blocks = lives(allocations, standing)
        end_unseen(blocks, ranges, owners)
        classify(blocks, ranges, owners)
        head = {"format": FORMAT, **header, "start_unix_ns": start_ns, "categories": CATEGORIES}
        path = Path(args.memory_dir) / f"rank{layout.rank}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.tmp")
        with gzip.open(unfinished, "wt", compresslevel=4) as out:
            for line in [head, *lines([*standing, *blocks], ranges, start_ns)]:
                out.write(json.dumps(line, separators=(",", ":")) + "\n")
        unfinished.replace(path)
