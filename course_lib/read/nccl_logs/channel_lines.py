"""The channel lines of NCCL's log, which are most of a large one.

They differ in their channel number only, so that what follows the number is parsed once and looked
up afterwards.
"""

from __future__ import annotations

import re

import numpy as np

from course_lib.read import prefix
from course_lib.read.large_files.file_pieces import Piece
from course_lib.read.large_files.line_search import Ints
from course_lib.read.nccl_logs import line_patterns
from course_lib.read.nccl_logs.channel_search import ChannelBlock, Texts
from course_lib.read.nccl_logs.collected import Collected

RING, NEITHER = -1, -2
MOST_CHANNEL_LINES = 50_000_000
_NUMBER = re.compile(rb"\d{1,9}")


class ChannelLines:
    """Takes the channel lines of a block, and those that an old version wrote in its own way."""

    def __init__(self, collected: Collected) -> None:
        self._collected = collected
        self._link_codes: dict[bytes, int] = {}
        self._hashes, self._code_of_hash = np.zeros(1, np.uint64), np.full(1, NEITHER)
        """Sorted; the first stands for no text."""

    def add_block(self, piece: Piece, found: ChannelBlock, first: int) -> None:
        line = found.line + first
        slots = np.asarray(self._collected.threads.slots_of(found.head.text, found.head.code, line))
        link = self._links_of(found.link)[found.link.code]
        good = (slots >= 0) & (link >= 0)
        if len(self._collected.rows.slot) + int(good.sum()) <= MOST_CHANNEL_LINES:
            self._collected.rows.extend(slots[good], found.channel[good], link[good], line[good])
        for row in np.flatnonzero((slots >= 0) & (link == RING)).tolist():
            self._collected.line = int(line[row])
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
            self._link_codes[text] = len(self._collected.links)
            self._collected.links.append(found)
        return self._link_codes[text]

    def add_one(self, slot: int, name: bytes, text: bytes) -> None:
        """Written in an old version's way."""
        number = name.split(b"/")[0]
        if not number.isdigit():
            return
        code = self._link_code(text.rstrip())
        if code >= 0:
            self._collected.rows.extend([slot], [int(number[:9])], [code], [self._collected.line])
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
        self._collected.rings.add(
            communicator=slot,
            channel=int(number[0]),
            order=tuple(int(part) for part in parts),
            line=self._collected.line,
            total=int(total[:9]) if total.isdigit() else None,
        )
