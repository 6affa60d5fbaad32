"""What the value of a flag may be. Each is called with the word of the command line, as argparse
calls a type, and answers with a value, or with `Wrong`, so that all mistakes are told at once and
not the first alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

LONGEST_SHOWN = 100


@dataclass(frozen=True)
class Wrong:
    """A word that is not among what a flag may be."""

    word: str
    rule: str

    def told(self, flag: str) -> str:
        word = self.word if self.word.strip() else repr(self.word)
        return f"{flag} {shortened(word)}: give {self.rule}"


def shortened(word: str) -> str:
    """The rest of the screen belongs to what is wrong with it."""
    return word if len(word) <= LONGEST_SHOWN else f"{word[:LONGEST_SHOWN]}… ({len(word)} letters)"


class Takes:
    """What all of them are. A switch is the one that is never asked."""

    def __call__(self, word: str) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Whole(Takes):
    """A whole number, both ends included."""

    least: int
    most: int

    @property
    def rule(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def __call__(self, word: str) -> int | Wrong:
        try:
            value = int(word)
        except ValueError:  # 1e3 and 2.0 as well: whoever writes them may mean something else
            return Wrong(word, self.rule)
        return value if self.least <= value <= self.most else Wrong(word, self.rule)


@dataclass(frozen=True)
class Real(Takes):
    """A number; `above` and `below` are ends that it must not reach. nan lies nowhere."""

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
    """One of these words."""

    words: tuple[str, ...]

    @property
    def rule(self) -> str:
        return f"one of {', '.join(self.words)}"

    def __call__(self, word: str) -> str | Wrong:
        return word if word in self.words else Wrong(word, self.rule)


@dataclass(frozen=True)
class Text(Takes):
    """Any text but an empty one: such as a variable of a script that was never set."""

    rule: str = "a name that is not empty"

    def __call__(self, word: str) -> str | Wrong:
        return word if word.strip() and "\0" not in word else Wrong(word, self.rule)


@dataclass(frozen=True)
class Shares(Takes):
    """--split: up to three numbers, of which one at least is not 0."""

    rule: str = "up to three shares such as 969,30,1: none negative, the first not 0"

    def __call__(self, word: str) -> str | Wrong:
        try:
            parts = [float(part) for part in word.replace("/", ",").split(",")]
        except ValueError:
            return Wrong(word, self.rule)
        fits = len(parts) <= 3 and all(0 <= part < math.inf for part in parts) and parts[0] > 0
        return word if fits and sum(parts) < math.inf else Wrong(word, self.rule)


@dataclass(frozen=True)
class Several(Takes):
    """One value or more."""

    of: Any

    def __call__(self, word: str) -> Any:
        value = self.of(word)
        if isinstance(value, Wrong) and not isinstance(self.of, Text):
            return Wrong(word, f"{value.rule} for each, with spaces between them")
        return value


class Switch(Takes):
    """A flag without a value."""


MOST = 10**9
SIZE, COUNT, NUMBER = Whole(1, 2**27), Whole(1, MOST), Whole(0, MOST)
"""A size of the model or the layout; how many; which one, from 0."""
TEXT, ON = Text(), Switch()
