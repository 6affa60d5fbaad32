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
    """One rank's view of one communicator. The view's first or last line gives `comm`. `line` is
    the first line of the rank, counted over all files."""

    host: str
    pid: int
    device: int
    line: int
    comm: Comm | None = None
    complete: bool = False
    counts: dict[str, int] = field(default_factory=dict)


@dataclass
class ChannelRows:
    """Columns of numbers: slot, channel, index of the link text, line number."""

    slot: array[int] = field(default_factory=lambda: array("i"))
    channel: array[int] = field(default_factory=lambda: array("i"))
    link: array[int] = field(default_factory=lambda: array("i"))
    line: array[int] = field(default_factory=lambda: array("q"))


class Threads:
    """Threads by host, process and thread number; `places` are host, process and device."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.slots_at: dict[Place, list[int]] = {}
        self.hosts: dict[str, None] = {}
        self.slot_of_head: dict[bytes, int] = {}
        self._thread_of: dict[bytes, tuple[Place, int]] = {}
        self._slot_of: dict[Place, int] = {}
        self.lines_before = 0

    def begin_file(self, lines_before: int) -> None:
        """Start a file; hosts that are known by now help to clean up host names in it."""
        self._thread_of.clear()
        self.slot_of_head.clear()
        self.lines_before = lines_before

    def slot(self, head: bytes, line: int) -> int | None:
        """Return the slot of the thread that printed a line with this `head`."""
        slot = self.slot_of_head.get(head)
        if slot is None:
            thread = self._thread(head, self.lines_before + line)
            if thread is None:
                return None
            slot = self.slot_of_head[head] = self._slot_of[thread]
        return slot

    def _thread(self, head: bytes, line: int) -> Place | None:
        """Return the thread. If it never names its communicator, it gets the last communicator that
        its process had started at the thread's first line."""
        known = self._thread_of.get(head)
        if known is None:
            known = _place_of(head)
            if known is None or len(self.slots) >= MOST_THREADS:
                return None
            if len(self._thread_of) >= MOST_THREADS:
                self._thread_of.clear()
                self.slot_of_head.clear()
            (name, pid, number), device = known
            known = ((self._host(name), pid, number), device)
            self._thread_of[head] = known
        thread, device = known
        if thread not in self._slot_of:
            place = (thread[0], thread[1], device)
            seen = self.slots_at.get(place) or [self._new_slot(*place, line)]
            self._slot_of[thread] = seen[-1]
        return thread

    def _host(self, name: str) -> str:
        """Return the host name without digits that belong to another line printed into it."""
        bare = name.lstrip("-0123456789.")
        name = bare if bare != name and bare in self.hosts else name
        self.hosts.setdefault(name)
        return name

    def _new_slot(self, host: str, pid: int, device: int, line: int) -> int:
        self.slots.append(Slot(host, pid, device, line))
        self.slots_at.setdefault((host, pid, device), []).append(len(self.slots) - 1)
        return len(self.slots) - 1

    def comm(self, slot: int, head: bytes, found: Comm, line: int) -> None:
        """Store the communicator that a thread names; it may be the thread's next one."""
        current = self.slots[slot]
        thread = self._thread(head, self.lines_before + line)
        other = current.comm is not None and current.comm.pointer != found.pointer
        if thread is not None and (other or (current.complete and found.state == "START")):
            slot = self._new_slot(
                current.host, current.pid, current.device, self.lines_before + line
            )
            current = self.slots[slot]
            self._slot_of[thread] = slot
            self.slot_of_head.clear()
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

    @property
    def hosts(self) -> dict[str, None]:
        return self.threads.hosts
