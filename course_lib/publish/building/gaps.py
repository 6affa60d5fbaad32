"""Answers in a cell of a lesson's source, and the gaps that replace them for learners.

An answer stands between `### BEGIN SOLUTION` and `### END SOLUTION`. Its lines that begin with
`### GAP ` replace it in the learner's notebook. Without them, the learner gets `...`.
"""

from __future__ import annotations

import re
from itertools import groupby

from course_lib.publish.building.source import LessonError

BEGIN = "### BEGIN SOLUTION"
END = "### END SOLUTION"
GAP = "### GAP"
DEFAULT_GAP = "...  # your answer"


def answered(text: str, where: str) -> str:
    """Return the cell with its answers but without the marks."""
    return "\n".join(line for line, _ in _marked(text, where) if not _is_gap(line))


def with_gaps(text: str, where: str) -> str:
    """Return the cell with gaps for the learner."""
    kept: list[str] = []
    for is_answer, run in groupby(_marked(text, where), key=lambda marked: marked[1]):
        lines = [line for line, _ in run]
        kept += _gap_for(lines) if is_answer else lines
    return "\n".join(kept)


def _gap_for(answer: list[str]) -> list[str]:
    told = [re.sub(rf"^(\s*){GAP} ?", r"\1", line) for line in answer if _is_gap(line)]
    indent = re.match(r"\s*", answer[0])
    return told or [(indent[0] if indent else "") + DEFAULT_GAP]


def _is_gap(line: str) -> bool:
    return line.lstrip().startswith(GAP)


def _marked(text: str, where: str) -> list[tuple[str, bool]]:
    """Yield each line except marks, and whether the line is part of an answer."""
    inside = False
    lines = []
    for line in text.split("\n"):
        mark = line.strip()
        if mark in (BEGIN, END):
            if inside == (mark == BEGIN):
                raise LessonError(f"{where}: {mark!r} where the other mark was due")
            inside = mark == BEGIN
        else:
            lines.append((line, inside))
    if inside:
        raise LessonError(f"{where}: {BEGIN!r} without {END!r}")
    return lines
