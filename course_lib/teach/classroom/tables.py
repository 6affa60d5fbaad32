"""Rows of the instructor's tables: by learner, and by exercise."""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from io import StringIO
from typing import Any

from course_lib.lab.runs.tables import plain
from course_lib.teach.classroom.roster import Member, Roster
from course_lib.teach.classroom.snapshot import Snapshot, known_exercises
from course_lib.words import told

STUCK_MINUTES, AWAY_MINUTES = 10, 30
LEARNER_COLUMNS = ["learner", "lesson", "solved", "here", "tries", "stuck", "hint met most", "seen"]
EXERCISE_COLUMNS = ["exercise", "tried by", "solved by", "tries", "stuck now", "hint met most"]
CSV_COLUMNS = ["learner", "lesson", "exercise", "solved", "tries", "hint", "times_met",
               "stuck_minutes", "seen_minutes"]  # fmt: skip
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def stuck_minutes(shared: Snapshot, now_unix_s: float) -> float:
    """Since the first of the misses in a row; 0 for who is not, or has not been seen for long."""
    if not (shared.stuck_on and shared.stuck_unix_s):
        return 0.0
    if minutes_since(shared.active_unix_s, now_unix_s) > AWAY_MINUTES:
        return 0.0
    return minutes_since(shared.stuck_unix_s, now_unix_s)


def is_stuck(shared: Snapshot, now_unix_s: float) -> bool:
    return stuck_minutes(shared, now_unix_s) > STUCK_MINUTES


def minutes_since(unix_s: float, now_unix_s: float) -> float:
    return max(0.0, now_unix_s - unix_s) / 60


def learner_rows(roster: Roster, now_unix_s: float) -> list[dict[str, Any]]:
    """Who is stuck stands above, the longest first."""

    def order(member: Member) -> tuple[float, str]:
        stuck = is_stuck(member.shared, now_unix_s)
        return (-stuck_minutes(member.shared, now_unix_s) if stuck else 0.0, member.account)

    return [_learner_row(one, now_unix_s) for one in sorted(roster.members, key=order)]


def _learner_row(member: Member, now_unix_s: float) -> dict[str, Any]:
    shared = member.shared
    here = [name for name in known_exercises() if lesson_of(name) == shared.lesson]
    solved = {name for name, one in shared.exercises.items() if one.is_solved}
    stuck = stuck_minutes(shared, now_unix_s)
    return {
        "learner": member.account,
        "lesson": shared.lesson or "-",
        "solved": len(solved),
        "here": f"{len(solved & set(here))} of {len(here)}" if here else "-",
        "tries": sum(one.tries for one in shared.exercises.values()),
        "stuck": f"{stuck:.0f} min on {shared.stuck_on}" if stuck >= 1 else "",
        "hint met most": told(_hint(shared)),
        "seen": _ago(shared.active_unix_s, now_unix_s),
        "is_stuck": is_stuck(shared, now_unix_s),
    }


def lesson_of(exercise: str) -> str:
    return exercise.partition(".")[0]


def _hint(shared: Snapshot) -> str:
    """Of the exercise that the learner is stuck on, else of any."""
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
    """Those that somebody has tried, in the order of the lessons."""
    rows = []
    for name in sorted({name for one in roster.members for name in one.shared.exercises}):
        tried = [m.shared.exercises[name] for m in roster.members if name in m.shared.exercises]
        hints: Counter[str] = Counter()
        for one in tried:
            if one.hint:
                hints[one.hint] += max(1, one.times_met)
        stuck = [
            one
            for one in roster.members
            if one.shared.stuck_on == name and is_stuck(one.shared, now_unix_s)
        ]
        rows.append(
            {
                "exercise": name,
                "tried by": len(tried),
                "solved by": sum(one.is_solved for one in tried),
                "tries": sum(one.tries for one in tried),
                "stuck now": len(stuck),
                "hint met most": told(hints.most_common(1)[0][0]) if hints else "",
            }
        )
    return rows


def words_below(roster: Roster) -> list[str]:
    """What else lies in the folder, and whose it is."""
    return [
        f"{count} files of {account} in the class folder are no progress, and were passed over"
        for account, count in roster.strange.items()
    ]


def summary(roster: Roster, now_unix_s: float) -> str:
    count = len(roster.members)
    if not count:
        return "nobody shares progress here yet (a line in lesson 00 asks each learner)"
    stuck = sum(is_stuck(one.shared, now_unix_s) for one in roster.members)
    learners = "1 learner shares" if count == 1 else f"{count} learners share"
    return f"{learners} their progress; {stuck} stuck for more than {STUCK_MINUTES} minutes"


def text(roster: Roster, queue: str, now_unix_s: float) -> str:
    parts = [told(summary(roster, now_unix_s))]
    if rows := learner_rows(roster, now_unix_s):
        parts.append(plain(LEARNER_COLUMNS, rows))
    if exercises := exercise_rows(roster, now_unix_s):
        parts.append(plain(EXERCISE_COLUMNS, exercises))
    return "\n\n".join([*parts, *filter(None, [queue]), *map(told, words_below(roster))])


def as_csv(roster: Roster, now_unix_s: float | None = None) -> str:
    """One row for each learner and exercise; for one who has tried nothing a row without."""
    now, out = now_unix_s or time.time(), StringIO()
    writer = csv.DictWriter(out, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_for_a_spreadsheet(row) for row in _csv_rows(roster, now))
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
            yield {
                **common, "exercise": name, "solved": "yes" if one.is_solved else "no",
                "tries": one.tries, "hint": one.hint, "times_met": one.times_met,
                "stuck_minutes": round(stuck),
            }  # fmt: skip
        if not shared.exercises:
            yield common


def _for_a_spreadsheet(row: Mapping[str, Any]) -> dict[str, Any]:
    """A text that a spreadsheet would take for a formula is marked as a text."""
    return {
        name: f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
        for name, value in row.items()
    }
