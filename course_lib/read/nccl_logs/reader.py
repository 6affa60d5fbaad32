"""Reads NCCL's log (NCCL_DEBUG=INFO), from version 2.2 to today, of any number of ranks.

Its channel lines are read in `channel_lines.py`, all others here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from course_lib.plan.simulated_nccl.log import MARK
from course_lib.read import files, prefix
from course_lib.read.files import PathLike, Source
from course_lib.read.large_files.file_pieces import Piece
from course_lib.read.large_files.two_processes import searched
from course_lib.read.nccl_logs import line_patterns
from course_lib.read.nccl_logs.benchmark_table import TestTable
from course_lib.read.nccl_logs.channel_lines import ChannelLines
from course_lib.read.nccl_logs.channel_search import ChannelBlock, ChannelSearch
from course_lib.read.nccl_logs.collected import Collected
from course_lib.read.nccl_logs.result import NcclLog

_INFO = b" NCCL INFO "
_COMM = (b"comm 0x", b"ncclCommInitRank comm 0x")
"""Of these there are many, and they say nothing else."""
_LONGEST_LINE_BYTES = 20_000
_OF_A_PLAIN_LINE = (b"#", b" float ", b"version", b"nccl")
_MARK = MARK.encode()


class NcclReader:
    """Collects from any number of files; `result` puts the communicators together."""

    def __init__(self) -> None:
        self._collected = Collected()
        self._channel_lines = ChannelLines(self._collected)
        self._tests = TestTable(self._collected)

    def read(self, source: Source) -> None:
        said = self._collected
        said.files.append(source.name)
        said.line = 0
        said.threads.begin_file(said.lines)
        for _, piece, found in searched(source.path, ChannelSearch()):
            self._block(piece, found)
        said.lines += said.line

    def _block(self, piece: Piece, found: ChannelBlock) -> None:
        """Lines that are no channel lines come first: they tell which communicator a thread works
        for, and from which line on."""
        said = self._collected
        before = said.line
        said.threads.changes.clear()
        for number, text in found.rest:
            said.line = before + number + 1
            self._any(text)
        if len(found.line):
            self._channel_lines.add_block(piece, found, before + 1)
        said.line = before + found.lines

    def _any(self, text: bytes) -> None:
        if b"NCCL" in text or b" INFO " in text or b" WARN " in text:
            self._other(text)
        elif self._tests.inside or any(word in text for word in _OF_A_PLAIN_LINE):
            self._plain(text)

    def _other(self, text: bytes) -> None:
        text = prefix.without_colours(text[:_LONGEST_LINE_BYTES])
        head, found, message = text.partition(_INFO)
        if not found:
            head, found, message = text.partition(b" INFO ")
        if found and (slot := self._collected.threads.slot(head, self._collected.line)) is not None:
            if message.startswith(_COMM) and b"version" not in head:
                return self.comm(slot, head, message)
            self._message(slot, head, message)
        elif b"NCCL WARN " in text or (b" WARN " in text and line_patterns.THREAD.search(text)):
            self._warning(text)
        self._plain(text)

    def _message(self, slot: int, head: bytes, message: bytes) -> None:
        handler = _HANDLERS.get(message.split(b" ", 1)[0].rstrip(b":"))
        if handler is not None:
            handler(self, slot, head, message)
        elif b"Bytes -> " in message and (match := line_patterns.CHOSEN.match(message)):
            self._chosen(match)
        elif b" channels" in message and (match := line_patterns.CHANNEL_COUNTS.match(message)):
            names = ("collective_channels", "nvls_channels", "p2p_channels")
            pairs = zip(names, match.groups(), strict=True)
            self._collected.slots[slot].counts = {
                name: int(value) for name, value in pairs if value
            }
        elif self._collected.network is None and (match := line_patterns.NETWORK.match(message)):
            self._collected.network = match[1].decode()

    def comm(self, slot: int, head: bytes, message: bytes) -> None:
        found = line_patterns.comm_of(message)
        if found is not None:
            self._collected.threads.comm(slot, head, found, self._collected.line)

    def channel(self, slot: int, _: bytes, message: bytes) -> None:
        """`Ring 00 : 1 -> 0 [receive] via …` of 2.4 is a channel line under another name."""
        name, _colon, link = message.partition(b" ")[2].partition(b" : ")
        self._channel_lines.add_one(slot, name, link)

    def collnet(self, slot: int, _: bytes, message: bytes) -> None:
        """The way to the switch that reduces: written as one from the rank to itself."""
        if match := line_patterns.COLLNET.match(message):
            channel, rank, direction, via = match.groups()
            link = b"%b -> %b [%b] via %b" % (rank, rank, direction, via)
            self._channel_lines.add_one(slot, channel, link)

    def nvls(self, slot: int, _: bytes, message: bytes) -> None:
        if message.startswith((b"Connected NVLS", b"NVLS comm", b"NVLS Trees")):
            self._collected.slots[slot].counts["nvls"] = 1

    def tree(self, slot: int, _: bytes, message: bytes) -> None:
        for node in line_patterns.trees_of(message):
            self._collected.trees.add(
                communicator=slot,
                channel=node.channel,
                rank=node.rank,
                parent=node.parent,
                children=node.children,
                line=self._collected.line,
            )

    def using(self, _: int, __: bytes, message: bytes) -> None:
        if message.startswith(b"Using network "):
            self._collected.network = message[14:100].decode("utf-8", "replace").strip()

    def _chosen(self, match: re.Match[bytes]) -> None:
        algorithm, protocol = match[3].decode(), match[4].decode()
        algorithm = _named(algorithm, line_patterns.ALGORITHMS)
        protocol = _named(protocol, line_patterns.PROTOCOLS)
        key = (match[1].decode(), int(match[2]), algorithm, protocol)
        if key in self._collected.operations or len(self._collected.operations) < 100_000:
            self._collected.operations[key] += 1

    def _warning(self, text: bytes) -> None:
        head, _, message = text.partition(b" WARN ")
        head = head.removesuffix(b" NCCL")
        match = line_patterns.THREAD.search(head)
        where = head[match.end() :].strip() if match else b""
        slot = (
            self._collected.threads.slot(head[: match.end()], self._collected.line)
            if match
            else None
        )
        comm = self._collected.slots[slot].comm if slot is not None else None
        self.add_warning(
            message.decode("utf-8", "replace").strip(),
            host=self._collected.slots[slot].host if slot is not None else None,
            rank=comm.rank if comm else prefix.parse(text).rank,
            where=where.decode("utf-8", "replace"),
        )

    def add_warning(self, text: str, **values: object) -> None:
        severity, meaning = line_patterns.meaning_of(text)
        self._collected.warnings.add(
            text=text[:1000],
            severity=severity,
            meaning=meaning,
            line=self._collected.line,
            file=self._collected.files[-1] if self._collected.files else "",
            **values,
        )

    def _plain(self, text: bytes) -> None:
        """Versions, settings, the table of nccl-tests, and the mark of a simulated log."""
        if text.startswith(_MARK) and not self._collected.simulated:
            self._collected.simulated = text[len(_MARK) :].decode("utf-8", "replace").strip()
        if b"version" in text and (match := line_patterns.VERSION.search(text)):
            self._collected.library = "RCCL" if b"RCCL" in text else self._collected.library
            version = match[1].decode("utf-8", "replace")
            if version not in self._collected.versions and len(self._collected.versions) < 100:
                self._collected.versions.append(version)
        if b" set " in text and (match := line_patterns.SETTING.search(text)):
            value = match[2].decode("utf-8", "replace").strip().rstrip(".")
            if len(self._collected.environment) < 1000:
                self._collected.environment[match[1].decode()] = value
        if b"neither AF_INET" in text and b" WARN " not in text:
            self.add_warning(text.decode("utf-8", "replace").strip())
        self._tests.add(text)

    def result(self) -> NcclLog:
        from course_lib.read.nccl_logs.tables import build

        return build(self._collected)


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
    b"Ring": NcclReader.channel,
    b"Channel": NcclReader.channel,
    b"CollNet": NcclReader.collnet,
    b"Coll": NcclReader.collnet,
    b"Connected": NcclReader.nvls,
    b"NVLS": NcclReader.nvls,
    b"Using": NcclReader.using,
}


def nccl(path: PathLike | Iterable[PathLike]) -> NcclLog:
    """Reads one log, or the logs of all ranks, of a run with NCCL_DEBUG=INFO."""
    reader = NcclReader()
    for source in files.sources(path):
        reader.read(source)
    return reader.result()
