"""Load a learner's file and its functions, if the ranks of a trial could load it."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from course_lib.lab.workspace import plain, programs_folder
from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.torch_errors import OWN_GROUP
from course_lib.teach.trials.verdict import Event, Trial, place
from course_lib.words import N_, _

TOO_EARLY = N_(
    "The file is imported before the ranks have met: ask for rank and size inside "
    "the class or function. The trial makes the groups, of 1, 2, 3 and 4 ranks."
)
OWN_WORK = N_(
    "This is the answer of the course, and the exercise is to write your own. Replace it with "
    "your own lines."
)


def could_load(check: Checklist, trial: Trial) -> None:
    imported = _("the file can be imported")
    for _unused, event in trial.all("own group"):
        check.stop(imported, f"{_at(event)}: {_(OWN_GROUP)}")
    for _unused, event in trial.all("not own work"):
        uses = _("{where} uses {what}.", where=_at(event), what=event["text"])
        check.stop(_("the work is your own"), f"{uses} {_(OWN_WORK)}")
    for _unused, event in trial.all("cannot load"):
        hint = f"{_at(event)}: {event['kind']}: {event['text']}"
        if "init_process_group" in event["text"]:
            hint += f"\n{_(TOO_EARLY)}"
        if event["kind"] == "SystemExit":
            hint = _("{where} ends the program. Define a function instead.", where=_at(event))
        check.stop(imported, hint)
    for _unused, event in trial.all("no function"):
        check.stop(
            _("the file defines {event}", event=event["wanted"]),
            _(
                "It defines {there}. The name has to be {event}, letter by letter.",
                there=", ".join(event["there"]) or _("nothing that can be called"),
                event=event["wanted"],
            ),
        )
    for rank, event in trial.all("printed"):
        check.stop(
            _("it does not print too much"),
            _("Rank {rank} printed more than {event} KiB and was stopped. Look for a loop "
              "without end.", rank=rank, event=event["bytes"] >> 10),
        )  # fmt: skip


def _at(event: Event) -> str:
    return _("line {line}", line=event["line"]) if event.get("line") else _("the file")


def comes_back(check: Checklist, trial: Trial) -> None:
    """Check that no rank hung in the learner's own lines. Waiting for another rank is accepted."""
    for rank, event in trial.all("stuck"):
        where = place(event) if "case" in event else _("the import")
        check.unless(
            bool(event.get("line")),
            _("it ends"),
            hint=_("{where}: rank {rank} stayed at line {event} for more than ten seconds. "
                   "Look for a loop that never ends.", where=where, rank=rank, event=event["line"]),
        )  # fmt: skip


@contextlib.contextmanager
def _beside(file: Path) -> Iterator[None]:
    """Let the file import its neighbours and the programs of the course, as on the ranks."""
    before = [*sys.path]
    sys.path[:0] = [str(file.parent), str(programs_folder())]
    try:
        yield
    finally:
        sys.path[:] = before


def function_tried(check: Checklist, mine: Any, run: Any, name: str) -> Any:
    """Return the function of this name from the learner's file. Return a non-path unchanged.

    The file has to be the one in the trial. A changed file might never end.
    """
    if not isinstance(mine, str | Path):
        return mine
    file = Path(mine)
    check.needs(
        file.is_file(),
        _("there is a file {name}", name=file.name),
        hint=_("There is none in {parent}. Run the cell above that writes it.", parent=file.parent),
    )
    tried = run.paths.program / file.name
    check.needs(
        not tried.is_file() or plain(tried).read_bytes() == plain(file).read_bytes(),
        _("the trial ran the current version of {name}", name=file.name),
        hint=_(
            "It has changed since. Run the cell above that submits the trial again, then "
            "this check."
        ),
    )
    with redirect_stdout(io.StringIO()), _beside(file):
        return runpy.run_path(str(file)).get(name, ...)
