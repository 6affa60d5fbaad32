"""Plans for a class: which lessons, which breaks, what to leave out when time runs short.

`lessons/timetables.toml` names the lessons; their minutes are those at the top of each.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import PACKAGE
from course_lib.teach.book.site import text_in
from course_lib.teach.building.source import Lesson, LessonError, number_of, read_lesson
from course_lib.teach.slides.plans import END, Cut, Sitting, Timetable
from course_lib.teach.slides.slide import head_of
from course_lib.teach.translation.localized import of_plans
from course_lib.words import ENGLISH, LANGUAGES, speaking, told

FILE = "timetables.toml"
HEADING = re.compile(r"^##+ (.+)$", re.MULTILINE)
OTHER = re.compile(r"(?P<minutes>\d+) (?P<what>\D.*)")


def minutes_of(lesson: Lesson) -> int:
    if minutes := head_of(lesson).minutes:
        return minutes
    raise LessonError(f"{lesson.path}: its table does not say how many minutes it takes")


def read(
    folder: Path, lessons: Iterable[Lesson], say: Callable[[str], str] = str
) -> list[Timetable]:
    """Those of a folder of lessons; none where it has no such file. Of lessons in another language
    too, with `say` for the words of the file."""
    file = folder / FILE
    if not file.is_file():
        return []
    known = {number_of(lesson.path): lesson for lesson in lessons}
    plans = tomllib.loads(file.read_text(encoding="utf-8"))["timetable"]
    return [_timetable(plan, known, say) for plan in plans]


def _timetable(
    plan: dict[str, Any], known: dict[str, Lesson], say: Callable[[str], str]
) -> Timetable:
    days = tuple(_day(day, known, say) for day in plan["days"])
    taken = {entry.lesson for day in days for entry in day}
    late = []
    for cut in plan["late"]:
        number = cut["lesson"]
        if number not in taken:
            raise LessonError(f"{FILE}: {plan['name']} has no lesson {number!r} to shorten")
        late.append(Cut(number, _section(cut["section"], known[number]), cut["minutes"]))
    return Timetable(say(plan["name"]), say(plan["words"]), days, tuple(late))


def _section(name: str, lesson: Lesson) -> str:
    """As the heading says it in the language of the lesson: in the same place of the same cell."""
    english = read_lesson(lesson.path)
    for cell, shown in zip(english.cells, lesson.cells, strict=True):
        if cell.kind == "markdown" and name in (headings := HEADING.findall(cell.text)):
            return str(HEADING.findall(shown.text)[headings.index(name)])
    raise LessonError(f"{FILE}: lesson {number_of(lesson.path)} has no section {name!r}")


def _day(
    day: dict[str, Any], known: dict[str, Lesson], say: Callable[[str], str]
) -> tuple[Sitting, ...]:
    hours, minutes = map(int, day["begin"].split(":"))
    now = 60 * hours + minutes
    entries = []
    for item in day["plan"]:
        begin = f"{now // 60:02d}:{now % 60:02d}"
        if item in known:
            entry = Sitting(begin, minutes_of(known[item]), known[item].title, item)
        elif found := OTHER.fullmatch(item):
            entry = Sitting(begin, int(found["minutes"]), say(found["what"]))
        else:
            raise LessonError(f"{FILE}: {item!r} is neither a lesson nor so many minutes of what")
        entries.append(entry)
        now += entry.minutes
    entries.append(Sitting(f"{now // 60:02d}:{now % 60:02d}", 0, told(END)))
    return tuple(entries)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="course timetable",
        description="prints plans for a class: half a day, a day, three days",
    )
    parser.add_argument("--language", default=ENGLISH, choices=[ENGLISH, *LANGUAGES])
    language, clone = parser.parse_args(argv).language, PACKAGE.parent
    if not (clone / "lessons").is_dir():
        raise LabError("there is no lessons/ here; `course timetable` works in a clone only")
    with speaking(language):
        lessons = text_in(language, clone).lessons
        plans = read(clone / "lessons", lessons, of_plans(clone, language))
        print("\n\n".join(map(str, plans)))
    return 0
