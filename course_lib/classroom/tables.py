"""Rows of the instructor's tables, by learner and by exercise."""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from course_lib.classroom import opening
from course_lib.classroom.snapshot import (
    Exercise,
    Guess,
    Member,
    Roster,
    Snapshot,
    known_exercises,
)
from course_lib.lab.runs.tables import plain
from course_lib.words import N_, _, label

STUCK_MINUTES, AWAY_MINUTES = 10, 30
# Keys of the rows. The class page translates them into the headings.
LEARNER_COLUMNS = [
    N_("learner"), N_("asks for help"), N_("lesson"), N_("solved"), N_("here"), N_("tries"),
    N_("stuck"), N_("last hint"), N_("seen"),
]  # fmt: skip
EXERCISE_COLUMNS = [
    N_("exercise"), N_("tried by"), N_("solved by"), N_("tries"), N_("stuck now"),
    N_("hint met most"),
]  # fmt: skip
GUESS_COLUMNS = [N_("guess"), N_("learners"), N_("measured"), N_("names")]
TRY_COLUMNS = [N_("exercise"), N_("tried at"), N_("what is missing")]
CSV_COLUMNS = ["learner", "lesson", "exercise", "solved", "tries", "hint", "stuck_minutes",
               "seen_minutes"]  # fmt: skip
# As `nbgrader export` names them.
GRADE_COLUMNS = ["student_id", "assignment", "score", "max_score"]
# Guesses with more values than this are grouped by their size.
MOST_BARS = 8
FORMULA = ("=", "+", "-", "@", "\t", "\r")
Table = tuple[str, Sequence[str], list[dict[str, Any]]]


def minutes_since(unix_s: float, now_unix_s: float) -> float:
    return max(0.0, now_unix_s - unix_s) / 60


def waiting_minutes(shared: Snapshot, since_unix_s: float, now_unix_s: float) -> float:
    """Return the minutes that a learner has waited; 0 if the learner does not wait or has left."""
    has_left = minutes_since(shared.active_unix_s, now_unix_s) > AWAY_MINUTES
    return (
        max(minutes_since(since_unix_s, now_unix_s), 0.01) if since_unix_s and not has_left else 0.0
    )


def learner_rows(roster: Roster, now_unix_s: float) -> list[dict[str, Any]]:
    """Return the learners who ask for help, then the longest stuck, then the others by name."""
    rows = [_learner_row(one, now_unix_s) for one in roster.members]
    return sorted(rows, key=lambda row: (-row["asking_minutes"], -row["stuck_minutes"]))


def _learner_row(member: Member, now_unix_s: float) -> dict[str, Any]:
    shared = member.shared
    here = {name for name in known_exercises() if name.partition(".")[0] == shared.lesson}
    solved = {name for name, one in shared.exercises.items() if one.is_solved}
    exercise = shared.exercises.get(shared.stuck_on, Exercise())
    stuck = waiting_minutes(shared, shared.stuck_unix_s, now_unix_s)
    asking = waiting_minutes(shared, shared.help_unix_s, now_unix_s)
    asks = _("for {minutes:.0f} min {exercise}", minutes=asking, exercise=shared.stuck_on).strip()
    waits = _("{minutes:.0f} min on {exercise}", minutes=stuck, exercise=shared.stuck_on)
    return {
        "learner": member.account,
        "asks for help": asks if asking else "",
        "lesson": shared.lesson or "-",
        "solved": len(solved),
        "here": f"{len(solved & here)}/{len(here)}" if here else "-",
        "tries": sum(one.tries for one in shared.exercises.values()),
        "stuck": waits if stuck >= 1 else "",
        "last hint": exercise.hint,
        "seen": _ago(shared.active_unix_s, now_unix_s),
        "is_marked": stuck > STUCK_MINUTES or asking > 0,
        "uid": member.uid if shared.details else None,
        "stuck_on": shared.stuck_on,
        "stuck_minutes": stuck if stuck > STUCK_MINUTES else 0.0,
        "asking_minutes": asking,
    }


def _ago(unix_s: float, now_unix_s: float) -> str:
    if not unix_s:
        return "-"
    minutes = minutes_since(unix_s, now_unix_s)
    if minutes < 1:
        return _("now")
    if minutes < 120:
        return _("{minutes:.0f} min ago", minutes=minutes)
    return _("{hours:.0f} h ago", hours=minutes / 60)


def exercise_rows(roster: Roster, now_unix_s: float) -> list[dict[str, Any]]:
    """Return the rows of all attempted exercises, in the order of the lessons."""
    rows = []
    stuck_on = Counter(
        row["stuck_on"] for row in learner_rows(roster, now_unix_s) if row["stuck_minutes"]
    )
    for name in sorted({name for one in roster.members for name in one.shared.exercises}):
        tried = [m.shared.exercises[name] for m in roster.members if name in m.shared.exercises]
        hints = Counter(one.hint for one in tried if one.hint)
        rows.append(
            {
                "exercise": name,
                "tried by": len(tried),
                "solved by": sum(one.is_solved for one in tried),
                "tries": sum(one.tries for one in tried),
                "stuck now": stuck_on[name],
                "hint met most": hints.most_common(1)[0][0] if hints else "",
                "is_marked": stuck_on[name] > 0,
            }
        )
    return rows


def try_rows(member: Member) -> list[dict[str, Any]]:
    """Return the tries that a learner shares, the last one first."""
    return [
        {
            "exercise": one.exercise,
            "tried at": time.strftime("%Y-%m-%d %H:%M", time.localtime(one.unix_s)),
            "what is missing": one.hint or _("solved"),
        }
        for one in reversed(member.shared.tries)
    ]


def lessons_with_guesses(roster: Roster) -> list[str]:
    questions = {name for one in roster.members for name in one.shared.guesses}
    return sorted({name.partition(":")[0] for name in questions})


def histograms(roster: Roster, lesson: str) -> dict[str, list[dict[str, Any]]]:
    """Return the guesses at each question of a lesson, questions with most guesses first."""
    asked: dict[str, list[tuple[Guess, str]]] = {}
    for member in roster.members:
        name = member.account if member.shared.details else ""
        for question, guess in member.shared.guesses.items():
            if question.partition(":")[0] == lesson:
                asked.setdefault(question, []).append((guess, name))
    most_first = sorted(asked.items(), key=lambda one: -len(one[1]))
    return {label(question).partition(": ")[2]: _bars(made) for question, made in most_first}


def _bars(made: Sequence[tuple[Guess, str]]) -> list[dict[str, Any]]:
    """Return one row for each guess; similar numbers share a row if there are many."""
    is_few = len({one.guess for one, _name in made}) <= MOST_BARS

    def group(value: float | str) -> float | str:
        return value if is_few or isinstance(value, str) else float(f"{value:.0e}")

    found = sorted((one.measured for one, _name in made if one.measured is not None), key=_order)
    measured = found[len(found) // 2] if found else None  # each learner has measured alone
    names: dict[float | str, list[str]] = {} if measured is None else {group(measured): []}
    at, unit = next(iter(names), None), label(made[0][0].unit)
    for one, name in made:
        names.setdefault(group(one.guess), []).append(name)
    return [
        {
            "guess": said(value, unit), "learners": len(names[value]),
            "measured": said(measured, unit) if value == at else "",
            "names": ", ".join(filter(None, names[value])), "is_marked": value == at,
        }
        for value in sorted(names, key=_order)
    ]  # fmt: skip


def _order(value: float | str) -> tuple[bool, float | str]:
    return isinstance(value, str), value


def said(value: float | str | None, unit: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.4g} {unit}".strip()


def words_below(roster: Roster, place: Path) -> list[str]:
    """Say which solutions are open, and how many files were skipped."""
    passed_over = _(
        "{count} files in the class folder contain no progress, and they were skipped",
        count=roster.passed_over,
    )
    return list(filter(None, [opening.words(place), passed_over if roster.passed_over else ""]))


def summary(roster: Roster, now_unix_s: float) -> str:
    if not roster.members:
        return _("no learner shares progress here yet (a line in lesson 00 asks each learner)")
    rows = learner_rows(roster, now_unix_s)
    return _(
        "learners who share: {count}; asking for help: {asking}; stuck over {minutes} min: {stuck}",
        count=len(rows), minutes=STUCK_MINUTES,
        asking=sum(row["asking_minutes"] > 0 for row in rows),
        stuck=sum(row["stuck_minutes"] > 0 for row in rows),
    )  # fmt: skip


def overview(roster: Roster, now_unix_s: float) -> tuple[Table, Table]:
    """Return caption, columns and rows of the tables of learners and of exercises."""
    return (
        (_("Learners"), LEARNER_COLUMNS, learner_rows(roster, now_unix_s)),
        (_("Exercises"), EXERCISE_COLUMNS, exercise_rows(roster, now_unix_s)),
    )


def text(roster: Roster, place: Path, now_unix_s: float) -> str:
    tables = [plain(names, rows) for _said, names, rows in overview(roster, now_unix_s) if rows]
    return "\n\n".join([summary(roster, now_unix_s), *tables, *words_below(roster, place)])


def as_csv(roster: Roster, form: str = "exercises", now_unix_s: float | None = None) -> str:
    """Return the table of a form: exercises of learners, grades, or one line for each learner."""
    columns, rows = {"exercises": _exercises, "grades": _grades, "lms": _lms}[form](
        roster, now_unix_s or time.time()
    )
    out = StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        # A leading quote keeps spreadsheets from reading a text as a formula.
        quoted = (name for name, one in row.items() if str(one).startswith(FORMULA))
        writer.writerow(row | {name: f"'{row[name]}" for name in quoted})
    return out.getvalue()


Rows = tuple[list[str], list[dict[str, Any]]]


def _grades(roster: Roster, now_unix_s: float) -> Rows:
    """Return a row for each learner and each lesson with a try."""
    solved: Counter[tuple[str, str]] = Counter()
    for one in roster.members:
        for name, exercise in one.shared.exercises.items():
            solved[one.account, name.partition(".")[0]] += exercise.is_solved
    most = Counter(name.partition(".")[0] for name in known_exercises())
    rows = [
        {
            "student_id": one.account, "assignment": f"lesson-{lesson}",
            "score": solved[one.account, lesson], "max_score": most[lesson],
        }
        for one in roster.members
        for lesson in sorted({lesson for _account, lesson in solved})
    ]  # fmt: skip
    return GRADE_COLUMNS, rows


def _lms(roster: Roster, now_unix_s: float) -> Rows:
    """Return a row for each learner, with the solved share of each lesson in percent."""
    rows: dict[str, dict[str, Any]] = {}
    for one in _grades(roster, now_unix_s)[1]:
        row = rows.setdefault(one["student_id"], {"username": one["student_id"]})
        row[one["assignment"]] = round(100 * one["score"] / one["max_score"])
    return list(next(iter(rows.values()), {"username": ""})), list(rows.values())


def _exercises(roster: Roster, now_unix_s: float) -> Rows:
    """Return a row for each learner and exercise, or one row if a learner tried none."""
    rows = []
    for member in roster.members:
        shared, seen = member.shared, member.shared.active_unix_s
        common = {
            "learner": member.account,
            "lesson": shared.lesson,
            "seen_minutes": round(minutes_since(seen, now_unix_s)) if seen else "",
        }
        for name, one in sorted(shared.exercises.items()):
            since = shared.stuck_unix_s if name == shared.stuck_on else 0.0
            stuck = waiting_minutes(shared, since, now_unix_s)
            rows.append({
                **common, "exercise": name, "solved": "yes" if one.is_solved else "no",
                "tries": one.tries, "hint": one.hint, "stuck_minutes": round(stuck),
            })  # fmt: skip
        if not shared.exercises:
            rows.append(common)
    return CSV_COLUMNS, rows
