"""Reading the class folder, in which every learner may have laid anything.

Whose a file is, is told by the system, never by the file: its owner. A name only says which files
to look at: it begins with the number of the account that owns it, or the file is nobody's progress.
"""

from __future__ import annotations

import math
import os
import pwd
import re
import stat
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.teach.classroom import folder, opening
from course_lib.teach.classroom.snapshot import (
    FORMAT,
    LARGEST_BYTES,
    LONGEST_HINT,
    Exercise,
    Snapshot,
    known_exercises,
)

NAME = re.compile(r"(\d{1,10})(?:\.[0-9a-f]{16})?\.json", re.ASCII)
LESSON = re.compile(r"\d\d[a-z]?", re.ASCII)
MOST_FILES = 5000
"""That are looked at, beside those of known accounts: a learner who lays many hides nobody, and is
named as their owner."""
LEAST_TIME_S = 1_500_000_000
"""A time before this one is none (2017)."""


@dataclass(frozen=True)
class Member:
    """A learner who shares."""

    uid: int
    account: str
    shared: Snapshot


@dataclass(frozen=True)
class Roster:
    """`strange`: by account, how many things of theirs lie there that are no progress."""

    members: tuple[Member, ...] = ()
    strange: Mapping[str, int] = field(default_factory=dict)

    @property
    def uids(self) -> list[int]:
        """Of accounts that this machine knows: others Slurm would refuse."""
        return [one.uid for one in self.members if one.account != folder.without_name(one.uid)]


@dataclass
class Reader:
    """Looks at the folder again and again; what has not changed is not read anew."""

    place: Path
    known: dict[str, tuple[tuple[int, ...], Snapshot | None]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    accounts: set[int] = field(default_factory=set)

    def read(self) -> Roster:
        newest: dict[int, tuple[float, Snapshot]] = {}
        strange: Counter[int] = Counter()
        seen: dict[str, tuple[tuple[int, ...], Snapshot | None]] = {}
        for name, there in self._files():
            found = NAME.fullmatch(name)
            shared = None
            if found and int(found[1]) == there.st_uid and stat.S_ISREG(there.st_mode):
                state = (there.st_ino, there.st_mtime_ns, there.st_ctime_ns, there.st_size)
                before = self.known.get(name)
                same = before is not None and before[0] == state
                shared = before[1] if before and same else parsed(self.place / name, there.st_uid)
                seen[name] = (state, shared)
            if shared is None:
                strange[there.st_uid] += 1
            elif there.st_mtime >= newest.get(there.st_uid, (-math.inf,))[0]:
                newest[there.st_uid] = (there.st_mtime, shared)
        self.known = seen
        members = [Member(uid, self._account(uid), one) for uid, (_, one) in newest.items()]
        told = {self._account(uid): count for uid, count in strange.most_common(5)}
        return Roster(tuple(sorted(members, key=lambda one: one.account)), told)

    def _files(self) -> list[tuple[str, os.stat_result]]:
        found: list[tuple[str, os.stat_result]] = []
        try:
            with os.scandir(self.place) as inside:
                for entry in inside:
                    if entry.name.startswith(".") or entry.name == opening.FILE:
                        continue
                    if len(found) >= MOST_FILES and not self._is_of_an_account(entry.name):
                        continue
                    try:
                        found.append((entry.name, entry.stat(follow_symlinks=False)))
                    except OSError:  # removed meanwhile
                        continue
        except PermissionError as error:
            raise LabError(
                f"only instructors can look into {self.place}: the members of the group "
                f"{folder.group_name(self.place.stat().st_gid)}"
            ) from error
        except OSError as error:
            raise LabError(f"the class folder {self.place}: {error.strerror}") from error
        return found

    def _is_of_an_account(self, name: str) -> bool:
        if name in self.known:
            return True
        if not self.accounts:
            self.accounts |= {one.pw_uid for one in pwd.getpwall()}
        number, _, ending = name.partition(".")
        return ending == "json" and number.isdecimal() and int(number[:10]) in self.accounts

    def _account(self, uid: int) -> str:
        if uid not in self.names:
            self.names[uid] = folder.name_of(uid)
        return self.names[uid]


def parsed(path: Path, owner: int) -> Snapshot | None:
    """None for whatever is no progress: of another format, too large, a pipe, another's."""
    import msgspec

    try:
        with open(path, "rb", opener=_without_waiting) as file:
            there = os.fstat(file.fileno())
            if not stat.S_ISREG(there.st_mode) or there.st_uid != owner:
                return None
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            return None
        return tidy(msgspec.json.decode(content, type=Snapshot), time.time())
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _without_waiting(path: str, how: int) -> int:
    return os.open(path, how | os.O_NONBLOCK | os.O_NOFOLLOW)


def tidy(shared: Snapshot, now_unix_s: float) -> Snapshot | None:
    """Only lessons and exercises that there are, possible figures and times, lines of text."""
    known = known_exercises()
    if shared.format != FORMAT:
        return None
    exercises = {name: _tidy(one) for name, one in shared.exercises.items() if name in known}
    stuck_on = shared.stuck_on if shared.stuck_on in known else ""
    return Snapshot(
        format=FORMAT,
        lesson=shared.lesson if LESSON.fullmatch(shared.lesson) else "",
        active_unix_s=_time(shared.active_unix_s, now_unix_s),
        stuck_on=stuck_on,
        stuck_unix_s=_time(shared.stuck_unix_s, now_unix_s) if stuck_on else 0.0,
        exercises=exercises,
    )


def _tidy(one: Exercise) -> Exercise:
    return Exercise(
        is_solved=one.is_solved,
        tries=min(max(one.tries, 0), 9999),
        hint=one_line(one.hint),
        times_met=min(max(one.times_met, 0), 9999),
    )


def _time(unix_s: float, now_unix_s: float) -> float:
    return min(unix_s, now_unix_s) if unix_s >= LEAST_TIME_S else 0.0


def one_line(text: str) -> str:
    """Without anything that a terminal would obey or that turns the direction of writing."""
    return "".join(c if c.isprintable() else "?" for c in text[:LONGEST_HINT]).strip()
