"""What a code cell gives to a slide, if anything."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from course_lib import words
from course_lib.teach.slides import faces, results
from course_lib.teach.slides.results import Measured

FIGURE = re.compile(r"^\s*(?:\w+ = )?show\.(?!guess\b|moving\b)\w+", re.MULTILINE)
LISTING = re.compile(r"^lab\.(code|script)\(", re.MULTILINE)
OF_A_JOB = re.compile(r"[\w-]+: (?P<words>.*)")
SUBMITTED = (
    "{name}: submitted to {name2} as job {job_id}",
    "{name}: job {job_id}: {words}",
)
COSTS = (
    "at most {text} = {device_hours} device-hours",
    "no devices, at most {time_limit_minutes} min",
)
"""What the lab says of every job, behind its name."""
MOST_COMMANDS = 3
MOST_LINES, MOST_PRINTED, MOST_ROWS, MOST_COLUMNS = 30, 16, 9, 8


@dataclass(frozen=True)
class Face:
    """The kind of a slide, and what stands below its title."""

    kind: str
    body: str
    is_measured: bool = False
    in_words: str = ""


def drawn(source: str, outputs: list[Any]) -> list[Face]:
    """A slide for each picture. What a run has to give is said to be missing."""
    if stories := results.stories(source):
        return [Face("moving", faces.moving(results.frames(story))) for story in stories]
    if still := results.figures(outputs):
        is_shown = "show.guess(" not in source
        return [Face("figure", faces.figure(one), True, one.alt) for one in still if is_shown]
    if not outputs and (FIGURE.search(source) or LISTING.search(source)):
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
    if results.are_refused(outputs):
        return _without_answer(source) if is_asked_for else []
    is_short = 0 < len(printed.splitlines()) <= MOST_PRINTED
    if source.startswith("!") and (is_asked_for or is_short):
        return [Face("terminal", faces.terminal(source, printed), bool(printed))]
    if rows and (is_asked_for or (_is_small(rows) and not has_picture)):
        return [Face("table", faces.table(rows), True)]
    if is_asked_for:
        lines = [line for line in printed.split("\n") if not _says_it_was_submitted(line)]
        below = faces.terminal("", "\n".join(lines)) if any(lines) else ""
        return [Face("code", faces.code(source, most=MOST_LINES) + below, bool(printed))]
    return []


def _without_answer(source: str) -> list[Face]:
    """A script is worth showing all the same, a command is not."""
    is_script = len(source.splitlines()) > MOST_COMMANDS
    return [Face("code", faces.code(source, MOST_LINES))] if is_script else []


def _says_it_was_submitted(line: str) -> bool:
    of_a_job = OF_A_JOB.match(line)
    if not of_a_job:
        return False
    costs = any(words.heard(each).match(of_a_job["words"]) for each in COSTS)
    return costs or any(words.heard(each).match(line) for each in SUBMITTED)


def _is_small(rows: list[list[str]]) -> bool:
    return len(rows) <= MOST_ROWS and max(map(len, rows)) <= MOST_COLUMNS


def claimed_in(source: str) -> list[Measured]:
    """Claims that nobody has evaluated, in the words in which they are told where somebody does."""
    lines = [line for line in source.split("\n") if not line.startswith(("!", "%"))]
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError:
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    named = [call for call in calls if getattr(call.func, "id", "") == "claim"]
    return [
        Measured(words.told(str(call.args[0].value)), is_count=_has_bounds(call))
        for call in named
        if isinstance(call.args[0], ast.Constant)
    ]


def _has_bounds(claim: ast.Call) -> bool:
    """Without any it is claimed to be true."""
    return any(word.arg in ("least", "most") for word in claim.keywords)
