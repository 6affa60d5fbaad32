"""Reads iteration lines as matrices of bytes: lines of one length in one go.

Two lines are alike if they differ in the digits of their fields and in the time of day only. What
is like no line before is left to `iteration_lines.py`, as are lines that do not end with a bar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from course_lib.read.fields import Floats, Shape

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Span = tuple[int, int]
WORD_BYTES = 8
MOST_FORMS = 5000
"""Lines of more forms than this are read one by one."""
MOST_ALIKE = 64
_LONGEST_LINE_BYTES = 2000
_DIGIT, _ANY = np.uint8(0xF0), np.uint8(0xFF)


@dataclass(frozen=True)
class Head:
    """What precedes the word `iteration`: its length, where in it times of day are written, the
    one among them that is a whole date, and who printed it."""

    length: int
    times: tuple[Span, ...]
    date: Span
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
        self._forms: dict[tuple[int, int], list[Form]] = {}

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
                rows = rows[fits]
                lines = _matrix(text, start[rows], padded)
                lines[:, length:] = 0
                left += self._same_length(lines, rows, length, batches)
        return batches, np.sort(np.concatenate(left))

    def _same_length(
        self, lines: Bytes, rows: Ints, length: int, batches: list[Batch]
    ) -> Iterator[Ints]:
        """Adds to `batches`; gives the rows that are left."""
        keys = _skeletons(lines)
        order = np.argsort(keys, kind="stable")
        edges = np.flatnonzero(np.diff(keys[order])) + 1
        for group in np.split(order, edges):
            key = (length, int(keys[group[0]]))
            if key not in self._forms and len(self._forms) >= MOST_FORMS:
                yield rows[group]
            else:
                forms = self._forms.setdefault(key, [])
                yield self._alike(forms, lines, rows, group, length, batches)

    def _alike(self, forms: list[Form], lines: Bytes, rows: Ints, group: Ints, *rest: Any) -> Ints:
        """Lines with the same skeleton may still come from several ranks: digits of a head that
        are no time of day must be the same too."""
        length, batches = rest
        unread: list[Ints] = []
        for number in range(MOST_ALIKE):
            if number == len(forms):
                forms.append(self._form(lines[group[0]], length))
            form = forms[number]
            same = ~((lines[group].view(np.uint64) ^ form.template) & form.mask).any(axis=1)
            chosen, group = group[same], group[~same]
            batch = _batch(form, lines, rows, chosen) if len(chosen) else None
            if batch is not None:
                batches.append(batch)
            else:
                unread.append(rows[chosen])
            if not len(group):
                break
        return np.concatenate([*unread, rows[group]])

    def _form(self, line: Bytes, length: int) -> Form:
        found = self._learn(line[:length].tobytes())
        head, shape = found if found else (Head(0, (), (0, 0), 0), None)
        digit = line - np.uint8(48) < 10
        free = np.arange(len(line)) >= head.length
        for first, last in head.times:
            free[first:last] = True
        digit &= free
        mask = np.where(digit, _DIGIT, _ANY) if shape else np.full(len(line), _ANY)
        mask[length:] = 0
        return Form(line.copy().view(np.uint64), mask.view(np.uint64), head, shape)


_FACTORS = np.random.default_rng(0).integers(1, 2**63, _LONGEST_LINE_BYTES, np.int64) * 2 + 1
_KINDS = np.uint64(0xF0F0F0F0F0F0F0F0)


def _skeletons(lines: Bytes) -> npt.NDArray[np.uint64]:
    """A number for each line that is the same for lines which differ in their digits only.

    The upper half of a byte tells a digit from a letter, a blank or a point; what it does not tell
    apart is compared later.
    """
    words = lines.view(np.uint64) & _KINDS
    return np.asarray(words @ _FACTORS[: words.shape[1]].astype(np.uint64), np.uint64)


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
    first, last = head.date
    stamps = np.zeros(len(chosen), "S1")
    if last > first:
        text = lines[chosen, first:last]
        text[text == ord(",")] = ord(".")
        stamps = np.frombuffer(text.tobytes(), f"S{last - first}")
    return Batch(rows[chosen], columns, head.code, stamps)


def _matrix(text: Bytes, at: Ints, length: int) -> Bytes:
    """Row i holds the `length` bytes from `at[i]` on."""
    every = np.ndarray((len(text) - length + 1, length), np.uint8, text, strides=(1, 1))
    return every[at]
