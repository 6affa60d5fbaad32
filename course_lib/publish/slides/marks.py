"""Words that mark the purpose of a paragraph or a gap in a lesson, in the current language."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from course_lib.words import N_, _, label, language

PREDICT, EXPLAIN, EXERCISE, FURTHER = (
    N_("Predict"),
    N_("Explain"),
    N_("Exercise"),
    N_("Going further"),
)
HOME, END = (N_("To take home"), N_("Cleaning up"))
# Names of columns and rows in lesson tables, which the code writes in English.
HEADS = {
    N_("cluster"), N_("device"), N_("inside (GB/s)"), N_("between (GB/s)"),
    N_("inside ÷ between"), N_("rank"), N_("first sample of rank"), N_("messages"),
    N_("megabytes"), N_("planned peak (MiB)"), N_("float16, moved by (%)"),
    N_("bfloat16, moved by (%)"), N_("gradients sent"), N_("ms per step"), N_("last loss"),
    N_("copies differ by"), N_("iteration, published (s)"), N_("HFU, counted here (%)"),
    N_("MFU, counted here (%)"), N_("parameter"), N_("rule"), N_("fixed"), N_("free"),
    N_("accepted (s)"), N_("tokens to report"), N_("layers"), N_("hidden"), N_("heads"),
    N_("sequence"), N_("precision"), N_("micro batch"), N_("global batch"), N_("seconds"),
    N_("share of the iteration (%)"), N_("straggler"), N_("time to report (s)"), N_("how"),
    N_("interval (min)"), N_("kept (%)"), N_("saving (%)"), N_("repeating (%)"),
    N_("synchronous"), N_("asynchronous"), N_("what"), N_("goal"), N_("score"), N_("budget"),
    N_("learning"),
}  # fmt: skip
CHOICES = re.compile(r"^.*= \.\.\..*?#\s*(.+(?:\n#.+)*)$", re.MULTILINE)


@dataclass(frozen=True)
class Marks:
    predict: str
    explain: str
    # `**Exercise 03.1** — ` or `**Going further** — `. An untranslated exercise is in English.
    exercise: re.Pattern[str]
    home: str
    end: str


def column_name(name: str) -> str:
    """Translate a heading of a table that a lesson shows."""
    return _(name) if name in HEADS else label(name)


def marks() -> Marks:
    return _marks_in(language())


@cache
def _marks_in(_code: str) -> Marks:
    exercise, further = (re.escape(str(words)) for words in (EXERCISE, FURTHER))
    return Marks(
        f"**{PREDICT}.**",
        f"**{EXPLAIN}.**",
        re.compile(rf"\*\*(?:(?:{exercise}|Exercise) (?P<number>\w+\.\d+)|{further})\*\*[\s—–-]*"),
        str(HOME),
        str(END),
    )


def guesses_in(gaps: str) -> list[str]:
    """Return the guesses that the comments beside gaps suggest, without "in place of the dots".

    A comment may have two lines.
    """
    told = [re.sub(r"\n#\s*", " ", words) for words in CHOICES.findall(gaps)]
    return [words.removesuffix(" in place of the dots").rstrip(",") for words in told]
