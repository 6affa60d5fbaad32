"""Entries of the board: one small file each, in a folder that many may write to.

A file says under which name somebody wants to stand there, and the figures; of its author it holds
what a draw of random numbers called the workspace, and nothing else. Whatever lies in the folder
besides is passed over, and counted.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import write_json
from course_lib.mistakes.kinds import shown
from course_lib.teach.challenge.score import Score

FORMAT = "course-challenge-1"
LONGEST_NAME, LARGEST_FILE_BYTES, MOST_FILES = 24, 16_384, 20_000
FILE_NAME = re.compile(r"[0-9a-f]{16}\.json")
READABLE_BY_ALL = 0o644
YOU = " (you)"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A score under a name. `seal` is a digest of the rest, by which an edited file is known."""

    format: str
    name: str
    score: Score
    seal: str = ""

    @property
    def file_name(self) -> str:
        """One for each run, whatever it is called, so that a run stands there once."""
        of = f"{self.score.workspace} {self.score.job}"
        return f"{hashlib.sha256(of.encode()).hexdigest()[:16]}.json"

    def sealed(self) -> Entry:
        text = repr([self.format, self.name, sorted(asdict(self.score).items())])
        return replace(self, seal=hashlib.sha256(text.encode()).hexdigest())


Dated = tuple[Entry, int]
"""With the time at which its file was changed last, which its author cannot choose."""


def made(score: Score, name: str) -> Entry:
    return Entry(format=FORMAT, name=checked_name(name), score=score).sealed()


def checked_name(name: str) -> str:
    """One line of letters that can be shown."""
    tidy = unicodedata.normalize("NFC", " ".join(name.split()))
    hidden = [letter for letter in name if not letter.isprintable()]
    posing = tidy.lower().endswith(YOU.strip())
    if not tidy or len(tidy) > LONGEST_NAME or hidden or name != name.strip() or posing:
        raise LabError(
            f"{shown(name)} is no name for the board: one line of 1 to {LONGEST_NAME} letters"
        )
    return tidy


def put(folder: Path, entry: Entry) -> Path:
    path = folder / entry.file_name
    write_json(path, asdict(entry), READABLE_BY_ALL)
    return path


def found_in(folder: Path) -> tuple[list[Dated], int]:
    """And how many files were passed over."""
    try:
        files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:  # nobody has entered anything yet
        return [], 0
    except OSError as error:
        raise LabError(f"the board in {folder} cannot be read: {error.strerror}") from error
    named = [path for path in files if FILE_NAME.fullmatch(path.name)]
    good = [entry for path in named[:MOST_FILES] if (entry := _entry(path)) is not None]
    return good, len(files) - len(good)


def _entry(path: Path) -> Dated | None:
    """None for whatever is no entry: of another format, too large, a pipe, not to be read."""
    import msgspec

    try:
        with open(path, "rb", opener=_without_waiting) as file:
            since = os.fstat(file.fileno()).st_ctime_ns
            content = file.read(LARGEST_FILE_BYTES + 1)
        if len(content) > LARGEST_FILE_BYTES:
            return None
        entry = msgspec.json.decode(content, type=Entry)
        numbers = [f.name for f in fields(Score) if f.type in ("int", "float")]
        figures = [getattr(entry.score, name) for name in numbers]
        is_one = entry.format == FORMAT and checked_name(entry.name) == entry.name
        sane = all(0 <= figure < 1e12 for figure in figures) and entry.score.devices > 0
        return (entry, since) if is_one and sane and entry.file_name == path.name else None
    except (OSError, ValueError, TypeError, RecursionError, LabError):
        return None


def _without_waiting(path: str, how: int) -> int:
    return os.open(path, how | os.O_NONBLOCK | os.O_NOFOLLOW)
