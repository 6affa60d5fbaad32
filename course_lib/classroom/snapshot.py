"""Progress that a learner shares: lesson, exercises, tries, hints, times. Nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from course_lib.lab.workspace import account
from course_lib.teach import jsonl, predictions, progress

FORMAT = "course-class-1"
LARGEST_BYTES = 65_536
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
UnixSeconds = Annotated[float, msgspec.Meta(ge=0)]
Lesson = Annotated[str, msgspec.Meta(pattern=r"^([0-9][0-9][a-z]?)?\Z")]
LONGEST_HINT = 80


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """Progress in one exercise. `hint` is the requirement that failed most often."""

    is_solved: bool = False
    tries: Count = 0
    hint: str = ""
    times_met: Count = 0


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Shared progress of one learner.

    `stuck_on` is the exercise of the last try, if it is not solved. `stuck_unix_s` is the time of
    its first failed try in a row. Times are seconds since 1970; 0 means never.
    """

    format: str = ""
    lesson: Lesson = ""
    active_unix_s: UnixSeconds = 0.0
    stuck_on: str = ""
    stuck_unix_s: UnixSeconds = 0.0
    exercises: Mapping[str, Exercise] = field(default_factory=dict)

    def encoded(self) -> bytes:
        return msgspec.json.encode(asdict(self))


@cache
def known_exercises() -> frozenset[str]:
    return frozenset(progress.exercises())


def of(workspace: Path, lesson: str = "", active_unix_s: float = 0.0) -> Snapshot:
    """Return the progress in a workspace.

    `lesson` and `active_unix_s` describe the cell that has just ended.
    """
    tried = _of_this_account(workspace / progress.FILE)
    guessed = _of_this_account(workspace / predictions.FILE)
    last = max(map(_time_of, [*tried, *guessed]), default=0.0)
    stuck_on, stuck_unix_s = _stuck(tried)
    return Snapshot(
        format=FORMAT,
        lesson=lesson or _lesson(tried, guessed),
        active_unix_s=max(active_unix_s, last),
        stuck_on=stuck_on,
        stuck_unix_s=stuck_unix_s,
        exercises=dict(_exercises(tried)),
    )


def _of_this_account(path: Path) -> list[dict[str, Any]]:
    return [one for one in jsonl.entries(path) if one.get("learner") == account()]


def _exercises(tried: Sequence[Mapping[str, Any]]) -> dict[str, Exercise]:
    found = {}
    for name, rows in progress.tries(tried).items():
        if name not in known_exercises():
            continue
        unmet = Counter(str(one.get("unmet", "")) for one in rows if one.get("passed") is not True)
        hint, times = unmet.most_common(1)[0] if unmet else ("", 0)
        is_solved = rows[-1].get("passed") is True
        found[name] = Exercise(
            is_solved=is_solved, tries=len(rows), hint=hint[:LONGEST_HINT], times_met=times
        )
    return found


def _stuck(tried: Sequence[Mapping[str, Any]]) -> tuple[str, float]:
    """Return the last exercise, if unsolved, and the time of its first failed try in a row.

    Later tries of a solved exercise do not count.
    """
    since, on, solved = 0.0, "", set()
    for one in tried:
        name = str(one.get("exercise"))
        if one.get("passed") is True:
            solved.add(name)
            since, on = 0.0, ""
        elif name not in solved and name != on:
            since, on = _time_of(one), name
    return on, since


def _lesson(tried: Sequence[Mapping[str, Any]], guessed: Sequence[Mapping[str, Any]]) -> str:
    """Return the lesson of the last exercise or question."""
    met = [(_time_of(one), str(one.get("exercise", "")).partition(".")[0]) for one in tried]
    met += [(_time_of(one), str(one.get("question", "")).partition(":")[0]) for one in guessed]
    return max(met, default=(0.0, ""))[1][:3]


def _time_of(entry: Mapping[str, Any]) -> float:
    try:
        return datetime.strptime(str(entry.get("time")), "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except (ValueError, OverflowError):
        return 0.0
