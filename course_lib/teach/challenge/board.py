"""Board of the challenge: one small file per entry, in a folder that many accounts may write to.

A file holds the name chosen for the board and the figures of a score, without account or path.
Other files in the folder are skipped and counted.
"""

from __future__ import annotations

import os
import unicodedata
from dataclasses import asdict, dataclass, fields
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import Workspace, plain, write_json
from course_lib.mistakes.kinds import shown
from course_lib.teach.challenge.score import Score, name_of
from course_lib.words import _

if TYPE_CHECKING:
    import pandas as pd

    from course_lib.teach.challenge.task import Task

SETTING = "COURSE_BOARD"
FORMAT = "course-challenge-2"
LONGEST_NAME, LARGEST_FILE_BYTES = 24, 16_384
READABLE_BY_ALL = 0o644
YOU = " (you)"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Score under a name. The file is named after the job, so each run has one entry."""

    format: str = FORMAT
    name: str
    score: Score

    @property
    def file_name(self) -> str:
        return f"{self.score.job}.json"


@dataclass(frozen=True, repr=False)
class Board:
    """Entries of one task. `mine` holds the job names of this workspace."""

    folder: Path
    entries: tuple[Entry, ...] = ()
    passed_over: int = 0
    mine: frozenset[str] = frozenset()

    def table(self) -> pd.DataFrame:
        """Return the runs that reached the target, by score, then the other runs, by loss."""
        import pandas as pd

        rows = [self._row(place, entry) for place, entry in enumerate(self.ordered(), start=1)]
        columns = ["name", "loss", "score", "device_minutes", "off_by", "tokens", "seconds", "note"]
        return pd.DataFrame(rows, columns=["place", *columns]).set_index("place")

    def ordered(self) -> list[Entry]:
        def rank(entry: Entry) -> tuple[bool, float]:
            score = entry.score
            return (not score.reached, score.result if score.reached else score.loss)

        return sorted(self.entries, key=rank)

    def _row(self, place: int, entry: Entry) -> dict[str, Any]:
        score = entry.score
        return {
            "place": str(place) if score.reached else "–",
            "name": entry.name + (YOU if score.job in self.mine else ""),
            "loss": round(score.loss, 3),
            "score": round(score.result, 1) if score.reached else None,
            "device_minutes": round(score.device_minutes, 2),
            "off_by": round(score.off_by, 2),
            "tokens": score.tokens,
            "seconds": round(score.seconds),
            "note": "" if score.reached else _("target not reached"),
        }

    def __repr__(self) -> str:
        none = _("the board is still empty")
        text = self.table().to_string() if self.entries else none
        return text + self._passed_over()

    def _repr_html_(self) -> str:
        if not self.entries:
            return f"<p>{escape(repr(self))}</p>"
        return self.table().to_html(escape=True) + f"<p>{escape(self._passed_over())}</p>"

    def _passed_over(self) -> str:
        skipped = _(
            "{count} files in {folder} are not entries and were skipped",
            count=self.passed_over,
            folder=self.folder,
        )
        return f"\n{skipped}" if self.passed_over else ""

    def enter(self, score: Score, name: str) -> None:
        """Put a score on the board under a name that no other learner uses."""
        entry = Entry(name=checked_name(name), score=score)
        if score.origin:
            print(_("a recorded run cannot be entered on the board"))
            return
        if score.broken_rules:
            rules = "; ".join(score.broken_rules)
            raise LabError(_("this score does not count: {rules}", rules=rules))
        if score.job not in self.mine:
            raise LabError(
                _("this score belongs to a run of another workspace; only its owner can enter it")
            )
        if any(one.name == entry.name and one.score.job not in self.mine for one in self.entries):
            raise LabError(
                _(
                    "the name {name!r} is already on the board; choose a different name",
                    name=entry.name,
                )
            )
        write_json(self.folder / entry.file_name, asdict(entry), READABLE_BY_ALL)
        print(_("{name}: entered ({file})", name=entry.name, file=entry.file_name))


def read(task: Task) -> Board:
    """Read the board of this task."""
    folder = place(task.lab.workspace)
    found, passed_over = entries_in(folder)
    this = (task.target, task.digest)
    own = tuple(entry for entry in found if (entry.score.target, entry.score.digest) == this)
    mine = frozenset(name_of(record) for record in task.lab.jobs.registry.all())
    return Board(folder, own, passed_over, mine)


def place(workspace: Workspace) -> Path:
    """Return the common folder of the class, or a folder of the workspace if none is set."""
    chosen = os.environ.get(SETTING, "")
    return Path(chosen).expanduser() if chosen else workspace.state / "challenge" / "board"


def checked_name(name: str) -> str:
    """Return the name if it is one line of printable letters; otherwise refuse it."""
    tidy = unicodedata.normalize("NFC", " ".join(name.split()))
    hidden = [letter for letter in name if not letter.isprintable()]
    posing = tidy.lower().endswith(YOU.strip())
    if not tidy or len(tidy) > LONGEST_NAME or hidden or name != name.strip() or posing:
        raise LabError(
            _(
                "{name} cannot be a name on the board; use one line of 1 to {longest} letters",
                name=shown(name),
                longest=LONGEST_NAME,
            )
        )
    return tidy


def entries_in(folder: Path) -> tuple[list[Entry], int]:
    """Read the entries of a folder. Return them with the number of files that were skipped."""
    try:
        files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:  # nobody has entered anything yet
        return [], 0
    except OSError as error:
        raise LabError(
            _(
                "the board in {folder} cannot be read: {reason}",
                folder=folder,
                reason=error.strerror,
            )
        ) from error
    good = [entry for path in files if (entry := _entry(path)) is not None]
    return good, len(files) - len(good)


def _entry(path: Path) -> Entry | None:
    """Read the entry in a file; None for another format, a large file, a pipe or absurd figures."""
    import msgspec

    try:
        if plain(path).stat().st_size > LARGEST_FILE_BYTES:
            return None
        entry = msgspec.json.decode(path.read_bytes(), type=Entry)
        numbers = [f.name for f in fields(Score) if f.type in ("int", "float")]
        figures = [getattr(entry.score, name) for name in numbers]
        is_one = entry.format == FORMAT and checked_name(entry.name) == entry.name
        sane = all(0 <= figure < 1e12 for figure in figures) and entry.score.devices > 0
        return entry if is_one and sane and entry.file_name == path.name else None
    except (OSError, ValueError, TypeError, RecursionError, LabError):
        return None
