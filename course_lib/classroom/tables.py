"""Rows of the instructor's tables, by learner and by exercise."""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any

from course_lib.classroom import opening
from course_lib.classroom.roster import Member, Roster
from course_lib.classroom.snapshot import Snapshot, known_exercises
from course_lib.lab.runs.tables import plain
from course_lib.words import _

STUCK_MINUTES, AWAY_MINUTES = 10, 30
LEARNER_COLUMNS = ["learner", "lesson", "solved", "here", "tries", "stuck", "hint met most", "seen"]
EXERCISE_COLUMNS = ["exercise", "tried by", "solved by", "tries", "stuck now", "hint met most"]
CSV_COLUMNS = ["learner", "lesson", "exercise", "solved", "tries", "hint", "times_met",
               "stuck_minutes", "seen_minutes"]  # fmt: skip
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def minutes_since(unix_s: float, now_unix_s: float) -> float:
    return max(0.0, now_unix_s - unix_s) / 60


def stuck_minutes(shared: Snapshot, now_unix_s: float) -> float:
    """Return the minutes since a learner got stuck; 0 if the learner is not stuck or has left."""
    has_left = minutes_since(shared.active_unix_s, now_unix_s) > AWAY_MINUTES
    if has_left or not (shared.stuck_on and shared.stuck_unix_s):
        return 0.0
    return minutes_since(shared.stuck_unix_s, now_unix_s)


def is_stuck(shared: Snapshot, now_unix_s: float) -> bool:
    return stuck_minutes(shared, now_unix_s) > STUCK_MINUTES


def learner_rows(roster: Roster, now_unix_s: float) -> list[dict[str, Any]]:
    """Return the learners, longest stuck first, then the others by name."""

    def order(member: Member) -> float:
        minutes = stuck_minutes(member.shared, now_unix_s)
        return -minutes if minutes > STUCK_MINUTES else 0.0

    return [_learner_row(one, now_unix_s) for one in sorted(roster.members, key=order)]


def _learner_row(member: Member, now_unix_s: float) -> dict[str, Any]:
    shared = member.shared
    here = {name for name in known_exercises() if name.partition(".")[0] == shared.lesson}
    solved = {name for name, one in shared.exercises.items() if one.is_solved}
    stuck = stuck_minutes(shared, now_unix_s)
    return {
        "learner": member.account,
        "lesson": shared.lesson or "-",
        "solved": len(solved),
        "here": f"{len(solved & here)} of {len(here)}" if here else "-",
        "tries": sum(one.tries for one in shared.exercises.values()),
        "stuck": f"{stuck:.0f} min on {shared.stuck_on}" if stuck >= 1 else "",
        "hint met most": _hint(shared),
        "seen": _ago(shared.active_unix_s, now_unix_s),
        "is_stuck": stuck > STUCK_MINUTES,
    }


def _hint(shared: Snapshot) -> str:
    """Return the hint of the exercise that the learner is stuck on, else the most frequent hint."""
    if shared.stuck_on in shared.exercises:
        return shared.exercises[shared.stuck_on].hint
    met = [(one.times_met, one.hint) for one in shared.exercises.values() if one.hint]
    return max(met, default=(0, ""))[1]


def _ago(unix_s: float, now_unix_s: float) -> str:
    if not unix_s:
        return "-"
    minutes = minutes_since(unix_s, now_unix_s)
    if minutes < 1:
        return "now"
    return f"{minutes:.0f} min ago" if minutes < 120 else f"{minutes / 60:.0f} h ago"


def exercise_rows(roster: Roster, now_unix_s: float) -> list[dict[str, Any]]:
    """Return the rows of all attempted exercises, in the order of the lessons."""
    rows = []
    for name in sorted({name for one in roster.members for name in one.shared.exercises}):
        tried = [m.shared.exercises[name] for m in roster.members if name in m.shared.exercises]
        hints: Counter[str] = Counter()
        for one in tried:
            if one.hint:
                hints[one.hint] += max(1, one.times_met)
        stuck = sum(
            one.shared.stuck_on == name and is_stuck(one.shared, now_unix_s)
            for one in roster.members
        )
        rows.append(
            {
                "exercise": name,
                "tried by": len(tried),
                "solved by": sum(one.is_solved for one in tried),
                "tries": sum(one.tries for one in tried),
                "stuck now": stuck,
                "hint met most": hints.most_common(1)[0][0] if hints else "",
                "is_stuck": stuck > 0,
            }
        )
    return rows


def words_below(roster: Roster, place: Path) -> list[str]:
    """Say which solutions are open, and how many files were skipped."""
    passed_over = _(
        "{count} files in the class folder contain no progress and were skipped",
        count=roster.passed_over,
    )
    return list(filter(None, [opening.words(place), passed_over if roster.passed_over else ""]))


def summary(roster: Roster, now_unix_s: float) -> str:
    count = len(roster.members)
    if not count:
        return "nobody shares progress here yet (a line in lesson 00 asks each learner)"
    stuck = sum(is_stuck(one.shared, now_unix_s) for one in roster.members)
    learners = "1 learner shares" if count == 1 else f"{count} learners share"
    return f"{learners} their progress; {stuck} stuck for more than {STUCK_MINUTES} minutes"


def text(roster: Roster, place: Path, now_unix_s: float) -> str:
    parts = [summary(roster, now_unix_s)]
    if rows := learner_rows(roster, now_unix_s):
        parts.append(plain(LEARNER_COLUMNS, rows))
    if exercises := exercise_rows(roster, now_unix_s):
        parts.append(plain(EXERCISE_COLUMNS, exercises))
    return "\n\n".join([*parts, *words_below(roster, place)])


def as_csv(roster: Roster, now_unix_s: float | None = None) -> str:
    """Return CSV with one row per learner and exercise, or one row if a learner tried none."""
    out = StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_csv_rows(roster, now_unix_s or time.time()))
    return out.getvalue()


def _csv_rows(roster: Roster, now_unix_s: float) -> Iterable[dict[str, Any]]:
    for member in roster.members:
        shared, seen = member.shared, member.shared.active_unix_s
        common = {
            "learner": member.account,
            "lesson": shared.lesson,
            "seen_minutes": round(minutes_since(seen, now_unix_s)) if seen else "",
        }
        for name, one in sorted(shared.exercises.items()):
            stuck = stuck_minutes(shared, now_unix_s) if name == shared.stuck_on else 0.0
            # A leading quote keeps spreadsheets from reading the text as a formula.
            hint = f"'{one.hint}" if one.hint.startswith(FORMULA) else one.hint
            yield {
                **common, "exercise": name, "solved": "yes" if one.is_solved else "no",
                "tries": one.tries, "hint": hint, "times_met": one.times_met,
                "stuck_minutes": round(stuck),
            }  # fmt: skip
        if not shared.exercises:
            yield common
