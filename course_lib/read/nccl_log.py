"""Reads NCCL's log (NCCL_DEBUG=INFO), from version 2.2 to today, of any number of ranks.

Most lines of a large log are channel lines that differ in their channel number only, so that what
follows the number is parsed once and looked up afterwards.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from course_lib.read import lines, nccl_lines, prefix
from course_lib.read.lines import PathLike, Source
from course_lib.read.nccl_lines import Comm, Link
from course_lib.read.nccl_result import (
    RING_COLUMNS,
    TEST_COLUMNS,
    TREE_COLUMNS,
    WARNING_COLUMNS,
    NcclLog,
)
from course_lib.read.nccl_tests import TestTable
from course_lib.read.rows import Rows

_CHANNEL = b" NCCL INFO Channel "
_OLD_RING = b" NCCL INFO Ring "
_INFO = b" NCCL INFO "
_LONGEST_LINE_BYTES = 20_000
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


class NcclReader:
    """Collects from any number of files; `result` puts the communicators together."""

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
        ranks = tuple(int(part) for part in order.split())
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

    def _other(self, text: bytes) -> None:
        text = prefix.without_colours(text[:_LONGEST_LINE_BYTES])
        head, found, message = text.partition(_INFO)
        if not found:
            head, found, message = text.partition(b" INFO ")
        if found and (slot := self.slot(head)) is not None:
            self._message(slot, head, message)
        elif b"NCCL WARN " in text or (b" WARN " in text and nccl_lines.THREAD.search(text)):
            self._warning(text)
        self._plain(text)

    def _message(self, slot: int, head: bytes, message: bytes) -> None:
        handler = _HANDLERS.get(message.split(b" ", 1)[0].rstrip(b":"))
        if handler is not None:
            handler(self, slot, head, message)
        elif match := nccl_lines.CHOSEN.match(message):
            self._chosen(match)
        elif match := nccl_lines.CHANNEL_COUNTS.match(message):
            names = ("collective_channels", "nvls_channels", "p2p_channels")
            pairs = zip(names, match.groups(), strict=True)
            self.slots[slot].counts = {name: int(value) for name, value in pairs if value}
        elif self.network is None and (match := nccl_lines.NETWORK.match(message)):
            self.network = match[1].decode()

    def comm(self, slot: int, head: bytes, message: bytes) -> None:
        found = nccl_lines.comm_of(message)
        if found is None:
            return
        current = self.slots[slot]
        other = current.comm is not None and current.comm.pointer != found.pointer
        if other or (current.complete and found.state == "START"):
            slot = self._new_slot(current.host, current.pid, current.device)
            current = self.slots[slot]
            self._threads[head] = slot
            if key := self._key(head):
                self._slot_of[key] = slot
        parts = (current.comm.parts if current.comm else {}) | found.parts
        state = found.state or (current.comm.state if current.comm else None)
        current.comm = Comm(found.pointer, found.rank, found.size, parts, state)
        current.complete = current.complete or found.state == "COMPLETE"

    def _key(self, head: bytes) -> tuple[str, int, int] | None:
        """Host, process and thread; the last of them where lines ran into each other."""
        matches = list(nccl_lines.THREAD.finditer(head))
        if not matches:
            return None
        match = matches[-1]
        return self._host(match[1].decode("ascii", "replace")), int(match[2]), int(match[3])

    def old_ring(self, slot: int, _: bytes, message: bytes) -> None:
        """`Ring 00 : 1 -> 0 [receive] via …` of 2.4 is a channel line under another name."""
        name, _colon, link = message.removeprefix(b"Ring ").partition(b" : ")
        found = nccl_lines.link_of(link)
        if found is not None and name.isdigit():
            if link not in self._link_codes:
                self._link_codes[link] = len(self.links)
                self.links.append(found)
            self.add_channel(slot, int(name[:9]), self._link_codes[link])

    def old_channel(self, slot: int, head: bytes, message: bytes) -> None:
        name, _, link = message.removeprefix(b"Channel ").partition(b" : ")
        self._new_channel_line(head, name, link, message)

    def tree(self, slot: int, _: bytes, message: bytes) -> None:
        for node in nccl_lines.trees_of(message):
            self.trees.add(
                communicator=slot,
                channel=node.channel,
                rank=node.rank,
                parent=node.parent,
                children=node.children,
                line=self.line,
            )

    def using(self, _: int, __: bytes, message: bytes) -> None:
        if message.startswith(b"Using network "):
            self.network = message[14:100].decode("utf-8", "replace").strip()

    def _chosen(self, match: re.Match[bytes]) -> None:
        algorithm, protocol = match[3].decode(), match[4].decode()
        algorithm = _named(algorithm, nccl_lines.ALGORITHMS)
        protocol = _named(protocol, nccl_lines.PROTOCOLS)
        key = (match[1].decode(), int(match[2]), algorithm, protocol)
        if key in self.operations or len(self.operations) < 100_000:
            self.operations[key] += 1

    def _warning(self, text: bytes) -> None:
        head, _, message = text.partition(b" WARN ")
        head = head.removesuffix(b" NCCL")
        match = nccl_lines.THREAD.search(head)
        where = head[match.end() :].strip() if match else b""
        slot = self.slot(head[: match.end()]) if match else None
        comm = self.slots[slot].comm if slot is not None else None
        self.add_warning(
            message.decode("utf-8", "replace").strip(),
            host=self.slots[slot].host if slot is not None else None,
            rank=comm.rank if comm else prefix.parse(text).rank,
            where=where.decode("utf-8", "replace"),
        )

    def add_warning(self, text: str, **values: object) -> None:
        severity, meaning = nccl_lines.meaning_of(text)
        self.warnings.add(
            text=text[:1000],
            severity=severity,
            meaning=meaning,
            line=self.line,
            file=self.files[-1] if self.files else "",
            **values,
        )

    def _plain(self, text: bytes) -> None:
        """Versions, settings, and the table of nccl-tests."""
        if match := nccl_lines.VERSION.search(text):
            self.library = "RCCL" if b"RCCL" in text else self.library
            version = match[1].decode("utf-8", "replace")
            if version not in self.versions and len(self.versions) < 100:
                self.versions.append(version)
        if match := nccl_lines.SETTING.search(text):
            value = match[2].decode("utf-8", "replace").strip().rstrip(".")
            if len(self.environment) < 1000:
                self.environment[match[1].decode()] = value
        if b"neither AF_INET" in text and b" WARN " not in text:
            self.add_warning(text.decode("utf-8", "replace").strip())
        self._tests.line(self, text)

    def result(self) -> NcclLog:
        from course_lib.read.nccl_tables import build

        return build(self)


def _named(text: str, names: tuple[str, ...]) -> str:
    """Older versions print a number."""
    if text.isdecimal():
        return names[int(text)] if int(text) < len(names) else text
    return text.upper()


Handler = Callable[[NcclReader, int, bytes, bytes], None]
_HANDLERS: dict[bytes, Handler] = {
    b"comm": NcclReader.comm,
    b"ncclCommInitRank": NcclReader.comm,
    b"ncclCommInitRankConfig": NcclReader.comm,
    b"ncclCommInitAll": NcclReader.comm,
    b"ncclCommSplit": NcclReader.comm,
    b"ncclCommInitRankScalable": NcclReader.comm,
    b"Trees": NcclReader.tree,
    b"Tree": NcclReader.tree,
    b"Ring": NcclReader.old_ring,
    b"Channel": NcclReader.old_channel,
    b"Using": NcclReader.using,
}


def nccl(path: PathLike | Iterable[PathLike]) -> NcclLog:
    """Reads one log, or the logs of all ranks, of a run with NCCL_DEBUG=INFO."""
    reader = NcclReader()
    for source in lines.sources(path):
        reader.read(source)
    return reader.result()
