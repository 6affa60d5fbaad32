"""Plans for a class: which lessons, which breaks, what to leave out when time runs short.

`lessons/timetables.toml` names the lessons; their minutes are those at the top of each.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import PACKAGE
from course_lib.teach.source import Lesson, LessonError, lessons_in, number_of, read_lesson

FILE = "timetables.toml"
MINUTES = re.compile(r"^\| Minutes \| (\d+)", re.MULTILINE)
OTHER = re.compile(r"(?P<minutes>\d+) (?P<what>\D.*)")


@dataclass(frozen=True)
class Sitting:
    begin: str
    """As a clock shows it."""
    minutes: int
    what: str
    lesson: str = ""


@dataclass(frozen=True)
class Cut:
    lesson: str
    section: str
    minutes: int

    def __str__(self) -> str:
        return f"“{self.section}” of lesson {self.lesson}: {self.minutes} minutes"


@dataclass(frozen=True)
class Timetable:
    name: str
    words: str
    days: tuple[tuple[Sitting, ...], ...]
    late: tuple[Cut, ...]

    def __str__(self) -> str:
        lines = [self.name.upper(), self.words]
        for number, day in enumerate(self.days, start=1):
            lines += ["", *([f"Day {number}"] if len(self.days) > 1 else [])]
            lines += [f"  {each.begin}  {each.minutes:3d} min  {each.what}" for each in day]
        lines += ["", "When time runs short, leave out, from the top:"]
        return "\n".join([*lines, *(f"  {cut}" for cut in self.late)])


def minutes_of(lesson: Lesson) -> int:
    found = MINUTES.search(lesson.cells[0].text)
    if not found:
        raise LessonError(f"{lesson.path}: its table does not say how many minutes it takes")
    return int(found[1])


def read(folder: Path, lessons: Iterable[Lesson]) -> list[Timetable]:
    """Those of a folder of lessons; none where it has no such file."""
    file = folder / FILE
    if not file.is_file():
        return []
    known = {number_of(lesson.path): lesson for lesson in lessons}
    told = tomllib.loads(file.read_text(encoding="utf-8"))
    return [_timetable(plan, known) for plan in told["timetable"]]


def _timetable(plan: dict[str, Any], known: dict[str, Lesson]) -> Timetable:
    days = tuple(_day(day, known) for day in plan["days"])
    taken = {entry.lesson for day in days for entry in day}
    for cut in plan["late"]:
        number, section = cut["lesson"], cut["section"]
        if number not in taken:
            raise LessonError(f"{FILE}: {plan['name']} has no lesson {number!r} to shorten")
        headings = [cell.text for cell in known[number].cells if cell.kind == "markdown"]
        if not any(re.search(rf"^##+ {re.escape(section)}$", t, re.M) for t in headings):
            raise LessonError(f"{FILE}: lesson {number} has no section {section!r}")
    return Timetable(plan["name"], plan["words"], days, tuple(Cut(**cut) for cut in plan["late"]))


def _day(day: dict[str, Any], known: dict[str, Lesson]) -> tuple[Sitting, ...]:
    hours, minutes = map(int, day["begin"].split(":"))
    now = 60 * hours + minutes
    entries = []
    for item in day["plan"]:
        begin = f"{now // 60:02d}:{now % 60:02d}"
        if item in known:
            entry = Sitting(begin, minutes_of(known[item]), known[item].title, item)
        elif found := OTHER.fullmatch(item):
            entry = Sitting(begin, int(found["minutes"]), found["what"])
        else:
            raise LessonError(f"{FILE}: {item!r} is neither a lesson nor so many minutes of what")
        entries.append(entry)
        now += entry.minutes
    entries.append(Sitting(f"{now // 60:02d}:{now % 60:02d}", 0, "End"))
    return tuple(entries)


def as_html(plan: Timetable) -> str:
    made = [f"<h3>{escape(plan.name)}</h3><p>{escape(plan.words)}</p>"]
    for number, day in enumerate(plan.days, start=1):
        title = f"<h4>Day {number}</h4>" if len(plan.days) > 1 else ""
        made.append(f"{title}<table>{''.join(map(_row, day))}</table>")
    cuts = "".join(f"<li>{escape(str(cut))}</li>" for cut in plan.late)
    return f"{''.join(made)}<p>When time runs short, leave out, from the top:</p><ol>{cuts}</ol>"


def _row(entry: Sitting) -> str:
    minutes = f"{entry.minutes} min" if entry.minutes else ""
    return f"<tr><td>{entry.begin}</td><td>{minutes}</td><td>{escape(entry.what)}</td></tr>"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="course timetable",
        description="prints plans for a class: half a day, a day, three days",
    )
    parser.parse_args(argv)
    folder = PACKAGE.parent / "lessons"
    if not folder.is_dir():
        raise LabError("there is no lessons/ here; `course timetable` works in a clone only")
    plans = read(folder, [read_lesson(path) for path in lessons_in(folder, "py")])
    print("\n\n".join(map(str, plans)))
    return 0
