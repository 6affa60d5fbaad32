"""How people deny and doubt in the language spoken here: `[wording]` of its `diagnoses.toml`.

In Korean the "not" stands behind what it denies, so a pattern for English, which reaches forward
from it, cannot be had by translation.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from typing import Any

from course_lib.words import language
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


def wording() -> Wording:
    return _wording(language())


@cache
def tables(code: str) -> dict[str, dict[str, Any]]:
    path = folder() / code / FILE
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


@cache
def _wording(code: str) -> Wording:
    own = tables(code).get("wording", {})
    several = {name: _any(own.get(name, [])) for name in ("ends", "denies", "meant", "several")}
    in_english = [(re.compile(one), word) for one, word in own.get("in_english", {}).items()]
    return Wording(in_english=tuple(in_english), **several)


def _any(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns) or NEVER, re.IGNORECASE)
