"""Read the class folder, whose files may contain anything.

The file's owner identifies the learner; the file's content does not. A progress file is named
after its owner's uid. Other files are skipped and counted.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from course_lib.classroom import folder, opening
from course_lib.classroom.snapshot import (
    FORMAT,
    LARGEST_BYTES,
    LONGEST_TEXT,
    MOST_GUESSES,
    Snapshot,
    known_exercises,
)
from course_lib.lab.errors import LabError

NAME = re.compile(r"\d{1,10}\.json", re.ASCII)


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
        if NAME.fullmatch(path.name) and (shared := parsed(path)):
            uid = int(path.stem)
            members.append(Member(uid, folder.name_of(uid), shared))
        else:
            passed_over += 1
    return Roster(tuple(sorted(members, key=lambda one: one.account)), passed_over)


def parsed(path: Path) -> Snapshot | None:
    """Read the progress in a file; None if it is invalid or not owned by the account in its name.

    Exercises that the course does not have are left out.
    """
    import msgspec

    try:
        with open(path, "rb", opener=folder.open_quietly) as file:
            there = os.fstat(file.fileno())
            if not stat.S_ISREG(there.st_mode) or path.stem != str(there.st_uid):
                return None
            content = file.read(LARGEST_BYTES + 1)
        shared = msgspec.convert(_clean(msgspec.json.decode(content)), Snapshot)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    if len(content) > LARGEST_BYTES or shared.format != FORMAT:
        return None
    known = known_exercises()
    return replace(
        shared, stuck_on=shared.stuck_on if shared.stuck_on in known else "",
        exercises={name: one for name, one in shared.exercises.items() if name in known},
        guesses=dict(list(shared.guesses.items())[:MOST_GUESSES]),
        tries=[one for one in shared.tries if one.exercise in known],
    )  # fmt: skip


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
