"""What each learner has solved: one line per check in the workspace, a table from it."""

from __future__ import annotations

import argparse
import re
import time
from dataclasses import dataclass
from pathlib import Path

from course_lib.lab.plain_files import account
from course_lib.lab.workspace import find
from course_lib.teach import kept_lines
from course_lib.words import told

FILE = Path(".course") / "progress.jsonl"
CHECKED = re.compile(r'Checklist\(\s*"(\d\d[a-z]?\.\d+)"')
BAR_WIDTH = 30


@dataclass(frozen=True)
class Standing:
    exercise: str
    is_solved: bool
    attempts: int
    last_unmet: str


def record(workspace: Path, exercise: str, *, passed: bool, unmet: str) -> None:
    """Appends one line. A workspace that cannot be written must not stop a check."""
    entry = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "learner": account(),
        "exercise": exercise,
        "passed": passed,
        "unmet": unmet,
    }
    kept_lines.append(Path(workspace) / FILE, entry, "progress")


def standings(workspace: Path, learner: str | None = None) -> list[Standing]:
    """One row per exercise tried, in the order of the lessons; broken lines are passed over."""
    learner = learner or account()
    tried: dict[str, Standing] = {}
    for entry in kept_lines.entries(Path(workspace) / FILE):
        if entry.get("learner") != learner:
            continue
        exercise = str(entry.get("exercise"))
        before = tried.get(exercise, Standing(exercise, False, 0, ""))
        tried[exercise] = Standing(
            exercise,
            is_solved=before.is_solved or entry.get("passed") is True,
            attempts=before.attempts + 1,
            last_unmet=str(entry.get("unmet", "")),
        )
    return [tried[name] for name in sorted(tried)]


def exercises() -> list[str]:
    """The numbers of all exercises that have a check, without importing the checks."""
    folder = Path(__file__).with_name("checks")
    texts = [file.read_text(encoding="utf-8") for file in folder.glob("lesson*.py")]
    return sorted({number for text in texts for number in CHECKED.findall(text)})


def bar(rows: list[Standing], known: list[str]) -> str:
    """How many of the course's exercises are solved, in figures and as a bar."""
    solved = len({row.exercise for row in rows if row.is_solved} & set(known))
    filled = BAR_WIDTH * solved // len(known)
    drawn = "#" * filled + "." * (BAR_WIDTH - filled)
    return f"[{drawn}] {solved} of {len(known)} exercises solved"


def table(rows: list[Standing]) -> str:
    """Of the exercises tried, and below it how far this is of all."""
    total = bar(rows, exercises())
    if not rows:
        return f"no exercise checked yet\n{total}"
    lines = ["exercise   solved tries  what was missing last"]
    for row in rows:
        missing = "" if row.is_solved else told(row.last_unmet)
        lines.append(
            f"{row.exercise:10} {'yes' if row.is_solved else 'no':6} {row.attempts:5d}  {missing}"
        )
    return "\n".join([*lines, total])


def show() -> None:
    """Prints what the learner of this workspace has solved; for notebooks."""
    print(told(table(standings(find().folder))))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="course progress", description="exercises solved so far")
    parser.add_argument("--workspace", type=Path, help="default: the one that you stand in")
    parser.add_argument("--learner", help="another learner than you")
    options = parser.parse_args(argv)
    workspace = options.workspace or find().folder
    print(told(table(standings(workspace, options.learner))))
    return 0
