"""Collects iteration lines column by column, and sorts out copies and restarts at the end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from course_lib.read import prefix
from course_lib.read.bulk import Bulk
from course_lib.read.columns import Column, Columns
from course_lib.read.fields import HEAD, Decoder, Floats
from course_lib.read.iteration_lines import pick
from course_lib.read.line_heads import Codes, Head, Span
from course_lib.read.prefix import Prefix
from course_lib.read.scan import Hits

Ints = npt.NDArray[np.int64]
Times = npt.NDArray[Any]
_TIME = re.compile(rb"[\d/.-]{0,11}[ T]?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
_DATE = re.compile(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?")
MOST_ROWS = 20_000_000
MOST_PRINTERS = 100_000
LARGEST_STEP_BACK = 2
"""Ranks that print the same iteration may be this far apart; a larger step back is a restart."""


@dataclass(frozen=True)
class Part:
    """Some rows of a block; `line` counts from 0 within it."""

    line: Ints
    columns: dict[str, Floats]
    codes: Codes
    stamps: Times


@dataclass(frozen=True)
class Place:
    """The number of the file, of a block's first line (from 1), and of world lines before it."""

    file: int
    line: int
    started: int


def merged(parts: Sequence[Part]) -> Part:
    """All rows in the order of their lines."""
    line = np.concatenate([part.line for part in parts])
    order = np.argsort(line, kind="stable")
    names = dict.fromkeys(name for part in parts for name in part.columns)
    columns: dict[str, Floats] = {}
    for name in names:
        pieces = [part.columns.get(name, np.full(len(part.line), np.nan)) for part in parts]
        columns[name] = np.concatenate(pieces)[order]
    if "global_step" in columns:
        columns |= _by_global_step(columns)
    codes = np.concatenate([part.codes for part in parts])[order]
    return Part(line[order], columns, codes, np.concatenate([part.stamps for part in parts])[order])


class IterationRows:
    """Rows in the order in which they were printed."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.line, self.start, self.printer = Column("i8"), Column("i4"), Column("i4")
        self.stamp = Column("M8[us]")
        self.printers: list[tuple[Prefix, int]] = []
        self.patches: list[tuple[int, int, str, float]] = []
        self._decoder = Decoder()
        self._codes: dict[tuple[bytes, int], int] = {}
        self._bulk = Bulk(self._learn)
        self._file = 0

    @property
    def rows(self) -> int:
        return self.columns.rows

    def add_block(self, block: bytes, hits: Hits, begun: Ints, place: Place) -> tuple[Ints, Floats]:
        """Adds the iteration lines of a block; gives their lines and iteration numbers.

        `begun`: lines that state the world size, so begin an attempt (numbered within the block).
        """
        if place.file != self._file:
            self._bulk, self._file = Bulk(self._learn), place.file
        single = hits.times == 1
        batches, left = self._bulk.take(block, hits.start[single], hits.end[single])
        parts = [
            Part(
                hits.line[single][batch.row],
                batch.columns,
                batch.codes,
                _times(batch.stamps),
            )
            for batch in batches
        ]
        rest = np.sort(np.concatenate([np.flatnonzero(single)[left], np.flatnonzero(~single)]))
        parts.append(self._one_by_one(*pick(block, hits.only(rest)), place.file))
        part = merged(parts)
        if self.rows + len(part.line) > MOST_ROWS or not len(part.line):
            return np.zeros(0, np.int64), np.zeros(0)
        line = part.line + place.line
        self.columns.add(part.columns, len(line))
        self.line.extend(line)
        self.start.extend(place.started + np.searchsorted(begun, part.line))
        self.stamp.extend(part.stamps)
        self.printer.extend(part.codes)
        return line, part.columns["iteration"]

    def _learn(self, head: bytes) -> Head:
        times, date = _written_times(head)
        return Head(times, date, self._code(head, _without(head, times), self._file))

    def _one_by_one(
        self, before: Sequence[bytes], tails: Sequence[bytes], numbers: Sequence[int], file: int
    ) -> Part:
        line = np.array(numbers, np.int64)
        table = self._decoder.read(tails)
        if np.isnan(table["iteration"]).any():
            table, before, kept = self._searched(table["iteration"], before, tails)
            line = line[kept]
        codes, stamps = self._who(before, file)
        return Part(line, table, codes, stamps)

    def _searched(
        self, iteration: Floats, before: Sequence[bytes], tails: Sequence[bytes]
    ) -> tuple[dict[str, Floats], Sequence[bytes], Ints]:
        """The word `iteration` may come up earlier on the line than in its head, or not at all."""
        heads = [
            HEAD.search(tail) if unknown else None
            for tail, unknown in zip(tails, np.isnan(iteration), strict=True)
        ]
        moved = [head.start() if head else 0 for head in heads]
        kept = [row for row in range(len(tails)) if heads[row] or not np.isnan(iteration[row])]
        table = self._decoder.read([tails[row][moved[row] :] for row in kept])
        texts = [before[row] + tails[row][: moved[row]] for row in kept]
        return table, texts, np.array(kept, np.int64)

    def patch(self, file: int, line: int, name: str, value: float) -> None:
        """A later line completes the row before it."""
        self.patches.append((file, line, name, value))

    def _who(self, before: Sequence[bytes], file: int) -> tuple[Codes, Times]:
        codes = np.empty(len(before), np.int32)
        stamps: list[bytes] = []
        times: tuple[Span, ...] = ()
        date = (0, 0)
        for row, text in enumerate(before):
            code = self._codes.get((_without(text, times), file))
            if code is None:
                times, date = _written_times(text)
                code = self._code(text, _without(text, times), file)
            codes[row] = code
            stamp = _DATE.fullmatch(text, *date)
            stamps.append(stamp[0].replace(b",", b".") if stamp else b"")
        return codes, _times(stamps)

    def _code(self, text: bytes, key: bytes, file: int) -> int:
        if (known := self._codes.get((key, file))) is not None:
            return known
        code = min(len(self.printers), MOST_PRINTERS)
        if code < MOST_PRINTERS:
            self._codes[key, file] = code
            self.printers.append((prefix.parse(prefix.without_colours(text)), file))
        return min(code, MOST_PRINTERS - 1)


def _written_times(text: bytes) -> tuple[tuple[Span, ...], Span]:
    """All times of day in a head, and the first that comes with a date."""
    date = _DATE.search(text)
    return tuple(match.span() for match in _TIME.finditer(text)), date.span() if date else (0, 0)


def _without(text: bytes, times: Sequence[Span]) -> bytes:
    for first, last in reversed(times):
        text = text[:first] + text[last:]
    return text


def _times(stamps: Sequence[bytes] | npt.NDArray[np.bytes_]) -> Times:
    try:
        return np.array(stamps, "S26").astype("datetime64[us]")
    except ValueError:  # no such day or hour
        return np.array([_time(bytes(stamp)) for stamp in stamps], "datetime64[us]")


def _time(stamp: bytes) -> np.datetime64:
    try:
        return np.datetime64(stamp.decode("ascii", "replace")[:26], "us")
    except ValueError:
        return np.datetime64("NaT", "us")


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


def _by_global_step(table: dict[str, Floats]) -> dict[str, Floats]:
    """NeMo counts iterations within an epoch, and steps over all of them."""
    known = ~np.isnan(table["global_step"])
    return table | {
        "iteration": np.where(known, table["global_step"], table["iteration"]),
        "iteration_in_epoch": table["iteration"],
    }
