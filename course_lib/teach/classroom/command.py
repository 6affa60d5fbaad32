"""`course class`: the class at a glance; `course share`: what a learner lets it see."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from course_lib.lab import clusters, workspace
from course_lib.lab.commands.common import parser
from course_lib.lab.errors import LabError
from course_lib.teach.building.source import number_of
from course_lib.teach.classroom import folder, opening, sharing, tables
from course_lib.teach.classroom.class_queue import ClassQueue
from course_lib.teach.classroom.folder import SETTING
from course_lib.teach.classroom.roster import Reader
from course_lib.teach.run import chosen
from course_lib.words import told

SOLUTIONS = workspace.PACKAGE.parent / "solutions"
REFRESH_S = 2.0
CLEAR = "\x1b[H\x1b[2J"


def main(argv: list[str]) -> int:
    """For instructors."""
    options = parser(
        "class",
        "Shows who of the class is in which lesson, what is solved, and who is stuck: of those\n"
        "who agreed to share it.",
        "`course class make FOLDER --group GROUP` makes a folder in which a class can share.",
    )
    actions = ["show", "make", "solutions"]
    options.add_argument("action", nargs="?", choices=actions, default="show")
    options.add_argument("folder", nargs="?", type=Path, help=f"default: what {SETTING} names")
    options.add_argument("--watch", action="store_true", help="draw it anew every two seconds")
    options.add_argument("--csv", type=Path, metavar="FILE", help="write a table; - prints it")
    options.add_argument("--site", help="whose queue is shown; default: as for a lab")
    options.add_argument("--group", default="", help="make: whose members are the instructors")
    options.add_argument("--members", help="make, as root: exactly these accounts, as in ada,bob")
    options.add_argument("--at", help="solutions: from when on learners are brought them: now, "
                         "never, 15:30, '2026-11-24 15:30'")  # fmt: skip
    options.add_argument("--lessons", nargs="+", default=[], help="solutions: of these; all")
    given = options.parse_args(argv)
    place = given.folder or folder.place()
    if place is None:
        raise LabError(f"name the folder of the class, or set {SETTING} to it; {folder.MAKE}")
    if given.action == "make":
        return _make(place, given)
    if given.action == "solutions":
        return _solutions(place, given)
    if given.csv:
        return _write_csv(place, given.csv)
    return _show(place, given)


def _make(place: Path, given: argparse.Namespace) -> int:
    if given.members is not None and not given.group:
        raise LabError("--members needs --group: the group that shall have these members")
    members = [name for name in (given.members or "").split(",") if name]
    made = folder.make(place, given.group, members if given.members is not None else None)
    opening.make(place)
    print(told(f"{place}: learners may share there, and {made.words} can read it"))
    print(told(f"now set {SETTING} to it for the whole class"))
    return 0


def _solutions(place: Path, given: argparse.Namespace) -> int:
    if given.at is not None:
        numbers = [number_of(path) for path in chosen(SOLUTIONS, given.lessons)]
        wanted = numbers if given.lessons else []
        opening.keep(place, opening.current(place).but(wanted, opening.moment(given.at)))
    print(told(opening.current(place).words or "solutions: all are open"))
    if opening.can_be_read_by_all(SOLUTIONS):
        print(told(f"(a courtesy, no lock: every account can read {SOLUTIONS})"))
    return 0


def _show(place: Path, given: argparse.Namespace) -> int:
    site = clusters.choose(workspace.find(), given.site).site
    clusters.put_commands_on_path(site)
    reader, queue = Reader(place), ClassQueue(site)
    while True:
        roster = reader.read()
        below = [queue.text(roster.uids), told(opening.current(place).words)]
        drawn = tables.text(roster, "\n".join(filter(None, below)), time.time())
        if not given.watch:
            print(drawn)
            return 0
        print(f"{CLEAR if sys.stdout.isatty() else ''}{time.strftime('%H:%M:%S')}\n{drawn}\n")
        sys.stdout.flush()
        time.sleep(REFRESH_S)


def _write_csv(place: Path, file: Path) -> int:
    written = tables.as_csv(Reader(place).read())
    if str(file) == "-":
        print(written, end="")
    else:
        workspace.write_atomically(file, written)
    return 0


def share(argv: list[str]) -> int:
    """For learners."""
    options = parser("share", "Shares your progress with the instructors of the class, or not.")
    options.add_argument("answer", nargs="?", choices=["yes", "no"], help="default: say how it is")
    given = options.parse_args(argv)
    sharing.share_progress({"yes": True, "no": False}.get(given.answer))
    return 0
