"""Solutions that an instructor has opened. Opening is a convenience and not access control.

A file in the class folder lists the numbers of the open lessons. All accounts may read it, and
only instructors write it. A file from any other account is ignored. The solutions are also
installed with the library, so a learner who looks for them can find them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from course_lib.classroom import folder
from course_lib.lab.errors import LabError
from course_lib.lab.workspace import writing

FILE = "open-solutions.txt"
ALL = "all"
LARGEST_BYTES = 4096
WRITTEN_BY_INSTRUCTORS = 0o664


def opened(place: Path | None) -> set[str] | None:
    """Return the numbers of the open lessons, or ALL; None if no instructor has chosen any."""
    if place is None:
        return None
    try:
        with open(place / FILE, "rb", opener=folder.open_quietly) as file:
            owner, text = os.fstat(file.fileno()).st_uid, file.read(LARGEST_BYTES)
        words = text.decode("utf-8", "replace").split()
        return set(words) if words and _is_instructors(owner, place) else None
    except OSError:
        return None


def words(place: Path | None) -> str:
    """Return a sentence about the open solutions; empty if no instructor has chosen any."""
    numbers = opened(place)
    return f"solutions open: {', '.join(sorted(numbers))}" if numbers else ""


def _is_instructors(uid: int, place: Path) -> bool:
    there = place.stat()
    return uid in (0, there.st_uid) or folder.name_of(uid) in folder.members_of(there.st_gid)


def make(place: Path) -> None:
    """Create an empty file, so that no learner takes its name. The instructors may write it."""
    with writing(place / FILE), contextlib.suppress(FileExistsError):
        file = os.open(place / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, WRITTEN_BY_INSTRUCTORS)
        os.fchmod(file, WRITTEN_BY_INSTRUCTORS)
        os.close(file)


def keep(place: Path, numbers: Iterable[str]) -> None:
    """Write in place, because the sticky bit forbids replacing another account's file."""
    if not _is_instructors(os.getuid(), place):
        raise LabError(f"only instructors open solutions: {folder.readers(place).words}")
    make(place)
    try:
        with open(place / FILE, "w", opener=folder.open_quietly) as file:
            file.write("\n".join(numbers) + "\n")
    except OSError as error:
        raise LabError(
            f"{place / FILE} cannot be written ({error.strerror}); the owner of the folder can "
            "remove what somebody else has laid there"
        ) from error
    if opened(place) is None:
        raise LabError(f"{place / FILE} is no instructor's: the owner of the folder can remove it")
