"""Every line of a training log that is not an iteration line: sizes, memory, losses, events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from course_lib.read.files import Source
from course_lib.read.large_files.file_pieces import Piece
from course_lib.read.large_files.line_search import Hits
from course_lib.read.training_logs import megatron_lines, other_trainers
from course_lib.read.training_logs.iteration_lines.collected_rows import Ints
from course_lib.read.training_logs.iteration_lines.names_and_values import Floats
from course_lib.read.training_logs.tables import Handler, LinePlace, Tables

WORLD_NEEDLE: bytes = b"using world size"
_HANDLERS: dict[bytes, Handler] = {**megatron_lines.HANDLERS, **other_trainers.HANDLERS}
NEEDLES: tuple[bytes, ...] = tuple(_HANDLERS)
_SHORT = re.compile(b"|".join(map(re.escape, other_trainers.SHORT_HANDLERS)))
_SHORT_SEARCH_BYTES = 4 << 20
"""Short words cost as much as all others: looked for here, and as long as no iteration is seen."""
_REGION_LINES = {"arguments": 2000, "timers": 60}
_MOST_REGIONS = {"arguments": 8, "timers": megatron_lines.MOST_TIMER_REPORTS}
_MOST_FOREIGN_LINES = {"arguments": 40, "timers": 0}
"""More lines of other processes than this, in a row, end a table."""


@dataclass(frozen=True)
class LoggedIterations:
    """The iteration rows of one block: their line numbers (from 1) and iterations."""

    first_line: int
    line: Ints
    iteration: Floats

    def before(self, line: int, earlier: int | None) -> int | None:
        index = int(np.searchsorted(self.line, line, "right"))
        return self._number(index - 1, earlier) if index else earlier

    def last(self, earlier: int | None) -> int | None:
        return self._number(-1, earlier) if len(self.iteration) else earlier

    def _number(self, row: int, earlier: int | None) -> int | None:
        """A damaged log may call it `inf`."""
        value = float(self.iteration[row])
        return int(value) if np.isfinite(value) else earlier


class OtherLines:
    """Reads the candidate lines of each block in order; knows the last iteration before each."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._iteration: int | None = None
        self._regions = dict.fromkeys(_MOST_REGIONS, 0)
        self.begin(Source.unnamed(), 0)

    def begin(self, source: Source, number: int) -> None:
        self._source, self._file = source, number
        self._region: str | None = None
        self._region_left = self._foreign_lines = self._read_bytes = 0

    def read(self, piece: Piece, hits: Hits, first_needle: int, rows: LoggedIterations) -> None:
        """`hits` of `NEEDLES`, which the finder numbers from `first_needle`."""
        short = self._read_bytes < _SHORT_SEARCH_BYTES or not self.tables.iterations.rows
        if self._region or len(hits.line) or short:
            self._read(piece.text, hits, first_needle, rows)
            self._read_bytes += len(piece.text)
        self._iteration = rows.last(self._iteration)

    def _read(self, block: bytes, hits: Hits, first_needle: int, rows: LoggedIterations) -> None:
        if self._region:
            self._follow(block, 0, rows.first_line, rows)
        columns = (hits.line.tolist(), hits.start.tolist(), hits.end.tolist(), hits.needle.tolist())
        done: set[tuple[int, Handler]] = set()
        for number, start, end, needle in zip(*columns, strict=True):
            handler = _HANDLERS[NEEDLES[needle - first_needle]]
            if (number, handler) in done:
                continue
            done.add((number, handler))
            place = self._place(block, (start, end), rows.first_line + number, rows)
            handler(self.tables, place.text, place)
            if self._begins(megatron_lines.region_begun(place.text)):
                self._follow(block, end + 1, place.line + 1, rows)
        if self._read_bytes < _SHORT_SEARCH_BYTES or not self.tables.iterations.rows:
            self._short(block, rows, done)

    def _place(
        self, block: bytes, span: tuple[int, int], line: int, rows: LoggedIterations
    ) -> LinePlace:
        place = LinePlace(block, span, self._source, line)
        place.file = self._file
        place.iteration = rows.before(line, self._iteration)
        return place

    def _short(self, block: bytes, rows: LoggedIterations, done: set[tuple[int, Handler]]) -> None:
        for number, start, end, word in _short_lines(block):
            handler = other_trainers.SHORT_HANDLERS[word]
            if (number, handler) not in done:
                place = self._place(block, (start, end), rows.first_line + number, rows)
                handler(self.tables, place.text, place)

    def _begins(self, region: str | None) -> bool:
        if region is None or self._regions[region] >= _MOST_REGIONS[region]:
            return False
        self._regions[region] += 1
        self._region, self._region_left = region, _REGION_LINES[region]
        self._foreign_lines = 0
        return True

    def _follow(self, block: bytes, start: int, line: int, rows: LoggedIterations) -> None:
        """Reads on, line by line, in a table that spans lines and maybe blocks."""
        while self._region and start < len(block):
            end = block.find(b"\n", start)
            end = len(block) if end < 0 else end
            place = self._place(block, (start, end), line, rows)
            own = megatron_lines.region_line(self._region, self.tables, place.text, place)
            self._foreign_lines = 0 if own else self._foreign_lines + 1
            self._region_left -= 1
            over = self._region_left <= 0 or megatron_lines.region_ended(self._region, place.text)
            if over or self._foreign_lines > _MOST_FOREIGN_LINES[self._region]:
                self._region = None
            start, line = end + 1, line + 1


def _short_lines(block: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(line number from 0, start, end, word) of each line, once, with its first short word."""
    number, counted, at = 0, 0, 0
    while match := _SHORT.search(block, at):
        start = block.rfind(b"\n", 0, match.start()) + 1
        end = block.find(b"\n", match.end())
        end = len(block) if end < 0 else end
        number += block.count(b"\n", counted, start)
        counted, at = start, end
        yield number, start, end, match[0]
