"""The kinds of faults with what a learner calls them, in English and in the language spoken here.

Words of another language are patterns, too: `locale/<language>/diagnoses.toml`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from course_lib.teach.diagnoses.kind import Kind
from course_lib.teach.diagnoses.kinds import KINDS
from course_lib.teach.diagnoses.spoken import tables
from course_lib.words import language

PARTS = ("words", "cure", "unlike")


def known() -> dict[str, Kind]:
    return _known(language())


@cache
def _known(code: str) -> dict[str, Kind]:
    own = tables(code)
    return {name: _with(kind, own.get(name, {})) for name, kind in KINDS.items()}


def _with(kind: Kind, own: dict[str, str]) -> Kind:
    more = {part: f"{getattr(kind, part)}|{own[part]}" for part in PARTS if part in own}
    return replace(kind, **more)  # type: ignore[arg-type]
