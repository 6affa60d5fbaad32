"""`course class`: overview of a class, its folder, its grades and its open solutions."""

from __future__ import annotations

import argparse
import stat
import time
from pathlib import Path

from course_lib.classroom import folder, opening, tables
from course_lib.classroom.folder import SETTING
from course_lib.classroom.snapshot import read
from course_lib.lab import workspace
from course_lib.lab.commands.common import parser
from course_lib.lab.errors import LabError
from course_lib.publish.building.source import number_of
from course_lib.publish.run import chosen
from course_lib.shipped import SHIPPED
from course_lib.words import _

SOLUTIONS = SHIPPED / "solutions"
NONE = "none"


def main(argv: list[str]) -> int:
    """Run `course class`, for instructors."""
    options = parser(
        "class",
        "Shows which lesson each learner is in, what is solved, and who is stuck. Shows only\n"
        "learners who agreed to share their progress.",
        "`course class make FOLDER --group GROUP` makes a folder in which a class can share.",
    )
    actions = ["show", "make", "solutions"]
    options.add_argument("action", nargs="?", choices=actions, default="show")
    options.add_argument("folder", nargs="?", type=Path, help=f"default: the folder in {SETTING}")
    options.add_argument("--csv", type=Path, metavar="FILE", help="write a table; - prints it")
    options.add_argument("--form", choices=["exercises", "grades", "lms"], default="exercises",
                         help="csv: a row for each exercise, grade or learner")  # fmt: skip
    options.add_argument("--group", default="", help="make: group of the instructors")
    options.add_argument("--members", help="make, as root: the group's members, as in ada,bob")
    options.add_argument("--open", nargs="+", metavar="LESSON",
                         help="solutions: lessons to open: 00 03, all or none")  # fmt: skip
    given = options.parse_args(argv)
    place = given.folder or folder.place()
    if place is None:
        raise LabError(f"name the folder of the class, or set {SETTING} to it; {folder.MAKE}")
    if given.action == "make":
        return _make(place, given)
    if given.action == "solutions":
        return _solutions(place, given)
    if given.csv:
        return _write_csv(place, given.csv, given.form)
    print(tables.text(read(place), place, time.time()))
    return 0


def _make(place: Path, given: argparse.Namespace) -> int:
    if given.members is not None and not given.group:
        raise LabError("--members needs --group: the group that shall have these members")
    members = [name for name in (given.members or "").split(",") if name]
    made = folder.make(place, given.group, members if given.members is not None else None)
    opening.make(place)
    who = made.words
    print(_("{place}: learners may share there, and {words} can read it", place=place, words=who))
    print(_("now set {setting} to this folder for the whole class", setting=SETTING))
    return 0


def _solutions(place: Path, given: argparse.Namespace) -> int:
    if given.open is not None:
        words = [word for word in given.open if word not in (opening.ALL, NONE)]
        numbers = [number_of(path) for path in chosen(SOLUTIONS, words)] if words else given.open
        opening.keep(place, numbers)
    print(opening.words(place) or "no instructor has opened or closed solutions")
    if SOLUTIONS.is_dir() and SOLUTIONS.stat().st_mode & stat.S_IXOTH:
        print(_("(this is not a lock: other accounts may read {solutions})", solutions=SOLUTIONS))
    return 0


def _write_csv(place: Path, file: Path, form: str) -> int:
    written = tables.as_csv(read(place), form)
    if str(file) == "-":
        print(written, end="")
    else:
        workspace.write_atomically(file, written)
    return 0
