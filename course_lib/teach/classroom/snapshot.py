"""What a learner shares: where they are, what they have solved, what they met. Nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from course_lib.lab.plain_files import account
from course_lib.teach import kept_lines, predictions, progress

FORMAT = "course-class-1"
LARGEST_BYTES = 16_384
LONGEST_HINT = 80


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """`hint`: the requirement that was not met most often, as the check names it."""

    is_solved: bool = False
    tries: int = 0
    hint: str = ""
    times_met: int = 0


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """`stuck_on`: the exercise that was tried last, where that is not solved; since its first
    try after whatever was solved before. Times are seconds since 1970, 0 for never."""

    format: str = ""
    lesson: str = ""
    active_unix_s: float = 0.0
    stuck_on: str = ""
    stuck_unix_s: float = 0.0
    exercises: Mapping[str, Exercise] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """At most LARGEST_BYTES: hints of what is solved go first, then all."""
        import msgspec

        table = asdict(self)
        for is_last in (False, True):
            if len(text := msgspec.json.encode(table)) <= LARGEST_BYTES:
                return text
            for one in table["exercises"].values():
                one["hint"] = one["hint"] if not (one["is_solved"] or is_last) else ""
        return msgspec.json.encode({**table, "exercises": {}})


@cache
def known_exercises() -> frozenset[str]:
    return frozenset(progress.exercises())


def of(workspace: Path, lesson: str = "", active_unix_s: float = 0.0) -> Snapshot:
    """From what the workspace keeps. `lesson` and the time: of the cell that has just ended."""
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
    return [one for one in kept_lines.entries(path) if one.get("learner") == account()]


def _exercises(tried: Sequence[Mapping[str, Any]]) -> dict[str, Exercise]:
    known = known_exercises()
    found = {}
    for name in sorted({str(one.get("exercise")) for one in tried} & known):
        rows = [one for one in tried if one.get("exercise") == name]
        unmet = Counter(str(one.get("unmet", "")) for one in rows if one.get("passed") is not True)
        hint, times = unmet.most_common(1)[0] if unmet else ("", 0)
        is_solved = any(one.get("passed") is True for one in rows)
        found[name] = Exercise(
            is_solved=is_solved, tries=len(rows), hint=hint[:LONGEST_HINT], times_met=times
        )
    return found


def _stuck(tried: Sequence[Mapping[str, Any]]) -> tuple[str, float]:
    """The exercise of the last try and the first of the misses that lead up to now. Who tries anew
    what they have solved is not stuck."""
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
    """Of the last exercise or question."""
    met = [(_time_of(one), str(one.get("exercise", "")).partition(".")[0]) for one in tried]
    met += [(_time_of(one), str(one.get("question", "")).partition(":")[0]) for one in guessed]
    return max(met, default=(0.0, ""))[1][:3]


def _time_of(entry: Mapping[str, Any]) -> float:
    try:
        return datetime.strptime(str(entry.get("time")), "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except (ValueError, OverflowError):
        return 0.0
