"""Ranges of flag values. argparse calls each like a type, with the word from the command line. The
result is a value or `Wrong` instead of an exception, so that all problems are reported at once."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Wrong:
    """Word outside a flag's range, with the rule that it breaks."""

    word: str
    rule: str

    def sentence(self, flag: str) -> str:
        plain = self.word.strip() and self.word.isprintable()
        return f"{flag} {self.word if plain else repr(self.word)}: give {self.rule}"


class Takes:
    """Base class of all ranges. A switch has no value to check."""

    def __call__(self, word: str) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Whole(Takes):
    """Whole number in a range, both ends included."""

    least: int
    most: int

    @property
    def rule(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def __call__(self, word: str) -> int | Wrong:
        try:
            value = int(word)
        except ValueError:  # 1e3 and 2.0 too, as the intention is unclear
            return Wrong(word, self.rule)
        return value if self.least <= value <= self.most else Wrong(word, self.rule)


@dataclass(frozen=True)
class Real(Takes):
    """Number in a range; `above` and `below` are excluded ends. NaN is never in the range."""

    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    @property
    def rule(self) -> str:
        ends = (
            ("of at least", self.least), ("above", self.above),
            ("of at most", self.most), ("below", self.below),
        )  # fmt: skip
        said = [f"{how} {end:g}" for how, end in ends if math.isfinite(end)]
        return f"a number {' and '.join(said)}"

    def __call__(self, word: str) -> float | Wrong:
        try:
            value = float(word)
        except ValueError:
            return Wrong(word, self.rule)
        fits = self.least <= value <= self.most and self.above < value < self.below
        return value if fits else Wrong(word, self.rule)


@dataclass(frozen=True)
class OneOf(Takes):
    """Value that is one of several words."""

    words: tuple[str, ...]

    @property
    def rule(self) -> str:
        return f"one of {', '.join(self.words)}"

    def __call__(self, word: str) -> str | Wrong:
        return word if word in self.words else Wrong(word, self.rule)


@dataclass(frozen=True)
class Text(Takes):
    """Text that is not empty: an unset variable of a script would give an empty text."""

    rule: str = "a name that is not empty"

    def __call__(self, word: str) -> str | Wrong:
        return word if word.strip() and "\0" not in word else Wrong(word, self.rule)


@dataclass(frozen=True)
class Shares(Takes):
    """Value of --split: up to three numbers. The first must not be 0."""

    rule: str = "up to three shares such as 969,30,1: none negative, the first not 0"

    def __call__(self, word: str) -> str | Wrong:
        try:
            parts = [float(part) for part in word.replace("/", ",").split(",")]
        except ValueError:
            return Wrong(word, self.rule)
        fits = len(parts) <= 3 and all(0 <= part < math.inf for part in parts) and parts[0] > 0
        return word if fits and sum(parts) < math.inf else Wrong(word, self.rule)


@dataclass(frozen=True)
class Layers(Takes):
    """Selection of layers: every n-th from the first, or a list of 0 and 1."""

    rule: str = "a whole number, or 0 and 1 for the layers in order, such as [0]*1+[1]*3"

    def __call__(self, word: str) -> str | Wrong:
        bare = word[1:-1] if word[:1] + word[-1:] == "()" else word
        fits = LAYER_LIST.fullmatch(bare) or (word.isdecimal() and 0 < int(word) <= MOST)
        return word if fits else Wrong(word, self.rule)


def pattern_of(word: str, layers: int) -> list[int]:
    """Return 0 or 1 for each layer. A list in `word` may have a wrong length."""
    if word.isdecimal():
        return [int(number % int(word) == 0) for number in range(layers)]
    parts = LAYER_PART.findall(word)
    each = (numbers.split(",") * int(times or 1) for numbers, times in parts)
    return [int(digit) for some in each for digit in some]


LAYER_PART = re.compile(r"\[([01](?:,[01])*)\](?:\*(\d{1,5}))?")
LAYER_LIST = re.compile(rf"{LAYER_PART.pattern}(?:\+{LAYER_PART.pattern})*")


@dataclass(frozen=True)
class Several(Takes):
    """One or more values."""

    of: Any

    def __call__(self, word: str) -> Any:
        value = self.of(word)
        if isinstance(value, Wrong) and not isinstance(self.of, Text):
            return Wrong(word, f"{value.rule} for each, with spaces between them")
        return value


class Switch(Takes):
    """Flag without a value."""


MOST = 10**9
# A size of the model or the layout; a count; an index from 0.
SIZE, COUNT, NUMBER = Whole(1, 2**27), Whole(1, MOST), Whole(0, MOST)
TEXT, ON = Text(), Switch()
