"""The board: who has entered what, in which order, and what speaks against an entry."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.lab.errors import LabError
from course_lib.lab.queue.records import Record
from course_lib.lab.runs.run import Run
from course_lib.lab.workspace import Workspace
from course_lib.mistakes.kinds import shown
from course_lib.teach.challenge import pledge
from course_lib.teach.challenge.entries import YOU, Dated, Entry, found_in, made, put
from course_lib.teach.challenge.proofs import ROUNDED_S
from course_lib.teach.challenge.score import GIVEN, Score, name_of
from course_lib.words import told

if TYPE_CHECKING:
    import pandas as pd

    from course_lib.lab.lab import Lab
    from course_lib.teach.challenge.task import Task

SETTING = "COURSE_BOARD"
LUCK = 5
"""Standard errors by which two judgements of the same weights may differ."""


@dataclass(frozen=True, repr=False)
class Board:
    """The entries of one task. It shows names and figures. `doubted`: by file, why one of them
    does not count."""

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
            doubted = entry.file_name in self.doubted
            return (doubted, not score.reached, score.result if score.reached else score.loss)

        return sorted(self.entries, key=rank)

    def _row(self, place: int, entry: Entry) -> dict[str, Any]:
        score, doubt = entry.score, self.doubted.get(entry.file_name, "")
        reached = score.reached and not doubt
        return {
            "place": str(place) if reached else "–",
            "name": entry.name + (YOU if score.workspace == self.mine else ""),
            "loss": round(score.loss, 3),
            "score": round(score.result, 1) if reached else None,
            "device_minutes": round(score.device_minutes, 2),
            "off_by": round(score.off_by, 2),
            "tokens": score.tokens,
            "seconds": round(score.seconds),
            "note": told(doubt or ("" if score.reached else "target not reached")),
        }

    def __repr__(self) -> str:
        none = told("nobody is on the board yet")
        text = self.table().to_string() if self.entries else none
        return text + self._passed_over()

    def _repr_html_(self) -> str:
        if not self.entries:
            return f"<p>{escape(repr(self))}</p>"
        return self.table().to_html(escape=True) + f"<p>{escape(self._passed_over())}</p>"

    def _passed_over(self) -> str:
        if not self.passed_over:
            return ""
        files, folder = self.passed_over, self.folder
        return "\n" + told(f"{files} files in {folder} are no entries, and were passed over")


def place(workspace: Workspace) -> Path:
    """The common folder of the class, else one of the workspace."""
    chosen = os.environ.get(SETTING, "")
    try:
        return Path(chosen).expanduser() if chosen else workspace.state / "challenge" / "board"
    except RuntimeError as error:
        raise LabError(f"{SETTING}={chosen!r} names no folder: there is no such home") from error


def enter(board: Board, score: Score, name: str) -> None:
    entry = made(score, name)
    if score.origin:
        print(told("a recorded run is nobody's try: it does not go on the board"))
        return
    if score.noticed:
        raise LabError(f"this score does not count: {'; '.join(score.noticed)}")
    if score.workspace != board.mine:
        raise LabError("this score was made in another workspace; only its owner can enter it")
    if score not in GIVEN:
        raise LabError("these are not the figures that task.score(…) gave here; score it once more")
    others = [e for e in board.entries if e.score.workspace != board.mine and e.name == entry.name]
    if others:
        raise LabError(f"somebody else stands on the board as {entry.name!r}; choose another name")
    print(told(f"{entry.name}: entered ({put(board.folder, entry).name})"))


def read(folder: Path, task: Task) -> Board:
    """Those of this task, with what speaks against them."""
    mine = pledge.identity(task.lab.workspace)
    found, passed_over = found_in(folder)
    this = (task.target, task.digest)
    dated = [one for one in found if (one[0].score.target, one[0].score.digest) == this]
    records = {name_of(record): record for record in task.lab.jobs.registry.all()}
    doubted = dict(_doubts(dated, mine, records))
    return Board(folder, tuple(entry for entry, _ in dated), doubted, passed_over, mine)


def _doubts(
    entries: list[Dated], mine: str, records: Mapping[str, Record]
) -> Iterator[tuple[str, str]]:
    """By file. What an author wrote there about the own score is not repeated: it may be any text,
    and as long as it likes."""
    owner: dict[str, str] = {}
    for entry, _ in sorted(entries, key=lambda dated: dated[1]):
        owner.setdefault(entry.name, entry.score.workspace)
    for entry, _ in entries:
        if entry.sealed().seal != entry.seal:
            yield entry.file_name, "edited: the file does not fit its seal"
        elif entry.score.noticed or entry.score.origin:
            yield entry.file_name, "does not count, and says so itself"
        elif owner[entry.name] != entry.score.workspace:
            yield entry.file_name, "somebody else had this name before"
        elif entry.score.workspace == mine and not _known(entry.score, records):
            yield entry.file_name, "edited: this workspace has no run of these figures"


def _known(score: Score, records: Mapping[str, Record]) -> bool:
    """What can be told at once of an entry of one's own; `task.verify` tells the rest."""
    record = records.get(score.job)
    if record is None or record.devices != score.devices:
        return False
    lasted_s = record.status.elapsed_s if record.status else None
    return lasted_s is None or abs(lasted_s - score.seconds) <= ROUNDED_S


def run_of(board: Board, lab: Lab, name: str) -> tuple[Entry, Any]:
    """The best of one's own entries of this name, and the run behind it."""
    records = {name_of(record): record for record in lab.jobs.registry.all() if not record.cleaned}
    for entry in board.ordered():
        is_mine = entry.name == name and entry.score.workspace == board.mine
        if is_mine and entry.score.job in records:
            return entry, Run(lab.jobs, records[entry.score.job])
    raise LabError(
        f"no entry {shown(name)} of a run that this workspace still has; only who has the run can "
        "have it judged again"
    )


def not_so(entry: Entry, found: Score) -> Iterator[str]:
    """What an entry says otherwise than its run, judged again by other samples."""
    said = entry.score
    spread = LUCK * math.hypot(said.error, found.error)
    allowed = {"loss": spread, "seconds": ROUNDED_S, "foreseen": 0.1, "tokens": 0, "devices": 0}
    for name, so_much in allowed.items():
        on_the_board, now = getattr(said, name), getattr(found, name)
        if not abs(on_the_board - now) <= so_much:
            yield f"the entry says {name} {on_the_board:g}, and its run {now:g}"
