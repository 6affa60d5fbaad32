"""A log that ends within a traceback: a full disk, a killed node, a copy that was not finished."""

from __future__ import annotations

from collections.abc import Iterable

from course_lib.read import prefix
from course_lib.read.files import Source
from course_lib.read.first_causes.candidate_lines import windows
from course_lib.read.first_causes.result import Failure
from course_lib.read.first_causes.tracebacks import own_lines


def cut_off(sources: Iterable[Source]) -> Failure | None:
    """Of the first such log. Only where nothing else tells of a failure: what was raised is lost,
    and often another rank has said it."""
    for source in sources:
        *_, window = windows(source)
        text = window.text
        at = text.rfind(b"Traceback (most")
        if at < 0 or not (own := own_lines(text, at)):
            continue
        start, who = own
        end = text.find(b"\n", start)
        line = text[start : len(text) if end < 0 else end]
        return Failure.of(
            "cut_off",
            rank=source.rank if who.rank is None else who.rank,
            ranks=(),
            node=who.node,
            file=source.name,
            line=window.line + text.count(b"\n", window.begin, start),
            evidence=prefix.without_colours(line).decode("utf-8", "replace").strip(),
        )
    return None
