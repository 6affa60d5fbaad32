"""Plans for a class, as they are printed and shown beside the slides."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from course_lib.words import spoken, told

LATE = "When time runs short, leave out, from the top:"
(END,) = spoken("End")


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
        return told(f"“{self.section}” of lesson {self.lesson}: {self.minutes} minutes")


@dataclass(frozen=True)
class Timetable:
    name: str
    words: str
    days: tuple[tuple[Sitting, ...], ...]
    late: tuple[Cut, ...]

    def __str__(self) -> str:
        lines = [self.name.upper(), self.words]
        for number, day in enumerate(self.days, start=1):
            lines += ["", *([told(f"Day {number}")] if len(self.days) > 1 else [])]
            lines += [f"  {each.begin}  {_length(each):>7}  {each.what}" for each in day]
        lines += ["", told(LATE)]
        return "\n".join([*lines, *(f"  {cut}" for cut in self.late)])


def as_html(plan: Timetable) -> str:
    made = [f"<h3>{escape(plan.name)}</h3><p>{escape(plan.words)}</p>"]
    for number, day in enumerate(plan.days, start=1):
        title = f"<h4>{told(f'Day {number}')}</h4>" if len(plan.days) > 1 else ""
        made.append(f"{title}<table>{''.join(map(_row, day))}</table>")
    cuts = "".join(f"<li>{escape(str(cut))}</li>" for cut in plan.late)
    return f"{''.join(made)}<p>{told(LATE)}</p><ol>{cuts}</ol>"


def _length(entry: Sitting) -> str:
    return told(f"{entry.minutes} min")


def _row(entry: Sitting) -> str:
    minutes = _length(entry) if entry.minutes else ""
    return f"<tr><td>{entry.begin}</td><td>{minutes}</td><td>{escape(entry.what)}</td></tr>"
