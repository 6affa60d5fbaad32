"""How people deny and doubt in other languages: `[wording]` of each one's `diagnoses.toml`.

All of them count in every notebook: who reads in English may write in the own language.
In Korean the "not" stands behind what it denies, so a pattern for English, which reaches forward
from it, cannot be had by translation.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from typing import Any

from course_lib.words import LANGUAGES
from course_lib.words.choice import folder

FILE = "diagnoses.toml"
NEVER = r"(?!)"


@dataclass(frozen=True)
class Wording:
    """`ends`: of a clause, at which a denial ends. `denies`: what stands behind the denied.
    `meant`: with one of these in the clause the denial is the fault itself: "not the same shape".
    `several`: between causes of which one is to be chosen. `in_english`: pattern and word, of which
    the answers for rank and node are made up."""

    ends: re.Pattern[str]
    denies: re.Pattern[str]
    meant: re.Pattern[str]
    several: re.Pattern[str]
    in_english: tuple[tuple[re.Pattern[str], str], ...]

    def without_denied(self, text: str) -> str:
        clauses = self.ends.sub("\\g<0>\n", text).split("\n")
        return "".join(map(self._left_of, clauses))

    def _left_of(self, clause: str) -> str:
        kept = ""
        while found := self.denies.search(clause):
            denied, clause = clause[: found.end()], clause[found.end() :]
            kept += denied if self.meant.search(denied) else " "
        return kept + clause

    def translated(self, answer: str) -> str:
        for pattern, english in self.in_english:
            answer = pattern.sub(english, answer)
        return answer


@cache
def tables() -> tuple[dict[str, dict[str, Any]], ...]:
    """Of each language that has them: those of its kinds, and its `wording`."""
    files = [folder() / code / FILE for code in LANGUAGES]
    return tuple(tomllib.loads(one.read_text(encoding="utf-8")) for one in files if one.is_file())


@cache
def wording() -> Wording:
    every = [table.get("wording", {}) for table in tables()]
    patterns = {
        name: _any([pattern for one in every for pattern in one.get(name, [])])
        for name in ("ends", "denies", "meant", "several")
    }
    in_english = [pair for one in every for pair in one.get("in_english", {}).items()]
    return Wording(
        in_english=tuple((re.compile(pattern), word) for pattern, word in in_english), **patterns
    )


def _any(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns) or NEVER, re.IGNORECASE)
