"""The channel lines of NCCL's log, which are most of a large one.

They differ in their channel number only, so that what follows the number is parsed once and looked
up afterwards.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field

from course_lib.read import lines, nccl_lines
from course_lib.read.lines import Source
from course_lib.read.nccl_lines import Comm, Link
from course_lib.read.nccl_result import (
    RING_COLUMNS,
    TEST_COLUMNS,
    TREE_COLUMNS,
    WARNING_COLUMNS,
)
from course_lib.read.nccl_tests import TestTable
from course_lib.read.rows import Rows

_CHANNEL = b" NCCL INFO Channel "
_OLD_RING = b" NCCL INFO Ring "
MOST_CHANNEL_LINES = 50_000_000
MOST_THREADS = 1_000_000


@dataclass
class Slot:
    """One rank's view of one communicator; `comm` is known from its first or its last line."""

    host: str
    pid: int
    device: int
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


class ChannelLines:
    """Reads the files and takes the channel lines; what to do with others `NcclReader` knows."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.slots_at: dict[tuple[str, int, int], list[int]] = {}
        self.rows = ChannelRows()
        self.links: list[Link] = []
        self.rings = Rows(RING_COLUMNS)
        self.trees = Rows(TREE_COLUMNS)
        self.warnings = Rows(WARNING_COLUMNS, ["rank"])
        self.tests = Rows(TEST_COLUMNS)
        self.operations: Counter[tuple[str, int, str, str]] = Counter()
        self.versions: list[str] = []
        self.library = "NCCL"
        self.network: str | None = None
        self.environment: dict[str, str] = {}
        self.hosts: dict[str, None] = {}
        self.test_ranks: list[tuple[int, int, str, int, str]] = []
        self.average: float | None = None
        self.simulated = ""
        self.files: list[str] = []
        self.lines = self.line = 0
        self._threads: dict[bytes, int] = {}
        self._slot_of: dict[tuple[str, int, int], int] = {}
        self._latest: dict[tuple[str, int, int], int] = {}
        self._link_codes: dict[bytes, int] = {}
        self._channel_codes: dict[bytes, int] = {}
        self._tests = TestTable()

    def read(self, source: Source) -> None:
        self.files.append(source.name)
        self.line = 0
        self._threads.clear()
        for block in lines.blocks(source.path):
            self.block(block)
        self.lines += self.line

    def block(self, block: bytes) -> None:
        """Whole lines; the last may lack its newline."""
        number = self.line
        parts = block.split(b"\n")
        if not parts[-1]:
            parts.pop()
        add_slot, add_channel = self.rows.slot.append, self.rows.channel.append
        add_link, add_line = self.rows.link.append, self.rows.line.append
        threads, links, channels = self._threads, self._link_codes, self._channel_codes
        for text in parts:
            number += 1
            head, found, tail = text.partition(_CHANNEL)
            if found:
                name, _, link = tail.partition(b" : ")
                code = links.get(link)
                channel = channels.get(name)
                slot = threads.get(head)
                if code is None or channel is None or slot is None:
                    self.line = number
                    self._new_channel_line(head, name, link, text)
                elif code >= 0:
                    add_slot(slot)
                    add_channel(channel)
                    add_link(code)
                    add_line(number)
            elif b"NCCL" in text or b" INFO " in text or b" WARN " in text:
                self.line = number
                self._other(text)
            elif (
                self._tests.inside
                or b"#" in text
                or b" float " in text
                or b"version" in text
                or b"nccl" in text
            ):
                self.line = number
                self._plain(text)
        self.line = number

    def _new_channel_line(self, head: bytes, name: bytes, link: bytes, text: bytes) -> None:
        """A thread, channel number or link text that was not seen before, or a ring."""
        number = name.split(b"/")[0]
        found = nccl_lines.link_of(link)
        slot = self.slot(head)
        if not number.isdigit() or slot is None:
            return
        if found is None:
            if nccl_lines.CHANNEL_ORDER.match(link):
                self._ring(slot, int(number[:9]), link, name)
            return
        self._channel_codes[name] = channel = int(number[:9])
        if link not in self._link_codes and len(self.links) < MOST_CHANNEL_LINES:
            self._link_codes[link] = len(self.links)
            self.links.append(found)
        self.add_channel(slot, channel, self._link_codes[link])

    def add_channel(self, slot: int, channel: int, link: int) -> None:
        if len(self.rows.slot) < MOST_CHANNEL_LINES:
            self.rows.slot.append(slot)
            self.rows.channel.append(min(channel, 2**31 - 1))
            self.rows.link.append(link)
            self.rows.line.append(self.line)

    def _ring(self, slot: int, channel: int, order: bytes, name: bytes) -> None:
        whole = order.rstrip().removesuffix(b"...")
        parts = whole.split() if len(whole) == len(order.rstrip()) else whole.split()[:-1]
        ranks = tuple(int(part) for part in parts)
        _, _, total = name.partition(b"/")
        row = {"channel": channel, "order": ranks, "line": self.line}
        self.rings.add(communicator=slot, total=int(total[:9]) if total.isdigit() else None, **row)

    def slot(self, head: bytes) -> int | None:
        """The slot of the thread that printed a line which begins with `head`."""
        known = self._threads.get(head)
        if known is not None:
            return known
        key = self._key(head)
        if key is None or len(self.slots) >= MOST_THREADS:
            return None
        number = self._slot_of.get(key)
        if number is None:
            place = (key[0], key[1], int(list(nccl_lines.THREAD.finditer(head))[-1][4]))
            number = self._latest.get(place)
            if number is None:
                number = self._new_slot(*place)
            self._slot_of[key] = number
        if len(self._threads) < MOST_THREADS:
            self._threads[head] = number
        return number

    def _host(self, name: str) -> str:
        """The name without digits of another line that ran into it."""
        bare = name.lstrip("-0123456789.")
        name = bare if bare != name and bare in self.hosts else name
        self.hosts.setdefault(name)
        return name

    def _new_slot(self, host: str, pid: int, device: int) -> int:
        self.slots.append(Slot(host, pid, device))
        self.slots_at.setdefault((host, pid, device), []).append(len(self.slots) - 1)
        self._latest[host, pid, device] = len(self.slots) - 1
        return len(self.slots) - 1

    def _key(self, head: bytes) -> tuple[str, int, int] | None:
        """Host, process and thread; the last of them where lines ran into each other."""
        matches = list(nccl_lines.THREAD.finditer(head))
        if not matches:
            return None
        match = matches[-1]
        return self._host(match[1].decode("ascii", "replace")), int(match[2]), int(match[3])

    def _other(self, text: bytes) -> None:
        """A line of NCCL that is no channel line."""
        raise NotImplementedError

    def _plain(self, text: bytes) -> None:
        """A line that NCCL did not print."""
        raise NotImplementedError
