"""The channel lines of NCCL's log, which are most of a large one.

They differ in their channel number only, so that what follows the number is parsed once and looked
up afterwards.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from course_lib.read import prefix
from course_lib.read.large_files.file_pieces import Piece
from course_lib.read.large_files.line_search import Ints
from course_lib.read.large_files.two_processes import searched
from course_lib.read.lines import Source
from course_lib.read.nccl_logs import line_patterns
from course_lib.read.nccl_logs.benchmark_table import TestTable
from course_lib.read.nccl_logs.channel_search import ChannelBlock, ChannelSearch, Texts
from course_lib.read.nccl_logs.line_patterns import Link
from course_lib.read.nccl_logs.result import (
    RING_COLUMNS,
    TEST_COLUMNS,
    TREE_COLUMNS,
    WARNING_COLUMNS,
)
from course_lib.read.nccl_logs.threads import ChannelRows, Threads
from course_lib.read.rows import Rows

RING, NEITHER = -1, -2
MOST_CHANNEL_LINES = 50_000_000
_NUMBER = re.compile(rb"\d{1,9}")
_OF_A_PLAIN_LINE = (b"#", b" float ", b"version", b"nccl")


class ChannelLines:
    """Reads the files and takes the channel lines; what to do with others `NcclReader` knows."""

    def __init__(self) -> None:
        self.threads = Threads()
        self.slots, self.hosts = self.threads.slots, self.threads.hosts
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
        self.test_ranks: list[tuple[int, int, str, int, str]] = []
        self.average: float | None = None
        self.simulated = ""
        self.files: list[str] = []
        self.lines = self.line = 0
        self._link_codes: dict[bytes, int] = {}
        self._hashes, self._code_of_hash = np.zeros(1, np.uint64), np.full(1, NEITHER)
        """Sorted; the first stands for no text."""
        self._tests = TestTable()

    def read(self, source: Source) -> None:
        self.files.append(source.name)
        self.line = 0
        self.threads.begin_file(self.lines)
        for _, piece, found in searched(source.path, ChannelSearch()):
            self._block(piece, found)
        self.lines += self.line

    def _block(self, piece: Piece, found: ChannelBlock) -> None:
        """Lines that are no channel lines come first: they tell which communicator a thread works
        for, and from which line on."""
        before = self.line
        self.threads.changes.clear()
        for number, text in found.rest:
            self.line = before + number + 1
            self._any(text)
        if len(found.line):
            self._channels(piece, found, before + 1)
        self.line = before + found.lines

    def _any(self, text: bytes) -> None:
        if b"NCCL" in text or b" INFO " in text or b" WARN " in text:
            self._other(text)
        elif self._tests.inside or any(word in text for word in _OF_A_PLAIN_LINE):
            self._plain(text)

    def _channels(self, piece: Piece, found: ChannelBlock, first: int) -> None:
        line = found.line + first
        slots = np.asarray(self.threads.slots_of(found.head.text, found.head.code, line))
        link = self._links_of(found.link)[found.link.code]
        good = (slots >= 0) & (link >= 0)
        if len(self.rows.slot) + int(good.sum()) <= MOST_CHANNEL_LINES:
            self.rows.extend(slots[good], found.channel[good], link[good], line[good])
        for row in np.flatnonzero((slots >= 0) & (link == RING)).tolist():
            self.line = int(line[row])
            order = prefix.without_colours(found.link.text[found.link.code[row]])
            self._ring(int(slots[row]), found.name(row, piece.text), order)

    def _links_of(self, texts: Texts) -> Ints:
        """The numbers of links' texts; a ring, or neither."""
        place = np.searchsorted(self._hashes, texts.hashes)
        known = self._hashes[np.minimum(place, len(self._hashes) - 1)] == texts.hashes
        if not known.all():
            new = np.flatnonzero(~known)
            bare = (prefix.without_colours(texts.text[row]).rstrip() for row in new.tolist())
            codes = [self._link_code(text) for text in bare]
            hashes = np.append(self._hashes, texts.hashes[new])
            order = np.argsort(hashes)
            self._hashes = hashes[order]
            self._code_of_hash = np.append(self._code_of_hash, np.array(codes, np.int64))[order]
            place = np.searchsorted(self._hashes, texts.hashes)
        return self._code_of_hash[place]

    def _link_code(self, text: bytes) -> int:
        found = line_patterns.link_of(text)
        if found is None:
            return RING if line_patterns.CHANNEL_ORDER.match(text) else NEITHER
        if text not in self._link_codes:
            self._link_codes[text] = len(self.links)
            self.links.append(found)
        return self._link_codes[text]

    def one_channel_line(self, slot: int, name: bytes, text: bytes) -> None:
        """Written in an old version's way."""
        number = name.split(b"/")[0]
        if not number.isdigit():
            return
        code = self._link_code(text.rstrip())
        if code >= 0:
            self.rows.extend([slot], [int(number[:9])], [code], [self.line])
        elif code == RING:
            self._ring(slot, name, text)

    def _ring(self, slot: int, name: bytes, order: bytes) -> None:
        """`name` is the channel's number and perhaps, after a slash, how many there are; of an
        order that NCCL cut short the last number may be cut too."""
        channel, _, total = name.partition(b"/")
        number = _NUMBER.match(channel)
        if number is None:
            return
        whole = order.rstrip().removesuffix(b"...")
        parts = whole.split() if len(whole) == len(order.rstrip()) else whole.split()[:-1]
        self.rings.add(
            communicator=slot,
            channel=int(number[0]),
            order=tuple(int(part) for part in parts),
            line=self.line,
            total=int(total[:9]) if total.isdigit() else None,
        )

    def _other(self, text: bytes) -> None:
        """A line of NCCL that is no channel line."""
        raise NotImplementedError

    def _plain(self, text: bytes) -> None:
        """A line that NCCL did not print."""
        raise NotImplementedError
