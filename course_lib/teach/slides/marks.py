"""The words by which a lesson says what a paragraph is for, in the language that is spoken, and
what it says beside a gap."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from course_lib.words import language, spoken, told

PREDICT, EXPLAIN, EXERCISE, FURTHER = spoken("Predict", "Explain", "Exercise", "Going further")
HOME, END = spoken("To take home", "Cleaning up")
HEADS = spoken(
    "cluster", "device", "inside (GB/s)", "between (GB/s)", "inside ÷ between",
    "rank", "first sample of rank", "messages", "megabytes", "planned peak (MiB)",
    "float16, moved by (%)", "bfloat16, moved by (%)",
    "gradients sent", "ms per step", "last loss", "copies differ by",
    "iteration, published (s)", "HFU, counted here (%)", "MFU, counted here (%)",
    "parameter", "rule", "fixed", "free", "accepted (s)", "tokens to report",
    "layers", "hidden", "heads", "sequence", "precision", "micro batch", "global batch",
    "seconds", "share of the iteration (%)", "straggler", "time to report (s)", "how",
    "interval (min)", "kept (%)", "saving (%)", "repeating (%)",
    "standing still", "written behind", "what", "goal", "score", "budget", "learning",
)  # fmt: skip
"""Of columns and rows in the tables of lessons, whose code is the same in every language."""
CHOICES = re.compile(r"^.*= \.\.\..*?#\s*(.+(?:\n#.+)*)$", re.MULTILINE)
POINTING = "If you, You, Above, Below, Left, Here"
"""With which sentences begin that speak of what stands beside them, or to who reads alone."""


@dataclass(frozen=True)
class Marks:
    predict: str
    explain: str
    exercise: re.Pattern[str]
    """`**Exercise 03.1** — `, with its number; without one it leads further."""
    home: str
    end: str
    pointing: tuple[str, ...]

    def are(self, bold: str) -> bool:
        return bold in (self.predict, self.explain) or bool(self.exercise.match(bold))

    def points(self, sentence: str) -> bool:
        rests = (sentence[len(word) :] for word in self.pointing if sentence.startswith(word))
        return any(not rest[:1].islower() for rest in rests)


def marks() -> Marks:
    return _marks_in(language())


@cache
def _marks_in(code: str) -> Marks:
    exercise, further = (re.escape(told(words, code)) for words in (EXERCISE, FURTHER))
    return Marks(
        f"**{told(PREDICT, code)}.**",
        f"**{told(EXPLAIN, code)}.**",
        re.compile(rf"\*\*(?:{exercise} (?P<number>\w+\.\d+)|{further})\*\*\s*[—–-]*\s*"),
        told(HOME, code),
        told(END, code),
        tuple(told(POINTING, code).split(", ")),
    )


def guesses_in(gaps: str) -> list[str]:
    """What the comments say of the guess that belongs into each gap; some have two lines. On a
    slide there are no dots."""
    told = [re.sub(r"\n#\s*", " ", words) for words in CHOICES.findall(gaps)]
    return [words.removesuffix(" in place of the dots").rstrip(",") for words in told]
