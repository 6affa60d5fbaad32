"""Reads iteration lines all at once, field by field: a field ends at its bar.

Lines of one form have the same names of fields. Where each number begins and ends is found for
each line anew, so that it may be of any length. What has no such form is left to
`odd_lines.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from course_lib.read.large_files.eight_bytes import MARGIN, Ints, Words, words_of
from course_lib.read.large_files.line_search import places_of
from course_lib.read.training_logs.iteration_lines.line_forms import (
    BAR,
    Form,
    Lines,
    form_of,
    remember,
)
from course_lib.read.training_logs.iteration_lines.line_heads import Codes, Head, Heads
from course_lib.read.training_logs.iteration_lines.names_and_values import Floats

_MOST_BARS, _MOST_FAILURES = 80, 4
_LONGEST_LINE_BYTES = 4000
_LINES_AT_ONCE = 2048
"""What is made of them fits a processor's cache."""


@dataclass(frozen=True)
class Batch:
    """Lines of one form; `row` counts the lines that were given to `read`."""

    row: Ints
    columns: dict[str, Floats]
    codes: Codes
    stamps: npt.NDArray[np.bytes_]


Read = tuple[Ints, Ints, Form, Floats]
"""Rows, where their word `iteration` is, their form and numbers."""


class ManyLines:
    """`learn` is told the head of a line that is like none before."""

    def __init__(self, learn: Callable[[bytes], Head]) -> None:
        self._heads = Heads(learn)
        self._forms: dict[int, list[Form]] = {}

    def read(self, block: bytes, start: Ints, end: Ints) -> tuple[list[Batch], Ints]:
        """What could be read, and the numbers of the lines that are left."""
        if not len(start):
            return [], start
        bars = places_of(block, BAR)
        first, count = np.searchsorted(bars, start), np.searchsorted(bars, end)
        count -= first
        possible = (end - start < _LONGEST_LINE_BYTES) & (count <= _MOST_BARS) & (count > 0)
        possible &= (start >= MARGIN) & (end <= len(block) - MARGIN)
        words = words_of(block)
        found: list[Read] = []
        for bars_in_line in np.unique(count[possible]).tolist():
            rows = np.flatnonzero(possible & (count == bars_in_line))
            forms = self._forms.setdefault(bars_in_line, [])
            for piece in range(0, len(rows), _LINES_AT_ONCE):
                row = rows[piece : piece + _LINES_AT_ONCE]
                lines = Lines(words, row, bars[first[row][:, None] + np.arange(bars_in_line)])
                found += _read(block, lines, (start, end), forms)
        batches = self._batches(words, start, found)
        left = np.ones(len(start), np.bool_)
        for batch in batches:
            left[batch.row] = False
        return batches, np.flatnonzero(left)

    def _batches(self, words: Words, start: Ints, found: list[Read]) -> list[Batch]:
        if not found:
            return []
        row, at = (np.concatenate([part[place] for part in found]) for place in (0, 1))
        codes, stamps = self._heads.of(words, start[row], at)
        batches, done = [], 0
        for part in found:
            own = slice(done, done := done + len(part[0]))
            known = codes[own] >= 0
            values = part[3] if known.all() else part[3][known]
            columns = {name: values[:, place] for place, name in enumerate(part[2].columns)}
            batches.append(Batch(part[0][known], columns, codes[own][known], stamps[own][known]))
        return batches


def _read(block: bytes, lines: Lines, spans: tuple[Ints, Ints], forms: list[Form]) -> list[Read]:
    found: list[Read] = []
    tried = failures = 0
    while len(lines.row) and failures < _MOST_FAILURES:
        if tried == len(forms):
            start, end = (int(places[lines.row[0]]) for places in spans)
            line = block[start:end]
            form = form_of(line)
            place = None if form is None else remember(form, forms)
            if place is None:
                failures += 1
                lines = lines.only(np.arange(len(lines.row)) > 0)
                continue
            tried = place
        form = forms[tried]
        fitting = form.fits(lines)
        if fitting.any():
            mine = lines.only(fitting)
            values, readable = form.read(mine)
            mine, values = mine.only(readable), values[readable]
            found.append((mine.row, mine.bars[:, form.first_bar] - form.word, form, values))
            fitting[fitting] = readable
            lines = lines.only(~fitting)
        tried += 1
    return found
