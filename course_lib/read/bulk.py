"""Reads iteration lines all at once, field by field: a field ends at its bar.

Lines of one form have the same head, but for times of day, and the same names of fields. Where each
number begins and ends is found for each line anew, so that it may be of any length. What has no
such form is left to `iteration_lines.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from course_lib.read.fields import Field, Floats
from course_lib.read.scan import places_of
from course_lib.read.words import (
    MARGIN,
    WORD,
    Flags,
    Ints,
    Kind,
    Words,
    first_bytes,
    kind_of,
    numbers,
    word,
    words_byte,
    words_of,
)

Span = tuple[int, int]
ITERATION = b"iteration"
_BAR = ord("|")
_MOST_BARS, _MOST_FORMS, _MOST_FAILURES = 80, 200, 4
_LONGEST_LINE_BYTES = 4000
_LINES_AT_ONCE = 512
"""What is made of them fits a processor's cache."""
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
    """Which fields the lines have: `columns` and `factors`; for those after the head, behind which
    bar (`bar`) each begins, how long its name is, and the first and last word of that. `slash`
    stands between iteration and total. `kinds` says how the numbers are written."""

    template: Words
    mask: Words
    head: Head
    slash: int
    first_bar: int
    columns: tuple[str, ...]
    factors: Floats
    bar: Ints
    length: Ints
    begins: Words
    ends: Words
    masks: Words
    kinds: tuple[Kind, ...]
    key: tuple[object, ...]

    @cached_property
    def alike(self) -> list[tuple[Kind, Ints]]:
        """The columns of each kind."""
        columns = {kind: [n for n, k in enumerate(self.kinds) if k == kind] for kind in self.kinds}
        return [(kind, np.array(found, np.int64)) for kind, found in columns.items()]


@dataclass(frozen=True)
class Batch:
    """Lines of one form; `row` counts the lines that were given to `take`."""

    row: Ints
    columns: dict[str, Floats]
    code: int
    stamps: npt.NDArray[np.bytes_]


@dataclass(frozen=True)
class Lines:
    """Some lines of a block, each with the same number of bars; places count in `words`."""

    words: Words
    row: Ints
    start: Ints
    bars: Ints

    def only(self, chosen: Flags) -> Lines:
        return Lines(self.words, self.row[chosen], self.start[chosen], self.bars[chosen])


class Bulk:
    """`learn` tells head and fields of a line that is like none before."""

    def __init__(self, learn: Callable[[bytes], tuple[Head, list[Field]] | None]) -> None:
        self._learn = learn
        self._forms: dict[int, list[Form]] = {}

    def take(self, block: bytes, start: Ints, end: Ints) -> tuple[list[Batch], Ints]:
        """What could be read, and the numbers of the lines that are left."""
        if not len(start):
            return [], start
        bars = places_of(block, _BAR)
        first, count = np.searchsorted(bars, start), np.searchsorted(bars, end)
        count -= first
        possible = (end - start < _LONGEST_LINE_BYTES) & (count <= _MOST_BARS) & (count > 0)
        possible &= (start >= MARGIN) & (end <= len(block) - MARGIN)
        words = words_of(block)
        batches: list[Batch] = []
        for bars_in_line in np.unique(count[possible]).tolist():
            rows = np.flatnonzero(possible & (count == bars_in_line))
            forms = self._forms.setdefault(bars_in_line, [])
            for piece in range(0, len(rows), _LINES_AT_ONCE):
                row = rows[piece : piece + _LINES_AT_ONCE]
                places = bars[first[row][:, None] + np.arange(bars_in_line)]
                lines = Lines(words, row, start[row], places)
                batches += self._take(block, lines, end, forms)
        left = np.ones(len(start), np.bool_)
        for batch in batches:
            left[batch.row] = False
        return batches, np.flatnonzero(left)

    def _take(self, block: bytes, lines: Lines, end: Ints, forms: list[Form]) -> list[Batch]:
        batches: list[Batch] = []
        tried = failures = 0
        while len(lines.row) and failures < _MOST_FAILURES:
            if tried == len(forms):
                start, stop = int(lines.start[0]), int(end[lines.row[0]])
                form = self._form(block[start:stop])
                place = None if form is None else _add(form, forms)
                if place is None:
                    failures += 1
                    lines = lines.only(np.arange(len(lines.row)) > 0)
                    continue
                tried = place
            like = _like(forms[tried], lines)
            if like.any():
                batch, like[like] = _batch(forms[tried], lines.only(like))
                batches.append(batch)
                lines = lines.only(~like)
            tried += 1
        return batches

    def _form(self, line: bytes) -> Form | None:
        found = self._learn(line)
        if found is None:
            return None
        head, fields = found
        bars = np.flatnonzero(np.frombuffer(line, np.uint8) == _BAR)
        slash = line.find(b"/", head.length)
        first_bar = int(np.searchsorted(bars, slash))
        rest = [field for field in fields if field.start > bars[first_bar] - head.length]
        bar = np.searchsorted(bars, [field.start + head.length for field in rest]) - 1
        names = [
            line[bars[place] + 1 : field.start + head.length].rstrip()
            for place, field in zip(bar.tolist(), rest, strict=True)
        ]
        if b"" in names:
            return None
        template, mask = _template(line, head)
        columns = ("iteration", "total_iterations", *(field.column for field in rest))
        kinds = _kinds(line, [head.length + field.start for field in (*fields[:2], *rest)])
        powers = tuple(kind.scientific for kind in kinds)
        key = (template & mask).tobytes(), slash, tuple(bar.tolist()), tuple(names), powers
        return Form(
            template=template,
            mask=mask,
            head=head,
            slash=slash,
            first_bar=first_bar,
            columns=columns,
            factors=np.array([field.factor for field in rest]),
            bar=bar.astype(np.int64),
            length=np.array([len(name) for name in names], np.int64),
            begins=_words([name[:WORD] for name in names]),
            ends=_words([name[-WORD:] for name in names]),
            masks=first_bytes(np.array([min(len(name), WORD) for name in names], np.int64)),
            kinds=kinds,
            key=key,
        )


def _add(form: Form, forms: list[Form]) -> int | None:
    """Its place among the forms. One that is known but for longer numbers is widened; None if it
    is known as it is, or one too many."""
    for place, other in enumerate(forms):
        if form.key == other.key:
            kinds = tuple(
                Kind(one.scientific, one.long or two.long)
                for one, two in zip(form.kinds, other.kinds, strict=True)
            )
            forms[place] = replace(other, kinds=kinds)
            return place if kinds != other.kinds else None
    if len(forms) >= _MOST_FORMS:
        return None
    forms.append(form)
    return len(forms) - 1


def _kinds(line: bytes, starts: list[int]) -> tuple[Kind, ...]:
    """How the numbers are written that begin there in the line."""
    texts = (re.split(rb"[|/ ]", line[start:], maxsplit=1)[0] for start in starts)
    return tuple(map(kind_of, texts))


def _words(texts: list[bytes]) -> Words:
    return np.array([int.from_bytes(text, "little") for text in texts], np.uint64)


def _template(line: bytes, head: Head) -> tuple[Words, Words]:
    """The head as words, and the bits in which all heads of the form agree."""
    length = head.length + len(ITERATION)
    padding = bytes(-length % WORD)
    text = np.frombuffer(line[:length] + padding, np.uint8)
    mask = np.full(len(text), _ANY)
    for first, last in head.times:
        digit = text[first:last] - np.uint8(ord("0")) < 10
        mask[first:last][digit] = _DIGIT
    mask[length:] = 0
    return text.view(np.uint64), mask.view(np.uint64)


def _like(form: Form, lines: Lines) -> Flags:
    """Which lines have this form."""
    words, count = lines.words, lines.start
    same = words_byte(words, count + form.slash) == ord("/")
    for number, (template, mask) in enumerate(zip(form.template, form.mask, strict=True)):
        same &= (word(words, count + WORD * number) ^ template) & mask == 0
    name = lines.bars[:, form.bar] + 1
    same &= ((word(words, name) ^ form.begins) & form.masks == 0).all(axis=1)
    last = np.maximum(form.length - WORD, 0)
    same &= ((word(words, name + last) ^ form.ends) & form.masks == 0).all(axis=1)
    return np.asarray(same)


def _batch(form: Form, lines: Lines) -> tuple[Batch, Flags]:
    """Of lines of this form, those of which every number could be read; and which these are."""
    head, bars = form.head, lines.bars
    slash = lines.start[:, None] + form.slash
    begin = [lines.start[:, None] + head.length + len(ITERATION), slash + 1]
    end = [slash, bars[:, [form.first_bar]]]
    begin = np.hstack([*begin, bars[:, form.bar] + 1 + form.length])
    end = np.hstack([*end, bars[:, form.bar + 1]])
    values, readable = np.empty(begin.shape), np.ones(len(begin), np.bool_)
    for kind, which in form.alike:
        part, good = numbers(lines.words, begin[:, which].ravel(), end[:, which].ravel(), kind)
        values[:, which] = part.reshape(-1, len(which))
        readable &= good.reshape(-1, len(which)).all(axis=1)
    values[:, 2:] *= form.factors
    if not readable.all():
        lines, values = lines.only(readable), values[readable]
    columns = {name: values[:, place] for place, name in enumerate(form.columns)}
    return Batch(lines.row, columns, head.code, _stamps(head.date, lines)), readable


def _stamps(date: Span, lines: Lines) -> npt.NDArray[np.bytes_]:
    """The dates as text, with a point before parts of seconds."""
    first, last = date
    if last == first or not len(lines.row):
        return np.zeros(len(lines.row), "S1")
    text = lines.words.view(np.uint8)
    every = np.ndarray((len(text) - last, last - first), np.uint8, text, strides=(1, 1))
    dates = every[lines.start + first]
    dates[dates == ord(",")] = ord(".")
    return np.frombuffer(dates.tobytes(), f"S{last - first}")
