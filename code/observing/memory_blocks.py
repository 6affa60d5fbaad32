"""What each block of memory was for, from when it lived: the second half of memory_trace.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
        """As the trace names it; the chunk is told where ranks have several."""
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


def lives(
    allocations: list[tuple[int, int, int]], past: dict[int, int] | None = None
) -> list[Block]:
    """Each block from its allocation to its release; `past` takes when those were released that
    had been there before.

    What a thread of the network layer gives back is not recorded, as after an all-reduce: a block
    has ended at the latest when its place is taken again.
    """
    blocks: list[Block] = []
    past = {} if past is None else past
    alive: dict[int, Block] = {}
    for time_ns, address, size in allocations:
        if size > 0:
            if address in alive:  # its release was not recorded: the place is free, as it is taken
                alive[address].end_ns = time_ns
            alive[address] = Block(address, size, time_ns)
            blocks.append(alive[address])
        elif address in alive:
            block = alive.pop(address)
            block.end_ns, block.seen = time_ns, True
        else:
            past.setdefault(address, time_ns)  # taken before the recording began
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
    low, high = 0, len(ranges)
    while low < high:
        middle = (low + high) // 2
        if ranges[middle].begin_ns <= time_ns:
            low = middle + 1
        else:
            high = middle
    found = ranges[low - 1] if low else None
    return found if found is not None and time_ns <= found.end_ns else None
