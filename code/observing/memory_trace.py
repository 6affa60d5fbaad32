"""Memory trace of a rank: every allocation of the recorded steps, with its purpose.

PyTorch's profiler records each allocation and release, on CPU and GPU alike. The purpose follows
from the lifetime: a block that survives forward until backward is an activation; a block within one
phase is temporary. docs/formats.md describes the format."""

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
RANGE = re.compile(r"(?:course::)?(\w+)(?:#| |: |$)(\d+)?(?: chunk (\d+))?")
PHASES = ("forward", "backward", "recompute", "optimizer", "communication", "data", "pace")
CATEGORIES = ["parameters", "gradients", "optimizer", "activations", "temporary"]
PARAMETERS, GRADIENTS, OPTIMIZER, ACTIVATIONS, TEMPORARY = range(5)


@dataclass
class Range:
    """Phase of one step: a profiler range whose name starts with a phase's name."""

    phase: str
    step: int
    micro_batch: int | None
    begin_ns: int
    end_ns: int
    chunk: int | None = None

    def key(self) -> list[Any]:
        """Return the range's values in the trace, with the chunk if ranks have several."""
        chunk = [] if self.chunk is None else [self.chunk]
        return [self.phase, self.step, self.micro_batch, *chunk]


@dataclass
class Block:
    address: int
    size_bytes: int
    begin_ns: int
    end_ns: int | None = None
    category: int = TEMPORARY
    seen: bool = False  # the profiler recorded its release


def lives(allocations: list[tuple[int, int, int]], standing: list[Block]) -> list[Block]:
    """Return each block from allocation to release, and end blocks from before the recording.

    Releases by network threads are not recorded, for example after an all-reduce: a block ends at
    the latest when its address is allocated again."""
    blocks: list[Block] = []
    alive = {block.address: block for block in standing}
    for time_ns, address, size in allocations:
        if size > 0:
            if address in alive:  # its release was not recorded, but the address is free
                alive[address].end_ns = time_ns
            alive[address] = Block(address, size, time_ns)
            blocks.append(alive[address])
        elif address in alive:
            block = alive.pop(address)
            block.end_ns, block.seen = time_ns, True
    return blocks


def end_unseen(blocks: list[Block], ranges: list[Range], owners: dict[int, int]) -> None:
    """End blocks whose release by a thread of the communication library is not recorded. They end
    with the collective during which they were allocated, or else with the next one. (The program
    itself releases what a pipeline stage sends, after it has arrived.)"""
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
    """Set the categories; `owners` gives the category at an address at the end of the recording."""
    outer = [r for r in ranges if r.phase not in ("communication", "recompute", "pace")]
    again = [r for r in ranges if r.phase == "recompute"]
    steps = {r.step: r.begin_ns for r in ranges if r.phase == "optimizer"}
    for block in blocks:
        home = _inside(outer, block.begin_ns)
        # Adam's first step allocates the moments, inside the recording. They stay alive, at an
        # address that the optimizer reports at the end of the recording.
        if block.end_ns is None and block.address in owners:
            block.category = owners[block.address]
        elif home is None:
            continue
        elif home.phase in ("forward", "data"):  # blocks that outlive forward wait for backward
            kept = block.end_ns is None or block.end_ns > home.end_ns
            block.category = ACTIVATIONS if kept else TEMPORARY
        elif home.phase == "backward":
            block.category = _in_backward(block, home, _inside(again, block.begin_ns))
            read_ns = steps.get(home.step)
            if read_ns is not None and block.end_ns is not None and block.end_ns > read_ns:
                block.category = GRADIENTS  # the optimizer read it


def _in_backward(block: Block, home: Range, recomputed: Range | None) -> int:
    end_ns = block.end_ns
    # Recomputed for backward, so it outlives the recomputation or the whole phase.
    if recomputed and (end_ns is None or end_ns > min(home.end_ns, recomputed.end_ns)):
        return ACTIVATIONS
    return GRADIENTS if end_ns is None else TEMPORARY


def _inside(ranges: list[Range], time_ns: int) -> Range | None:
    """Return the latest range that contains this time; ranges of one kind do not overlap."""
    at = bisect_right(ranges, time_ns, key=lambda one: one.begin_ns)
    return ranges[at - 1] if at and time_ns <= ranges[at - 1].end_ns else None


def walk(events: Iterable[Any]) -> Iterator[Any]:
    # Not recursive: operators and ranges nest deeper than Python's recursion limit.
    stack = list(events)
    while stack:
        event = stack.pop()
        yield event
        stack.extend(event.children)


def read(
    recording: Any, first_step: int, device: str
) -> tuple[list[Range], list[tuple[int, int, int]]]:
    """Return ranges, and the device's allocations as (time, address, bytes; negative if freed)."""
    ranges, allocations, steps = [], [], []
    for event in walk(recording.profiler.kineto_results.experimental_event_tree()):
        kind, fields = event.typed
        if hasattr(fields, "alloc_size"):  # an allocation or a release, not an operator
            if fields.device.type == device:
                allocations.append((event.start_time_ns, fields.ptr, fields.alloc_size))
            continue
        # A GPU's part of a range has the same name, and lasts until its last kernel ends.
        found = RANGE.match(event.name) if kind == _EventType.TorchOp else None
        if found and found[1] == "ProfilerStep":
            steps.append(event.start_time_ns)
        elif found and found[1] in PHASES:
            micro_batch, chunk = (int(n) if n else None for n in found.group(2, 3))
            begin, end = event.start_time_ns, event.end_time_ns
            ranges.append(Range(found[1], 0, micro_batch, begin, end, chunk))
    steps.sort()
    # A range's name has its micro-batch but not its step: the last "ProfilerStep" before it is the
    # step.
    for one in ranges:
        one.step = first_step + max(0, sum(begin <= one.begin_ns for begin in steps) - 1)
    return sorted(ranges, key=lambda r: r.begin_ns), sorted(allocations)


def lines(blocks: list[Block], ranges: list[Range], start_ns: int) -> list[list[Any]]:
    """Return all lines after the header, by time."""
    # Order within a microsecond: a phase ends, blocks are freed, the next phase begins and
    # allocates. Another order would add false spikes to the curve.
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
    """Return address and size of the distinct buffers behind these tensors."""
    found = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
    return found


class MemoryRecorder:
    """Recorder that knows the persistent buffers and writes the trace at the end of a recording."""

    def __init__(self, training: Any) -> None:
        self.training = training
        self.before: dict[int, tuple[int, int]] = {}

    def begin(self) -> None:
        # These buffers were allocated before the recording, which does not know them.
        self.before = self._standing()

    def _standing(self) -> dict[int, tuple[int, int]]:
        """Return address → (bytes, category) of parameters, gradients and optimizer state."""
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
        # The profiler counts from 0, iteration lines count from 1.
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
