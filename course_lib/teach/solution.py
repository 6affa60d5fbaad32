"""Show the answer to an exercise, from its solution notebook, and the test of a code exercise."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course_lib.lab.workspace import find, programs_folder
from course_lib.shipped import SHIPPED
from course_lib.words import _

# Set for all accounts of a class, whose instructor then opens the solutions of a lesson.
CLASS = "COURSE_CLASS"
COPIES = ("my_notebooks/solutions", "notebooks/solutions")


def solution(exercise: str) -> None:
    """Print the answer to an exercise, such as "02.2"."""
    print(answer(exercise) or why_none(exercise))


def answer(exercise: str) -> str:
    """Return the answer, or "" if this learner does not have it."""
    return next((text for folder in _folders() for text in _answers(folder, exercise)), "")


def why_none(exercise: str) -> str:
    none = _("There is no exercise {exercise}.", exercise=exercise)
    closed = _("Ask your instructor to open this solution, then run !course lessons update.")
    return closed if os.environ.get(CLASS) else none


def test(exercise: str) -> None:
    """Print the test that a trial runs on each rank. Its first line names its exercises."""
    for file in sorted(programs_folder().glob("trials/**/*.py")):
        text = file.read_text(encoding="utf-8")
        if re.match(rf'"""Tests? [^:]*\b{re.escape(exercise)}\b', text):
            print(f"# code/{file.relative_to(programs_folder())}\n{text}")
            return
    print(_("Exercise {exercise} has no test on ranks.", exercise=exercise))


def _folders() -> list[Path]:
    """Return the folders of solutions; in a class, of those that its instructor opened."""
    copies = [find().folder / name for name in COPIES]
    return copies if os.environ.get(CLASS) else [SHIPPED / "solutions"]


def _answers(folder: Path, exercise: str) -> Iterator[str]:
    """Yield the cells of an exercise that differ from those of the learner's notebook."""
    title = re.compile(rf"\*\*[^*]*\b{re.escape(exercise)}\*\*")
    for path in sorted(folder.rglob(f"{exercise.partition('.')[0]}_*.ipynb")):
        empty = {
            cell["id"]: "".join(cell["source"])
            for cell in _cells(SHIPPED / "notebooks" / path.name)
        }
        inside, found = False, [f"# solutions/{path.name}"]
        for cell in _cells(path):
            text, tags = "".join(cell["source"]), cell["metadata"].get("tags", [])
            if cell["cell_type"] == "markdown" and "> **" in text:
                inside = bool(title.search(text))
            elif inside and "exercise" in tags and text != empty[cell["id"]]:
                found.append(text)
        if found[1:]:
            yield "\n\n".join(found)


def _cells(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return cells
