"""Progress that a learner shares: lesson, exercises, tries, hints, guesses, times. Nothing else.

`of` makes it from a workspace. `read` reads the class folder, whose files may contain anything. The
file's owner identifies the learner; the file's content does not. A progress file is named after its
owner's uid. Other files are skipped and counted.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from course_lib.classroom import folder, opening
from course_lib.lab.errors import LabError
from course_lib.lab.workspace import account
from course_lib.teach import jsonl, predictions, progress

FORMAT = "course-class-2"
LARGEST_BYTES = 262_144
# Lines of the learner's calls of `help_me`; the last one counts.
HELP = Path(".course") / "help_me.jsonl"
LONGEST_TEXT = 120
LARGEST_NUMBER = 1e300
MOST_TRIES = MOST_GUESSES = 300
LESSON = r"^([0-9][0-9][a-z]?)?\Z"
QUESTION = r"^[0-9][0-9][a-z]?: .{1,100}\Z"
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
UnixSeconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Lesson = Annotated[str, msgspec.Meta(pattern=LESSON)]
Question = Annotated[str, msgspec.Meta(pattern=QUESTION)]
Answer = float | str


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """Progress in one exercise. `hint` is the requirement that failed last."""

    is_solved: bool = False
    tries: Count = 0
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class Guess:
    """First guess at a question, and what was measured then."""

    guess: Answer
    measured: Answer | None = None
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class Try:
    """One try of an exercise. `hint` is the requirement that failed; empty if none did."""

    exercise: str = ""
    unix_s: UnixSeconds = 0.0
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Shared progress of one learner.

    `stuck_on` is the exercise of the last try, if it is not solved. `stuck_unix_s` is the time of
    its first failed try in a row, and `help_unix_s` the time when the learner asked for help. Times
    are seconds since 1970; 0 means never. `details` means that the learner also shares each try,
    and the learner's name beside the guesses.
    """

    format: str = ""
    lesson: Lesson = ""
    active_unix_s: UnixSeconds = 0.0
    stuck_on: str = ""
    stuck_unix_s: UnixSeconds = 0.0
    help_unix_s: UnixSeconds = 0.0
    exercises: Mapping[str, Exercise] = field(default_factory=dict)
    guesses: Mapping[Question, Guess] = field(default_factory=dict)
    details: bool = False
    tries: Sequence[Try] = ()

    def encoded(self) -> bytes:
        return msgspec.json.encode(asdict(self))


@cache
def known_exercises() -> frozenset[str]:
    return frozenset(progress.exercises())


def of(
    workspace: Path, lesson: str = "", active_unix_s: float = 0.0, *, details: bool = False
) -> Snapshot:
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
        help_unix_s=_asked_for_help(_of_this_account(workspace / HELP), tried),
        exercises=dict(_exercises(tried)),
        guesses=_guesses(guessed),
        details=details,
        tries=_tries(tried) if details else (),
    )


def _of_this_account(path: Path) -> list[dict[str, Any]]:
    return [one for one in jsonl.entries(path) if one.get("learner") == account()]


def _exercises(tried: Sequence[Mapping[str, Any]]) -> dict[str, Exercise]:
    found = {}
    for name, rows in progress.tries(tried).items():
        if name in known_exercises():
            hints = [hint for one in rows if (hint := _hint(one))]
            is_solved = rows[-1].get("passed") is True
            found[name] = Exercise(
                is_solved=is_solved, tries=len(rows), hint=hints[-1] if hints else ""
            )
    return found


def _hint(entry: Mapping[str, Any]) -> str:
    return "" if entry.get("passed") is True else str(entry.get("unmet", ""))[:LONGEST_TEXT]


def _tries(tried: Sequence[Mapping[str, Any]]) -> list[Try]:
    return [
        Try(exercise=str(one.get("exercise")), unix_s=_time_of(one), hint=_hint(one))
        for one in tried[-MOST_TRIES:]
        if one.get("exercise") in known_exercises()
    ]


def _guesses(guessed: Sequence[Mapping[str, Any]]) -> dict[str, Guess]:
    return {
        question: Guess(
            guess=_plain(made["guess"]), unit=str(made["unit"]),
            measured=_plain(made["measured"]) if "measured" in made else None,
        )
        for question, made in predictions.first_guesses(guessed).items()
        if re.match(QUESTION, question)
    }  # fmt: skip


def _plain(value: Any) -> float | str:
    if isinstance(value, int | float) and abs(value) < LARGEST_NUMBER:
        return float(value)
    return ", ".join(map(str, value if isinstance(value, list) else [value]))[:LONGEST_TEXT]


def _asked_for_help(
    asked: Sequence[Mapping[str, Any]], tried: Sequence[Mapping[str, Any]]
) -> float:
    """Return the time when the flag was raised; 0 if it is lowered. A solved exercise lowers it."""
    since = _time_of(asked[-1]) if asked and asked[-1].get("raised") is True else 0.0
    solved = max((_time_of(one) for one in tried if one.get("passed") is True), default=0.0)
    return since if since >= solved else 0.0


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
    return max((one for one in met if re.match(LESSON, one[1])), default=(0.0, ""))[1]


def _time_of(entry: Mapping[str, Any]) -> float:
    try:
        return datetime.strptime(str(entry.get("time")), "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except (ValueError, OverflowError):
        return 0.0


@dataclass(frozen=True)
class Member:
    """Learner who shares progress."""

    uid: int
    account: str
    shared: Snapshot


@dataclass(frozen=True)
class Roster:
    """Learners who share progress, and the number of skipped files in the folder."""

    members: tuple[Member, ...] = ()
    passed_over: int = 0


def read(place: Path) -> Roster:
    """Read the class from its folder."""
    members, passed_over = [], 0
    try:
        paths = sorted(place.iterdir())
    except PermissionError as error:
        raise LabError(
            f"only instructors can look into {place}: the members of the group "
            f"{folder.group_name(place.stat().st_gid)}"
        ) from error
    except OSError as error:
        raise LabError(f"the class folder {place}: {error.strerror}") from error
    for path in paths:
        if path.name.startswith(".") or path.name == opening.FOLDER:
            continue
        if member := _member(path):
            members.append(member)
        else:
            passed_over += 1
    return Roster(tuple(sorted(members, key=lambda one: one.account)), passed_over)


def _member(path: Path) -> Member | None:
    """Read a learner's file; None if it is invalid or not owned by the account in its name.

    Exercises that the course does not have are left out.
    """
    try:
        with open(path, "rb", opener=_open_quietly) as file:
            there = os.fstat(file.fileno())
            if not stat.S_ISREG(there.st_mode) or path.name != f"{there.st_uid}.json":
                return None
            content = file.read(LARGEST_BYTES + 1)
        shared = msgspec.convert(_clean(msgspec.json.decode(content)), Snapshot)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    if len(content) > LARGEST_BYTES or shared.format != FORMAT:
        return None
    known = known_exercises()
    if shared.stuck_on not in known:
        shared = replace(shared, stuck_on="", stuck_unix_s=0.0)
    shared = replace(
        shared,
        exercises={name: one for name, one in shared.exercises.items() if name in known},
        guesses=dict(list(shared.guesses.items())[:MOST_GUESSES]),
        tries=[one for one in shared.tries if one.exercise in known],
    )
    return Member(there.st_uid, folder.name_of(there.st_uid), shared)


def _open_quietly(path: str, how: int) -> int:
    """Open a file without following a link or waiting for a pipe."""
    return os.open(path, how | os.O_NONBLOCK | os.O_NOFOLLOW)


def _clean(value: Any) -> Any:
    """Return the value with `one_line` applied to all of its texts."""
    if isinstance(value, dict):
        return {one_line(name): _clean(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_clean(one) for one in value]
    return one_line(value) if isinstance(value, str) else value


def one_line(text: str) -> str:
    """Shorten a text. Replace control characters and marks that reverse the writing direction."""
    text = text[:LONGEST_TEXT].strip()
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
