"""The board: one small file for each entry, in a folder of the learner's or of the class.

A file says under which name somebody wants to stand there, and the figures; of its author it holds
what a draw of random numbers called the workspace, and nothing else. Whatever lies in the folder
besides is passed over, and counted.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.lab.errors import LabError
from course_lib.lab.runs.run import Run
from course_lib.lab.workspace import Workspace, write_json, writing
from course_lib.mistakes.kinds import shown
from course_lib.teach.challenge import pledge
from course_lib.teach.challenge.score import Score, name_of

if TYPE_CHECKING:
    import pandas as pd

    from course_lib.lab.lab import Lab
    from course_lib.teach.challenge.task import Task

SETTING = "COURSE_BOARD"
FORMAT = "course-challenge-1"
LONGEST_NAME, LARGEST_FILE_BYTES, MOST_FILES = 24, 16_384, 2000
READABLE_BY_ALL = 0o644


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A score under a name. `seal` is a digest of the rest, by which an edited file is known."""

    format: str
    name: str
    score: Score
    seal: str = ""

    def sealed(self) -> Entry:
        text = repr([self.format, self.name, sorted(asdict(self.score).items())])
        return replace(self, seal=hashlib.sha256(text.encode()).hexdigest())


@dataclass(frozen=True, repr=False)
class Board:
    """The entries of one task. It shows names and figures."""

    folder: Path
    entries: tuple[Entry, ...] = ()
    doubted: dict[str, str] = field(default_factory=dict)
    passed_over: int = 0
    mine: str = ""

    def table(self) -> pd.DataFrame:
        """Who has reached the target, by score; below them the others, by loss."""
        import pandas as pd

        rows = [self._row(place, entry) for place, entry in enumerate(self.ordered(), start=1)]
        columns = ["name", "loss", "score", "device_minutes", "off_by", "tokens", "seconds", "note"]
        return pd.DataFrame(rows, columns=["place", *columns]).set_index("place")

    def ordered(self) -> list[Entry]:
        def rank(entry: Entry) -> tuple[bool, bool, float]:
            score = entry.score
            doubted = entry.seal in self.doubted
            return (doubted, not score.reached, score.result if score.reached else score.loss)

        return sorted(self.entries, key=rank)

    def _row(self, place: int, entry: Entry) -> dict[str, Any]:
        score, doubt = entry.score, self.doubted.get(entry.seal, "")
        reached = score.reached and not doubt
        return {
            "place": str(place) if reached else "–",
            "name": entry.name + (" (you)" if score.workspace == self.mine else ""),
            "loss": round(score.loss, 3),
            "score": round(score.result, 1) if reached else None,
            "device_minutes": round(score.device_minutes, 2),
            "off_by": round(score.off_by, 2),
            "tokens": score.tokens,
            "seconds": round(score.seconds),
            "note": doubt or ("" if score.reached else "target not reached"),
        }

    def __repr__(self) -> str:
        text = self.table().to_string() if self.entries else "nobody is on the board yet"
        return text + self._passed_over()

    def _repr_html_(self) -> str:
        if not self.entries:
            return f"<p>{escape(repr(self))}</p>"
        return self.table().to_html(escape=True) + f"<p>{escape(self._passed_over())}</p>"

    def _passed_over(self) -> str:
        if not self.passed_over:
            return ""
        return f"\n{self.passed_over} files in {self.folder} are no entries, and were passed over"


def place(workspace: Workspace) -> Path:
    """The common folder of the class, else one of the workspace."""
    chosen = os.environ.get(SETTING, "")
    try:
        return Path(chosen).expanduser() if chosen else workspace.state / "challenge" / "board"
    except RuntimeError as error:
        raise LabError(f"{SETTING}={chosen!r} names no folder: there is no such home") from error


def checked_name(name: str) -> str:
    """One line of letters that can be shown."""
    tidy = unicodedata.normalize("NFC", " ".join(name.split()))
    hidden = [letter for letter in name if not letter.isprintable()]
    if not tidy or len(tidy) > LONGEST_NAME or hidden or name != name.strip():
        raise LabError(
            f"{shown(name)} is no name for the board: one line of 1 to {LONGEST_NAME} letters"
        )
    return tidy


def enter(board: Board, score: Score, name: str) -> None:
    entry = Entry(format=FORMAT, name=checked_name(name), score=score).sealed()
    if score.noticed:
        raise LabError(f"this score does not count: {'; '.join(score.noticed)}")
    if score.workspace != board.mine:
        raise LabError("this score was made in another workspace; only its owner can enter it")
    others = [e for e in board.entries if e.score.workspace != board.mine and e.name == entry.name]
    if others:
        raise LabError(f"somebody else stands on the board as {entry.name!r}; choose another name")
    path = board.folder / file_name(score)
    write_json(path, asdict(entry))
    with writing(path):
        path.chmod(READABLE_BY_ALL)
    print(f"{entry.name}: entered ({path.name})")


def file_name(score: Score) -> str:
    """One for each run, whatever it is called, so that a run stands there once."""
    return f"{hashlib.sha256(f'{score.workspace} {score.job}'.encode()).hexdigest()[:16]}.json"


def read(folder: Path, task: Task) -> Board:
    """Those of this task, with what speaks against them."""
    mine = pledge.identity(task.lab.workspace)
    found, passed_over = _entries(folder)
    ours = tuple(e for e in found if (e.score.target, e.score.digest) == (task.target, task.digest))
    return Board(folder, ours, dict(_doubts(ours, folder)), passed_over, mine)


def _entries(folder: Path) -> tuple[list[Entry], int]:
    try:
        files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:  # nobody has entered anything yet
        return [], 0
    except OSError as error:
        raise LabError(f"the board in {folder} cannot be read: {error.strerror}") from error
    entries = [_entry(path) for path in files[:MOST_FILES]]
    good = [entry for entry in entries if entry is not None]
    return good, len(files) - len(good)


def _entry(path: Path) -> Entry | None:
    """None for whatever is no entry: of another format, too large, a pipe, not to be read."""
    import msgspec

    try:
        with open(path, "rb", opener=_without_waiting) as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
        if len(content) > LARGEST_FILE_BYTES:
            return None
        entry = msgspec.json.decode(content, type=Entry)
        numbers = [f.name for f in fields(Score) if f.type in ("int", "float")]
        figures = [getattr(entry.score, name) for name in numbers]
        is_one = entry.format == FORMAT and checked_name(entry.name) == entry.name
        sane = all(0 <= figure < 1e12 for figure in figures) and entry.score.devices > 0
        return entry if is_one and sane and file_name(entry.score) == path.name else None
    except (OSError, ValueError, TypeError, RecursionError, LabError):
        return None


def _without_waiting(path: str, how: int) -> int:
    return os.open(path, how | os.O_NONBLOCK | os.O_NOFOLLOW)


def _doubts(entries: tuple[Entry, ...], folder: Path) -> Iterator[tuple[str, str]]:
    """By seal, why an entry does not count."""
    names = Counter((e.name, e.score.workspace) for e in entries)
    of_name: dict[str, set[str]] = {}
    for name, workspace in names:
        of_name.setdefault(name, set()).add(workspace)
    for entry in entries:
        if entry.sealed().seal != entry.seal:
            yield entry.seal, "edited: the file does not fit its seal"
        elif entry.score.noticed:
            yield entry.seal, "does not count: " + "; ".join(entry.score.noticed)
        elif len(of_name[entry.name]) > 1:
            yield entry.seal, "two workspaces use this name"


def run_of(board: Board, lab: Lab, name: str) -> Any:
    """The run behind an entry of one's own."""
    mine = [e for e in board.ordered() if e.name == name and e.score.workspace == board.mine]
    jobs = {entry.score.job for entry in mine}
    for record in lab.jobs.registry.all():
        if name_of(record) in jobs and not record.cleaned:
            return Run(lab.jobs, record)
    raise LabError(
        f"no entry {shown(name)} of a run that this workspace still has; only who has the run can "
        "have it judged again"
    )
