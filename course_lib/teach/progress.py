"""Progress of each learner: one line per check in the workspace, and a table of them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.lab.workspace import account, find
from course_lib.teach import jsonl
from course_lib.words import _

FILE = Path(".course") / "progress.jsonl"
CHECKED = re.compile(r'\b(?:Checklist|tried)\(\s*"(\d\d[a-z]?\.\d+)"')
BAR_WIDTH = 30


@dataclass(frozen=True)
class Standing:
    exercise: str
    is_solved: bool
    attempts: int
    last_unmet: str


def standings(workspace: Path, learner: str | None = None) -> list[Standing]:
    """Return one row per attempted exercise, sorted by lesson; skip broken lines."""
    learner = learner or account()
    entries = jsonl.entries(Path(workspace) / FILE)
    tried = tries([entry for entry in entries if entry.get("learner") == learner])
    return [
        Standing(name, rows[-1].get("passed") is True, len(rows), str(rows[-1].get("unmet", "")))
        for name, rows in tried.items()
    ]


def tries(entries: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Group a learner's attempts by exercise, sorted by lesson.

    Attempts after the first success do not count.
    """
    tried: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        rows = tried.setdefault(str(entry.get("exercise")), [])
        if not rows or rows[-1].get("passed") is not True:
            rows.append(entry)
    return dict(sorted(tried.items()))


def hints_met(workspace: Path, exercise: str) -> list[str]:
    """Return the mistake of each hint that the learner has met in this exercise."""
    entries = jsonl.entries(Path(workspace) / FILE)
    return [
        str(one.get("mistake"))
        for one in entries
        if (one.get("learner"), one.get("exercise")) == (account(), exercise)
        and one.get("strength")
    ]


def exercises() -> list[str]:
    """Return the numbers of all exercises with a check, without importing the checks."""
    folder = Path(__file__).with_name("checks")
    texts = [file.read_text(encoding="utf-8") for file in folder.glob("lesson*.py")]
    return sorted({number for text in texts for number in CHECKED.findall(text)})


def bar(rows: list[Standing], known: list[str]) -> str:
    """Say how many exercises of the course are solved, as numbers and as a bar."""
    solved = len({row.exercise for row in rows if row.is_solved} & set(known))
    filled = BAR_WIDTH * solved // len(known)
    drawn = "#" * filled + "." * (BAR_WIDTH - filled)
    return _(
        "[{drawn}] {solved} of {known} exercises solved",
        drawn=drawn,
        solved=solved,
        known=len(known),
    )


def table(rows: list[Standing]) -> str:
    """Return a text table of the attempted exercises, and the solved share below it."""
    total = bar(rows, exercises())
    if not rows:
        return _("no exercise checked yet\n{total}", total=total)
    lines = [_("exercise   solved tries  what was missing last")]
    for row in rows:
        missing = "" if row.is_solved else row.last_unmet
        lines.append(
            f"{row.exercise:10} {'yes' if row.is_solved else 'no':6} {row.attempts:5d}  {missing}"
        )
    return "\n".join([*lines, total])


def show() -> None:
    """Print what the learner of this workspace has solved, in notebooks."""
    print(table(standings(find().folder)))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="course progress", description=_("Shows which exercises are solved.")
    )
    parser.add_argument("--workspace", type=Path, help=_("default: the current workspace"))
    parser.add_argument("--learner", help=_("show another learner's progress"))
    options = parser.parse_args(argv)
    workspace = options.workspace or find().folder
    print(table(standings(workspace, options.learner)))
    return 0
