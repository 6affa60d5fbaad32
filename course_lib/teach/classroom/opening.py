"""From when on learners are brought the solutions: a courtesy of the class, no lock.

The times lie in a file of the class folder that everybody may read and only instructors write; one
that somebody else has laid there in its place is not listened to. Solutions also lie beside the
library, where an account that looks for them finds them.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import writing
from course_lib.teach.classroom import folder

FILE = "opens.json"
FORMAT = "course-opening-1"
ALL = "*"
NEVER_UNIX_S = 4_102_444_800
"""The year 2100: until an instructor says when."""
LARGEST_BYTES = 16_384
WRITTEN_BY_INSTRUCTORS = 0o664


@dataclass(frozen=True)
class Opening:
    """By number of a lesson, or for all, seconds since 1970; a lesson without a time is open."""

    times: dict[str, float] = field(default_factory=dict)

    def opens_unix_s(self, lesson: str) -> float:
        return self.times.get(lesson, self.times.get(ALL, 0.0))

    def is_open(self, lesson: str, now_unix_s: float | None = None) -> bool:
        return self.opens_unix_s(lesson) <= (now_unix_s or time.time())

    def but(self, lessons: Iterable[str], unix_s: float) -> Opening:
        """A time for these; for all lessons where none is named, and for none a time of its own."""
        named = dict.fromkeys(lessons, unix_s)
        return Opening({**self.times, **named} if named else {ALL: unix_s})

    @property
    def words(self) -> str:
        now = time.time()
        told = [
            f"{'all others' if name == ALL and len(self.times) > 1 else name.replace(ALL, 'all')} "
            f"{when(unix_s)}"
            for name, unix_s in sorted(self.times.items(), reverse=True)
            if unix_s > now
        ]
        return f"solutions closed: {', '.join(told)}" if told else ""


def when(unix_s: float) -> str:
    if unix_s >= NEVER_UNIX_S:
        return "until an instructor opens them"
    same_day = time.localtime(unix_s)[:3] == time.localtime()[:3]
    return time.strftime(
        "until %H:%M" if same_day else "until %Y-%m-%d %H:%M", time.localtime(unix_s)
    )


def current(place: Path | None) -> Opening:
    """What the class has set; all is open where there is no class, or none of its instructors set
    anything."""
    return Opening(_times(place)) if place is not None else Opening()


def _times(place: Path) -> dict[str, float]:
    try:
        with open(place / FILE, "rb", opener=_without_waiting) as file:
            if not _is_instructors(os.fstat(file.fileno()).st_uid, place.stat()):
                return {}
            table: Any = json.loads(file.read(LARGEST_BYTES))
        told = table["solutions"] if table["format"] == FORMAT else {}
        return {str(name): float(unix_s) for name, unix_s in told.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _without_waiting(path: str, how: int) -> int:
    return os.open(path, how | os.O_NONBLOCK | os.O_NOFOLLOW)


def _is_instructors(uid: int, there: os.stat_result) -> bool:
    return uid in (0, there.st_uid) or folder.name_of(uid) in folder.members_of(there.st_gid)


def make(place: Path) -> None:
    """An empty file, before a learner takes its name. The instructors' group writes into it."""
    how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with writing(place / FILE), contextlib.suppress(FileExistsError):
        descriptor = os.open(place / FILE, how, WRITTEN_BY_INSTRUCTORS)
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(descriptor, WRITTEN_BY_INSTRUCTORS)
            file.write("{}\n")


def keep(place: Path, opening: Opening) -> None:
    """In place, since the sticky bit lets an instructor not replace the file of another one."""
    if not _is_instructors(os.getuid(), place.stat()):
        raise LabError(f"only instructors say when solutions open: {folder.readers(place).words}")
    make(place)
    text = json.dumps({"format": FORMAT, "solutions": opening.times}) + "\n"
    try:
        descriptor = os.open(place / FILE, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise LabError(
            f"{place / FILE} cannot be written ({error.strerror}). Only instructors may; where "
            "somebody else has laid it there, the owner of the folder can remove it"
        ) from error
    with os.fdopen(descriptor, "wb"):
        if not _is_instructors(os.fstat(descriptor).st_uid, place.stat()):
            raise LabError(
                f"{place / FILE} is no instructor's: the owner of the folder can remove it"
            )
        os.pwrite(descriptor, text.encode(), 0)
        os.ftruncate(descriptor, len(text.encode()))


def moment(text: str) -> float:
    """`now`, `never`, `15:30` of today, `2026-11-24 15:30`."""
    if text in ("now", "never"):
        return 0.0 if text == "now" else NEVER_UNIX_S
    today = time.strftime("%Y-%m-%d ")
    for whole in (text, today + text):
        with contextlib.suppress(ValueError, OverflowError):
            return time.mktime(time.strptime(whole, "%Y-%m-%d %H:%M"))
    raise LabError(f"--at {text!r} is no time: write now, never, 15:30 or '2026-11-24 15:30'")


def can_be_read_by_all(place: Path) -> bool:
    try:
        on_the_way = all(one.stat().st_mode & 0o001 for one in place.resolve().parents)
        return on_the_way and place.stat().st_mode & 0o005 == 0o005
    except OSError:
        return False
