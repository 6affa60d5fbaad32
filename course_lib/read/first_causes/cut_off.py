"""A log that ends within a traceback: a full disk, a killed node, a copy that was not finished."""

from __future__ import annotations

from course_lib.read import prefix
from course_lib.read.files import Source
from course_lib.read.first_causes.candidate_lines import Window
from course_lib.read.first_causes.result import Failure
from course_lib.read.first_causes.tracebacks import unended


def cut_off(source: Source, last: Window) -> Failure | None:
    """Of the end of a log. It counts only where nothing else tells of a failure: what was raised is
    lost, and often another rank has said it."""
    found = unended(last.text)
    if found is None:
        return None
    start, who = found
    line, _, _ = last.text[start:].partition(b"\n")
    return Failure.of(
        "cut_off",
        rank=source.rank if who.rank is None else who.rank,
        ranks=(),
        node=who.node,
        file=source.name,
        line=last.line + last.text.count(b"\n", last.begin, start),
        evidence=prefix.without_colours(line).decode("utf-8", "replace").strip(),
    )
