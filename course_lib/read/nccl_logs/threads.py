"""Which communicator a thread works for when it prints a line of NCCL's log."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from course_lib.read import prefix
from course_lib.read.nccl_logs import line_patterns
from course_lib.read.nccl_logs.line_patterns import Comm

MOST_THREADS = 1_000_000
Numbers = Sequence[int] | npt.NDArray[np.int64]
Place = tuple[str, int, int]


@dataclass
class Slot:
    """One rank's view of one communicator; `comm` is known from its first or its last line.
    `line`: where it was first seen, counted over all files."""

    host: str
    pid: int
    device: int
    line: int
    comm: Comm | None = None
    complete: bool = False
    counts: dict[str, int] = field(default_factory=dict)


@dataclass
class ChannelRows:
    """Columns of numbers: slot, channel, number of the link text, line number."""

    slot: array[int] = field(default_factory=lambda: array("i"))
    channel: array[int] = field(default_factory=lambda: array("i"))
    link: array[int] = field(default_factory=lambda: array("i"))
    line: array[int] = field(default_factory=lambda: array("q"))

    def extend(self, slot: Numbers, channel: Numbers, link: Numbers, line: Numbers) -> None:
        for mine, values in ((self.slot, slot), (self.channel, channel), (self.link, link)):
            mine.frombytes(np.minimum(values, 2**31 - 1).astype(np.intc).tobytes())
        self.line.frombytes(np.asarray(line, np.int64).tobytes())


class Threads:
    """Threads are told apart by host, process and thread number; `places` are host, process and
    device. `changes` says, since it was last cleared, from which line on a thread works for which
    slot."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.slots_at: dict[Place, list[int]] = {}
        self.hosts: dict[str, None] = {}
        self.changes: dict[Place, list[tuple[int, int]]] = {}
        self._thread_of: dict[bytes, tuple[Place, int]] = {}
        self._slot_of: dict[Place, int] = {}
        self.lines_before = 0

    def begin_file(self, lines_before: int) -> None:
        """A host's name is cleaned by those that are known by then."""
        self._thread_of.clear()
        self.lines_before = lines_before

    def slot(self, head: bytes, line: int) -> int | None:
        """The slot of the thread that printed a line which begins with `head`."""
        thread = self.thread(head, self.lines_before + line)
        return self._slot_of[thread] if thread is not None else None

    def slots_of(self, heads: list[bytes], code: npt.NDArray[np.int64], line: Numbers) -> Numbers:
        """The slot (-1: none) of every line; `code` says which of the heads it begins with."""
        first = np.empty(len(heads), np.int64)
        first[code[::-1]] = np.asarray(line)[::-1]
        places = zip(heads, (first + self.lines_before).tolist(), strict=True)
        threads = [self.thread(*place) for place in places]
        numbers = [-1 if thread is None else self._slot_of[thread] for thread in threads]
        slots = np.array(numbers, np.int64)[code]
        for number, thread in enumerate(threads if self.changes else ()):
            if thread in self.changes:
                rows = np.flatnonzero(code == number)
                changes, works_for = np.array(self.changes[thread]).T
                slots[rows] = works_for[np.searchsorted(changes, np.asarray(line)[rows]) - 1]
        return slots

    def thread(self, head: bytes, line: int) -> Place | None:
        """One that never names its communicator works for the last that its process had begun
        when it first printed."""
        known = self._thread_of.get(head)
        if known is None:
            known = _thread(head)
            if known is None or len(self.slots) >= MOST_THREADS:
                return None
            if len(self._thread_of) >= MOST_THREADS:
                self._thread_of.clear()
            (name, pid, number), device = known
            known = ((self._host(name), pid, number), device)
            self._thread_of[head] = known
        thread, device = known
        if thread not in self._slot_of:
            place = (thread[0], thread[1], device)
            seen = self.slots_at.get(place) or [self._new_slot(*place, line)]
            begun = (slot for slot in reversed(seen) if self.slots[slot].line < line)
            self._slot_of[thread] = next(begun, seen[0])
        return thread

    def _host(self, name: str) -> str:
        """The name without digits of another line that ran into it."""
        bare = name.lstrip("-0123456789.")
        name = bare if bare != name and bare in self.hosts else name
        self.hosts.setdefault(name)
        return name

    def _new_slot(self, host: str, pid: int, device: int, line: int) -> int:
        self.slots.append(Slot(host, pid, device, line))
        self.slots_at.setdefault((host, pid, device), []).append(len(self.slots) - 1)
        return len(self.slots) - 1

    def comm(self, slot: int, head: bytes, found: Comm, line: int) -> None:
        """What a thread says of its communicator; it may be the next one that it works for."""
        current = self.slots[slot]
        thread = self.thread(head, self.lines_before + line)
        other = current.comm is not None and current.comm.pointer != found.pointer
        if thread is not None and (other or (current.complete and found.state == "START")):
            self.changes.setdefault(thread, [(0, slot)])
            slot = self._new_slot(
                current.host, current.pid, current.device, self.lines_before + line
            )
            current = self.slots[slot]
            self.changes[thread].append((line, slot))
            self._slot_of[thread] = slot
        parts = (current.comm.parts if current.comm else {}) | found.parts
        state = found.state or (current.comm.state if current.comm else None)
        current.comm = Comm(found.pointer, found.rank, found.size, parts, state)
        current.complete = current.complete or found.state == "COMPLETE"


def _thread(head: bytes) -> tuple[Place, int] | None:
    """Host, process and thread, and the device; the last where lines ran into each other."""
    matches = list(line_patterns.THREAD.finditer(prefix.without_colours(head)))
    if not matches:
        return None
    name, pid, thread, device = matches[-1].groups()
    return (name.decode("ascii", "replace"), int(pid), int(thread)), int(device)
