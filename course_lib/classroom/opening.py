"""Solutions that an instructor has opened. Opening is a convenience and not access control.

A file lists the numbers of the open lessons. It lies in a folder in which only instructors may
write. The solutions are also installed with the library, so a learner who looks for them can find
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from course_lib.classroom import folder
from course_lib.lab.errors import LabError, WorkspaceError
from course_lib.lab.workspace import plain, write_atomically, writing

FOLDER, FILE = "instructors", "open-solutions.txt"
ALL = "all"
WRITTEN_BY_INSTRUCTORS = 0o2775


def opened(place: Path | None) -> set[str] | None:
    """Return the numbers of the open lessons, or ALL; None if no instructor has chosen any."""
    if place is None:
        return None
    try:
        return set(plain(place / FOLDER / FILE).read_text(encoding="utf-8").split()) or None
    except (OSError, UnicodeDecodeError):
        return None


def words(place: Path | None) -> str:
    """Return a sentence about the open solutions; empty if no instructor has chosen any."""
    numbers = opened(place)
    return f"solutions open: {', '.join(sorted(numbers))}" if numbers else ""


def make(place: Path) -> None:
    """Create the folder with the class, so that no learner takes its name."""
    with writing(place / FOLDER):
        (place / FOLDER).mkdir(exist_ok=True)
        (place / FOLDER).chmod(WRITTEN_BY_INSTRUCTORS)


def keep(place: Path, numbers: Iterable[str]) -> None:
    if not (place / FOLDER).is_dir():
        raise LabError(f"{place} has no folder {FOLDER}/; {folder.MAKE}")
    try:
        write_atomically(place / FOLDER / FILE, "\n".join(numbers) + "\n", 0o644)
    except WorkspaceError as error:
        raise LabError(f"only instructors open solutions: {folder.readers(place).words}") from error
