"""The kinds of faults with what a learner calls them, in English and in every other language.

Words of another language are patterns, too: `locale/<language>/diagnoses.toml`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from course_lib.teach.diagnoses.elsewhere import ELSEWHERE
from course_lib.teach.diagnoses.kind import Kind
from course_lib.teach.diagnoses.kinds import KINDS
from course_lib.teach.diagnoses.spoken import tables

PARTS = ("words", "cure", "unlike")


@cache
def known() -> dict[str, Kind]:
    return {
        name: _with(kind, [table.get(name, {}) for table in tables()])
        for name, kind in KINDS.items()
    }


@cache
def thinkable() -> dict[str, Kind]:
    """Those of the blind cases, and what else learners take for the cause."""
    return known() | ELSEWHERE


def _with(kind: Kind, others: list[dict[str, str]]) -> Kind:
    joined = {
        part: "|".join([getattr(kind, part), *(own[part] for own in others if part in own)])
        for part in PARTS
    }
    return replace(kind, **joined)
