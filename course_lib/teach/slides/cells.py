"""What a code cell gives to a slide, if anything."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from course_lib import words
from course_lib.teach.slides import faces, results

FIGURE = re.compile(r"^\s*(?:\w+ = )?show\.(?!guess\b|moving\b)\w+", re.MULTILINE)
LISTING = re.compile(r"^lab\.(code|script)\(", re.MULTILINE)
OF_A_JOB = re.compile(r"[\w-]+: (?P<words>.*)")
SUBMITTED = ("{name}: submitted to {name2} as job {job_id}",)
COSTS = (
    "at most {text} = {device_hours} device-hours",
    "no devices, at most {time_limit_minutes} min",
)
"""What the lab says of every job, behind its name."""
MOST_LINES, MOST_PRINTED, MOST_ROWS, MOST_COLUMNS = 30, 16, 9, 8


@dataclass(frozen=True)
class Face:
    """The kind of a slide, and what stands below its title."""

    kind: str
    body: str
    is_measured: bool = False


def drawn(source: str, outputs: list[Any]) -> list[Face]:
    """A slide for each picture. One that a run has to give is said to be missing."""
    if stories := results.stories(source):
        return [Face("moving", faces.moving(results.frames(story))) for story in stories]
    if still := results.figures(outputs):
        is_shown = "show.guess(" not in source
        return [Face("figure", faces.figure(one), True) for one in still if is_shown]
    if FIGURE.search(source) and not outputs:
        return [Face("missing", faces.missing())]
    return []


def told(
    source: str, outputs: list[Any], wishes: Mapping[str, Any] | None, has_picture: bool
) -> list[Face]:
    """Code, a command with its answer, a table; large ones only where they have a sentence: there
    `wishes` may say with which line a listing begins, and how many `lines` are enough."""
    listing, printed = results.listing(outputs), results.printed(outputs)
    rows = results.table(outputs)
    is_asked_for = wishes is not None
    most, begins = (wishes or {}).get("lines", MOST_LINES), (wishes or {}).get("begins", "")
    if listing and (is_asked_for or len(listing.splitlines()) <= MOST_LINES):
        return [Face("code", faces.code(listing, most, begins))]
    is_short = 0 < len(printed.splitlines()) <= MOST_PRINTED
    if source.startswith("!") and (is_asked_for or is_short):
        return [Face("terminal", faces.terminal(source, printed), bool(printed))]
    if rows and (is_asked_for or (_is_small(rows) and not has_picture)):
        return [Face("table", faces.table(rows), True)]
    if not outputs and LISTING.search(source):
        return [Face("missing", faces.missing())]
    if is_asked_for:
        lines = [line for line in printed.split("\n") if not _says_it_was_submitted(line)]
        below = faces.terminal("", "\n".join(lines)) if any(lines) else ""
        return [Face("code", faces.code(source, most=MOST_LINES) + below, bool(printed))]
    return []


def _says_it_was_submitted(line: str) -> bool:
    of_a_job = OF_A_JOB.match(line)
    if not of_a_job:
        return False
    costs = any(words.heard(each).match(of_a_job["words"]) for each in COSTS)
    return costs or any(words.heard(each).match(line) for each in SUBMITTED)


def _is_small(rows: list[list[str]]) -> bool:
    return len(rows) <= MOST_ROWS and max(map(len, rows)) <= MOST_COLUMNS


def claimed_in(source: str) -> list[str]:
    """The words of claims that nobody has evaluated, as they are told where somebody does."""
    lines = [line for line in source.split("\n") if not line.startswith(("!", "%"))]
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError:
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    named = [call for call in calls if getattr(call.func, "id", "") == "claim"]
    texts = [call.args[0] for call in named]
    return [words.told(str(text.value)) for text in texts if isinstance(text, ast.Constant)]
