"""Content of NCCL's log by thread, before the communicators are assembled."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from course_lib.read import prefix
from course_lib.read.nccl_logs import line_patterns
from course_lib.read.nccl_logs.line_patterns import Comm, Link
from course_lib.read.nccl_logs.result import RING_COLUMNS, WARNING_COLUMNS
from course_lib.read.rows import Rows

MOST_THREADS = 1_000_000
Place = tuple[str, int, int]


@dataclass
class Slot:
    """One rank's view of one communicator. The view's first or last line gives `comm`."""

    host: str
    pid: int
    device: int
    comm: Comm | None = None
    complete: bool = False


@dataclass
class ChannelRows:
    """Columns of numbers: slot, channel, index of the link text, line number."""

    slot: array[int] = field(default_factory=lambda: array("i"))
    channel: array[int] = field(default_factory=lambda: array("i"))
    link: array[int] = field(default_factory=lambda: array("i"))
    line: array[int] = field(default_factory=lambda: array("q"))


class Threads:
    """Threads of all processes, numbered in order of appearance, with their current slots."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        # Host, process and device -> slots.
        self.slots_at: dict[Place, list[int]] = {}
        self.hosts: dict[str, None] = {}
        # Host, process and thread -> number.
        self._numbers: dict[Place, int] = {}
        self._number_of_head: dict[bytes, int] = {}
        self._slot_of_number: list[int] = []

    def begin_file(self) -> None:
        """Start a file; hosts that are known by now help to clean up host names in it."""
        self._number_of_head.clear()

    def slot(self, head: bytes) -> int | None:
        """Return the slot of the thread that printed a line with this `head`."""
        number = self._number_of_head.get(head)
        if number is None:
            number = self._number(head)
        return None if number is None else self._slot_of_number[number]

    def _number(self, head: bytes) -> int | None:
        """Return the thread's number. If the thread never names its communicator, it gets the last
        communicator that its process had started at the thread's first line."""
        known = _place_of(head)
        if known is None or len(self.slots) >= MOST_THREADS:
            return None
        if len(self._number_of_head) >= MOST_THREADS:
            self._number_of_head.clear()
        (name, pid, thread), device = known
        host = self._host(name)
        number = self._numbers.setdefault((host, pid, thread), len(self._numbers))
        self._number_of_head[head] = number
        if number == len(self._slot_of_number):
            seen = self.slots_at.get((host, pid, device)) or [self._new_slot(host, pid, device)]
            self._slot_of_number.append(seen[-1])
        return number

    def _host(self, name: str) -> str:
        """Return the host name without digits that belong to another line printed into it."""
        bare = name.lstrip("-0123456789.")
        name = bare if bare != name and bare in self.hosts else name
        self.hosts.setdefault(name)
        return name

    def _new_slot(self, host: str, pid: int, device: int) -> int:
        self.slots.append(Slot(host, pid, device))
        self.slots_at.setdefault((host, pid, device), []).append(len(self.slots) - 1)
        return len(self.slots) - 1

    def comm(self, head: bytes, found: Comm) -> None:
        """Store the communicator that a thread names; it may be the thread's next one."""
        if (slot := self.slot(head)) is None:
            return
        current = self.slots[slot]
        other = current.comm is not None and current.comm.pointer != found.pointer
        if other or (current.complete and found.state == "START"):
            slot = self._new_slot(current.host, current.pid, current.device)
            current = self.slots[slot]
            self._slot_of_number[self._number_of_head[head]] = slot
        parts = (current.comm.parts if current.comm else {}) | found.parts
        state = found.state or (current.comm.state if current.comm else None)
        current.comm = Comm(found.pointer, found.rank, found.size, parts, state)
        current.complete = current.complete or found.state == "COMPLETE"


def _place_of(head: bytes) -> tuple[Place, int] | None:
    """Return host, process and thread, and the device: the last ones if lines were mixed."""
    matches = list(line_patterns.THREAD.finditer(prefix.without_colours(head)))
    if not matches:
        return None
    name, pid, thread, device = matches[-1].groups()
    return (name.decode("ascii", "replace"), int(pid), int(thread)), int(device)


@dataclass
class Collected:
    """Content of all files. `line` counts from 1 in the current file, `lines` in the files
    before."""

    threads: Threads = field(default_factory=Threads)
    rows: ChannelRows = field(default_factory=ChannelRows)
    links: list[Link] = field(default_factory=list)
    rings: Rows = field(default_factory=lambda: Rows(RING_COLUMNS))
    warnings: Rows = field(default_factory=lambda: Rows(WARNING_COLUMNS, ["rank"]))
    versions: list[str] = field(default_factory=list)
    library: str = "NCCL"
    network: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    simulated: str = ""
    files: list[str] = field(default_factory=list)
    lines: int = 0
    line: int = 0

    @property
    def slots(self) -> list[Slot]:
        return self.threads.slots
