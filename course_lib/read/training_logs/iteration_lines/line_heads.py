"""What precedes the word `iteration`, of many lines at once: who printed them, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from course_lib.read.large_files.eight_bytes import WORD, Flags, Ints, Words, word

Span = tuple[int, int]
Codes = npt.NDArray[np.int32]
STAMP = "S26"
_MOST_HEADS = 1000
_DIGIT, _ANY = np.uint8(0xF0), np.uint8(0xFF)


@dataclass(frozen=True)
class Head:
    """Where times of day are written, the one among them that is a whole date, who printed it."""

    times: tuple[Span, ...]
    date: Span
    code: int


@dataclass(frozen=True)
class _Known:
    head: Head
    template: Words
    mask: Words

    def like(self, words: Words, start: Ints) -> Flags:
        same = np.ones(len(start), np.bool_)
        for number, (template, mask) in enumerate(zip(self.template, self.mask, strict=True)):
            same &= (word(words, start + WORD * number) ^ template) & mask == 0
        return same


class Heads:
    """Two heads are the same if they differ in times of day only; `learn` is asked about others."""

    def __init__(self, learn: Callable[[bytes], Head]) -> None:
        self._learn = learn
        self._known: dict[int, list[_Known]] = {}
        self._count = 0

    def of(self, words: Words, start: Ints, end: Ints) -> tuple[Codes, npt.NDArray[np.bytes_]]:
        """The code of each head (-1: one too many), and its date as text."""
        codes, stamps = np.full(len(start), -1, np.int32), np.zeros(len(start), STAMP)
        lengths = end - start
        for length in np.unique(lengths).tolist():
            left = np.flatnonzero(lengths == length)
            known = self._known.setdefault(length, [])
            tried = 0
            while len(left):
                if tried == len(known):
                    if self._count >= _MOST_HEADS:
                        break
                    first = int(start[left[0]])
                    known.append(self._new(words.view(np.uint8)[first : first + length]))
                same = known[tried].like(words, start[left])
                chosen, left = left[same], left[~same]
                head = known[tried].head
                codes[chosen] = head.code
                if head.date[1] > head.date[0] and len(chosen):
                    stamps[chosen] = _dates(words, start[chosen], head.date)
                tried += 1
        return codes, stamps

    def _new(self, letters: npt.NDArray[np.uint8]) -> _Known:
        """The head as words, and the bits in which all heads like it agree."""
        self._count += 1
        head = self._learn(letters.tobytes())
        text = np.zeros(-(-len(letters) // WORD) * WORD, np.uint8)
        text[: len(letters)] = letters
        mask = np.full(len(text), _ANY)
        for first, last in head.times:
            mask[first:last][text[first:last] - np.uint8(ord("0")) < 10] = _DIGIT
        mask[len(letters) :] = 0
        return _Known(head, text.view(np.uint64), mask.view(np.uint64))


def _dates(words: Words, start: Ints, date: Span) -> Any:
    """As text, with a point before parts of seconds."""
    first, last = date
    text = words.view(np.uint8)
    every = np.ndarray((len(text) - last, last - first), np.uint8, text, strides=(1, 1))
    dates = every[start + first]
    dates[dates == ord(",")] = ord(".")
    return np.frombuffer(dates.tobytes(), f"S{last - first}")
