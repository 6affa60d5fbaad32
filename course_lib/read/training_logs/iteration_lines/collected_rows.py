"""Collects iteration lines column by column, and sorts out copies and restarts at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from course_lib.read import prefix
from course_lib.read.large_files.file_pieces import Piece
from course_lib.read.prefix import Prefix
from course_lib.read.training_logs.iteration_lines.growing_columns import Column, Columns
from course_lib.read.training_logs.iteration_lines.line_heads import Codes
from course_lib.read.training_logs.iteration_lines.names_and_values import (
    HEAD,
    MOST_EXTRA_COLUMNS,
    Floats,
    values_of,
)
from course_lib.read.training_logs.iteration_lines.odd_lines import pick
from course_lib.read.training_logs.iteration_lines.rows_of_block import (
    BlockFindings,
    BlockRows,
    by_global_step,
    merged,
)
from course_lib.read.training_logs.iteration_lines.times_of_day import (
    DATE,
    Span,
    Times,
    as_times,
    without_times,
    written_times,
)

Ints = npt.NDArray[np.int64]
MOST_ROWS = 20_000_000
MOST_PRINTERS = 100_000
LARGEST_STEP_BACK = 2
"""Ranks that print the same iteration may be this far apart; a larger step back is a restart."""


@dataclass(frozen=True)
class BlockPlace:
    """The number of the file, of a block's first line (from 1), and of world lines before it."""

    file: int
    line: int
    started: int


class IterationRows:
    """Rows in the order in which they were printed."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.line, self.start, self.printer = Column("i8"), Column("i4"), Column("i4")
        self.stamp = Column("M8[us]")
        self.printers: list[tuple[Prefix, int]] = []
        self.patches: list[tuple[int, int, str, float]] = []
        self._codes: dict[tuple[bytes, int], int] = {}
        self._searches: dict[tuple[int, int], list[int]] = {}

    @property
    def rows(self) -> int:
        return self.columns.rows

    def add_block(
        self, piece: Piece, found: BlockFindings, who: int, place: BlockPlace
    ) -> tuple[Ints, Floats]:
        """Adds the iteration lines that search `who` found in a block; gives their lines and
        iteration numbers."""
        codes = self._codes_of(found.heads, who, place.file)
        parts = [] if found.rows is None else [replace(found.rows, codes=codes[found.rows.codes])]
        if len(found.unread.line):
            parts.append(self._one_by_one(*pick(piece.text, found.unread), place.file))
        part = merged(parts) if parts else None
        if part is None or not len(part.line) or self.rows + len(part.line) > MOST_ROWS:
            return np.zeros(0, np.int64), np.zeros(0)
        line, columns = part.line + place.line, by_global_step(part.columns)
        self.columns.add(columns, len(line))
        self.line.extend(line)
        self.start.extend(place.started + np.searchsorted(found.begun, part.line))
        self.stamp.extend(part.stamps)
        self.printer.extend(part.codes)
        return line, columns["iteration"]

    def _codes_of(self, heads: Sequence[bytes], who: int, file: int) -> Codes:
        """Our codes for those of a search, of whose heads these are new."""
        known = self._searches.setdefault((who, file), [])
        for head in heads:
            times, _ = written_times(head)
            known.append(self._code(head, without_times(head, times), file))
        return np.array(known, np.int32)

    def _one_by_one(
        self, before: Sequence[bytes], tails: Sequence[bytes], numbers: Sequence[int], file: int
    ) -> BlockRows:
        """Lines that have no form which many share."""
        line: list[int] = []
        heads: list[bytes] = []
        rows: list[dict[str, float]] = []
        for number, text, tail in zip(numbers, before, tails, strict=True):
            head = HEAD.search(tail)  # the word `iteration` may come up earlier, or alone
            if head is not None:
                line.append(number)
                heads.append(text + tail[: head.start()])
                rows.append(values_of(tail[head.start() :]) or {})
        names = list(dict.fromkeys(name for row in rows for name in row))[:MOST_EXTRA_COLUMNS]
        columns = {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}
        codes, stamps = self._who(heads, file)
        return BlockRows(np.array(line, np.int64), columns, codes, stamps)

    def patch(self, file: int, line: int, name: str, value: float) -> None:
        """A later line completes the row before it."""
        self.patches.append((file, line, name, value))

    def _who(self, before: Sequence[bytes], file: int) -> tuple[Codes, Times]:
        codes = np.empty(len(before), np.int32)
        stamps: list[bytes] = []
        times: tuple[Span, ...] = ()
        date = (0, 0)
        for row, text in enumerate(before):
            code = self._codes.get((without_times(text, times), file))
            if code is None:
                times, date = written_times(text)
                code = self._code(text, without_times(text, times), file)
            codes[row] = code
            stamp = DATE.fullmatch(text, *date)
            stamps.append(stamp[0].replace(b",", b".") if stamp else b"")
        return codes, as_times(stamps)

    def _code(self, text: bytes, key: bytes, file: int) -> int:
        if (known := self._codes.get((key, file))) is not None:
            return known
        code = min(len(self.printers), MOST_PRINTERS)
        if code < MOST_PRINTERS:
            self._codes[key, file] = code
            self.printers.append((prefix.parse(prefix.without_colours(text)), file))
        return min(code, MOST_PRINTERS - 1)


def attempts_of(iteration: Floats, start: Any, file: Any) -> Codes:
    """How often the run began anew before each row, file by file.

    A new world line begins an attempt, and so does an iteration number that falls.
    """
    attempt = np.zeros(len(iteration), np.int32)
    changes = (iteration[1:] < iteration[:-1]) | (start[1:] > start[:-1])
    changes |= file[1:] != file[:-1]
    current, furthest, edge = 0, -np.inf, 0
    for row in (np.flatnonzero(changes) + 1).tolist():
        furthest = max(furthest, iteration[row - 1])
        attempt[edge:row] = current
        edge = row
        if file[row] != file[row - 1]:
            current, furthest = 0, -np.inf
        elif start[row] > start[row - 1] or furthest - iteration[row] > LARGEST_STEP_BACK:
            current, furthest = current + 1, -np.inf
    attempt[edge:] = current
    return attempt
