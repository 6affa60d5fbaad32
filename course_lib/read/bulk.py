"""Reads iteration lines as matrices of bytes: lines of one length in one go.

Two lines are alike if they differ in the digits of their fields and in the time of day only. What
is like no line before is left to `iteration_lines.py`, as are lines that do not end with a bar.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from course_lib.read.fields import Floats, Shape

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
WORD_BYTES = 8
MOST_FORMS = 64
"""More forms than this for one length of line are read one by one."""
MOST_LENGTHS = 500
_LONGEST_LINE_BYTES = 2000
_DIGIT, _ANY = np.uint8(0xF0), np.uint8(0xFF)


@dataclass(frozen=True)
class Head:
    """What precedes the word `iteration`: its length, the time of day in it, and who printed it."""

    length: int
    first: int
    last: int
    code: int


@dataclass(frozen=True)
class Form:
    """Lines of one form; `mask` covers the bits that they share. A form without shape is known
    to be unreadable in bulk."""

    template: Words
    mask: Words
    head: Head
    shape: Shape | None


@dataclass(frozen=True)
class Batch:
    """Lines of one form; `row` counts the lines that were given to `take`."""

    row: Ints
    columns: dict[str, Floats]
    code: int
    stamps: npt.NDArray[np.bytes_]


class Bulk:
    """`learn` tells head and shape of a line that is like none before."""

    def __init__(self, learn: Callable[[bytes], tuple[Head, Shape] | None]) -> None:
        self._learn = learn
        self._forms: dict[int, list[Form]] = {}

    def take(self, block: bytes, start: Ints, end: Ints) -> tuple[list[Batch], Ints]:
        """What could be read, and the numbers of the lines that are left."""
        text = np.frombuffer(block, np.uint8)
        lengths = end - start
        batches: list[Batch] = []
        left = [np.flatnonzero(lengths > _LONGEST_LINE_BYTES)]
        for length in np.unique(lengths[lengths <= _LONGEST_LINE_BYTES]).tolist():
            rows = np.flatnonzero(lengths == length)
            padded = -(-length // WORD_BYTES) * WORD_BYTES
            fits = start[rows] + padded <= len(text)
            left.append(rows[~fits])
            if fits.any():
                left.append(self._same_length(text, rows[fits], start, length, batches))
        return batches, np.sort(np.concatenate(left))

    def _same_length(
        self, text: Bytes, rows: Ints, start: Ints, length: int, batches: list[Batch]
    ) -> Ints:
        """Adds to `batches`; gives the rows that are left."""
        padded = -(-length // WORD_BYTES) * WORD_BYTES
        lines = _matrix(text, start[rows], padded)
        if length not in self._forms and len(self._forms) >= MOST_LENGTHS:
            return rows
        forms = self._forms.setdefault(length, [])
        words, place = lines.view(np.uint64), np.arange(len(rows))
        unread: list[Ints] = []
        for number in range(MOST_FORMS):
            if number == len(forms):
                forms.append(self._form(lines[place[0]], length))
            form = forms[number]
            same = ~((words ^ form.template) & form.mask).any(axis=1)
            chosen = place[same]
            batch = _batch(form, lines, rows, chosen) if len(chosen) else None
            if batch is not None:
                batches.append(batch)
            else:
                unread.append(rows[chosen])
            place, words = place[~same], words[~same]
            if not len(place):
                break
        return np.concatenate([*unread, rows[place]])

    def _form(self, line: Bytes, length: int) -> Form:
        found = self._learn(line[:length].tobytes())
        head, shape = found if found else (Head(0, 0, 0, 0), None)
        digit = line - np.uint8(48) < 10
        digit[: head.first] = False
        digit[head.last : head.length] = False
        mask = np.where(digit, _DIGIT, _ANY) if shape else np.full(len(line), _ANY)
        mask[length:] = 0
        return Form(line.copy().view(np.uint64), mask.view(np.uint64), head, shape)


def _batch(form: Form, lines: Bytes, rows: Ints, chosen: Ints) -> Batch | None:
    """None where the lines must be read one by one."""
    if form.shape is None:
        return None
    head = form.head
    digits = lines[chosen[:, None], head.length + form.shape.digits]
    values = form.shape.read(digits)
    if values is None:
        return None
    columns = {name: values[:, number] for number, name in enumerate(form.shape.columns)}
    width = head.last - head.first
    stamps = np.zeros(len(chosen), "S1")
    if width:
        stamps = np.frombuffer(lines[chosen, head.first : head.last].tobytes(), f"S{width}")
    return Batch(rows[chosen], columns, head.code, stamps)


def _matrix(text: Bytes, at: Ints, length: int) -> Bytes:
    """Row i holds the `length` bytes from `at[i]` on."""
    every = np.ndarray((len(text) - length + 1, length), np.uint8, text, strides=(1, 1))
    return every[at]
