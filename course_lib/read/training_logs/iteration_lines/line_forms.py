"""Forms of iteration lines: which fields they have, behind which bars, and how to read them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from course_lib.read.large_files.eight_bytes import (
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
)
from course_lib.read.training_logs.iteration_lines.names_and_values import Field, Floats, fields_of

ITERATION = b"iteration"
BAR = ord("|")
MOST_FORMS = 200


@dataclass(frozen=True)
class Lines:
    """Some lines of a block, each with the same number of bars; places count in `words`."""

    words: Words
    row: Ints
    bars: Ints

    def only(self, chosen: Flags) -> Lines:
        return Lines(self.words, self.row[chosen], self.bars[chosen])


@dataclass(frozen=True)
class Form:
    """The word `iteration` and the slash after its number stand so far before the bar `first_bar`.
    The fields that follow: behind which bar each begins, how long its name is, the first and last
    word of that. `kinds` says how the numbers are written, from that of the iteration on."""

    word: int
    slash: int
    first_bar: int
    columns: tuple[str, ...]
    factors: Floats
    bar: Ints
    names: tuple[bytes, ...]
    kinds: tuple[Kind, ...]

    @property
    def key(self) -> tuple[object, ...]:
        powers = tuple(kind.scientific for kind in self.kinds)
        return self.word, self.slash, self.first_bar, tuple(self.bar.tolist()), self.names, powers

    @cached_property
    def alike(self) -> list[tuple[Kind, Ints]]:
        """The columns of each kind."""
        columns = {kind: [n for n, k in enumerate(self.kinds) if k == kind] for kind in self.kinds}
        return [(kind, np.array(found, np.int64)) for kind, found in columns.items()]

    @cached_property
    def length(self) -> Ints:
        return np.array([len(name) for name in self.names], np.int64)

    @cached_property
    def ends(self) -> tuple[Words, Words, Words]:
        """First and last word of each name, and their masks."""
        mask = first_bytes(np.minimum(self.length, WORD))
        first, last = ([_word(name[part]) for name in self.names] for part in _PARTS)
        return np.array(first, np.uint64), np.array(last, np.uint64), mask

    def fits(self, lines: Lines) -> Flags:
        """Which lines have this form."""
        words, bar = lines.words, lines.bars[:, self.first_bar]
        same = bar >= self.word
        at = np.where(same, bar - self.word, 0)
        same &= words_byte(words, at + self.word - self.slash) == ord("/")
        same &= word(words, at) == _ITERATION[0]
        same &= word(words, at + 1) == _ITERATION[1]
        name = lines.bars[:, self.bar] + 1
        first, last, mask = self.ends
        same &= ((word(words, name) ^ first) & mask == 0).all(axis=1)
        name = name + np.maximum(self.length - WORD, 0)
        name = np.minimum(name, (len(words) - 2) * WORD)  # of another form, near the block's end
        same &= ((word(words, name) ^ last) & mask == 0).all(axis=1)
        return np.asarray(same)

    def read(self, lines: Lines) -> tuple[Floats, Flags]:
        """The numbers of lines of this form, and in which lines all of them could be read."""
        bar = lines.bars[:, [self.first_bar]]
        slash = bar - self.slash
        begin = np.hstack(
            [bar - self.word + len(ITERATION), slash + 1, lines.bars[:, self.bar] + 1 + self.length]
        )
        end = np.hstack([slash, bar, lines.bars[:, self.bar + 1]])
        values, readable = np.empty(begin.shape), np.ones(len(begin), np.bool_)
        for kind, which in self.alike:
            part, good = numbers(lines.words, begin[:, which].ravel(), end[:, which].ravel(), kind)
            values[:, which] = part.reshape(-1, len(which))
            readable &= good.reshape(-1, len(which)).all(axis=1)
        values[:, 2:] *= self.factors
        return values, readable


_PARTS = slice(0, WORD), slice(-WORD, None)


def _word(text: bytes) -> int:
    return int.from_bytes(text, "little")


_ITERATION = [np.uint64(_word(ITERATION[part])) for part in _PARTS]


def form_of(line: bytes) -> Form | None:
    """None where the line cannot be read by its bars."""
    at = line.find(ITERATION)
    fields = fields_of(line[at:]) if at >= 0 and b"\x1b" not in line[at:] else None
    if fields is None or any(field.column == "global_step" for field in fields):
        return None
    bars = np.flatnonzero(np.frombuffer(line, np.uint8) == BAR)
    slash = line.find(b"/", at)
    first_bar = int(np.searchsorted(bars, slash))
    if first_bar == len(bars) or fields[-1].end + at > bars[-1]:
        return None
    rest = [field for field in fields if field.start + at > bars[first_bar]]
    bar = np.searchsorted(bars, [field.start + at for field in rest]) - 1
    names = [
        line[bars[place] + 1 : field.start + at].rstrip()
        for place, field in zip(bar.tolist(), rest, strict=True)
    ]
    if b"" in names:
        return None
    return Form(
        word=int(bars[first_bar]) - at,
        slash=int(bars[first_bar]) - slash,
        first_bar=first_bar,
        columns=("iteration", "total_iterations", *(field.column for field in rest)),
        factors=np.array([field.factor for field in rest]),
        bar=bar.astype(np.int64),
        names=tuple(names),
        kinds=_kinds(line, at, [*fields[:2], *rest]),
    )


def _kinds(line: bytes, at: int, fields: list[Field]) -> tuple[Kind, ...]:
    texts = (re.split(rb"[|/ ]", line[at + field.start :], maxsplit=1)[0] for field in fields)
    return tuple(map(kind_of, texts))


def remember(form: Form, forms: list[Form]) -> int | None:
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
    if len(forms) >= MOST_FORMS:
        return None
    forms.append(form)
    return len(forms) - 1
