"""Timetables for a class: lessons, breaks, and what to leave out if time is short.

`lessons/timetables.toml` names the lessons. Each lesson's table gives its minutes.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.lab.errors import LabError
from course_lib.publish.book.site import text_in
from course_lib.publish.building.source import Lesson, LessonError, number_of, read_lesson
from course_lib.publish.slides.slide import minutes_of
from course_lib.publish.translation.localized import of_plans
from course_lib.shipped import SHIPPED
from course_lib.words import ENGLISH, LANGUAGES, _, speaking

FILE = "timetables.toml"
HEADING = re.compile(r"^##+ (.+)$", re.MULTILINE)
OTHER = re.compile(r"(?P<minutes>\d+) (?P<what>\D.*)")


@dataclass(frozen=True)
class Sitting:
    """Lesson or break with its starting time; the end of a day has 0 minutes."""

    begin: str
    minutes: int
    what: str
    lesson: str = ""


@dataclass(frozen=True)
class Timetable:
    name: str
    words: str
    days: tuple[tuple[Sitting, ...], ...]
    # Sentences about what to leave out, in this order.
    late: tuple[str, ...]

    def __str__(self) -> str:
        lines = [self.name.upper(), self.words]
        for number, day in enumerate(self.days, start=1):
            lines += ["", *([_("Day {number}", number=number)] if len(self.days) > 1 else [])]
            for each in day:
                length = _("{minutes} min", minutes=each.minutes)
                lines.append(f"  {each.begin}  {length:>7}  {each.what}")
        lines += ["", _("If time is short, leave out these parts, from the top:")]
        return "\n".join([*lines, *(f"  {cut}" for cut in self.late)])


def read(
    folder: Path, lessons: Iterable[Lesson], say: Callable[[str], str] = str
) -> list[Timetable]:
    """Return the timetables of a folder of lessons; none if it has no such file.

    The lessons may be translated; `say` then translates the texts of the file.
    """
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
        if cut["lesson"] not in taken:
            raise LessonError(f"{FILE}: {plan['name']} has no lesson {cut['lesson']!r} to shorten")
        late.append(
            _(
                "“{section}” of lesson {lesson}: {minutes} minutes",
                section=_section(cut["section"], known[cut["lesson"]]),
                lesson=cut["lesson"],
                minutes=cut["minutes"],
            )
        )
    return Timetable(say(plan["name"]), say(plan["words"]), days, tuple(late))


def _section(name: str, lesson: Lesson) -> str:
    """Return a section's translated heading, found by its position in the English lesson."""
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
    entries.append(Sitting(f"{now // 60:02d}:{now % 60:02d}", 0, _("End")))
    return tuple(entries)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="course timetable",
        description="Prints plans for a class of half a day, one day and five days.",
    )
    parser.add_argument("--language", default=ENGLISH, choices=[ENGLISH, *LANGUAGES])
    language, clone = parser.parse_args(argv).language, SHIPPED
    if not (clone / "lessons").is_dir():
        raise LabError("there is no lessons/ here; `course timetable` works in a clone only")
    with speaking(language):
        lessons = text_in(language, clone).lessons
        plans = read(clone / "lessons", lessons, of_plans(clone, language))
        print("\n\n".join(map(str, plans)))
    return 0
