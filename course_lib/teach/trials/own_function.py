"""A function that ranks have tried, for a check that calls it in the notebook, without ranks."""

from __future__ import annotations

import io
import runpy
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from course_lib.lab.plain_files import plain
from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.verdict import Trial, place


def comes_back(check: Checklist, trial: Trial) -> None:
    """No rank stayed within the learner's own lines for ever; who waits for another is in none."""
    for rank, event in trial.all("stuck"):
        where = place(event) if "case" in event else "the import"
        check.unless(
            bool(event.get("line")),
            "it comes to an end",
            hint=f"{where}: rank {rank} stayed at line {event['line']} for more than ten seconds. "
            "Look for a loop that never ends.",
        )


def function_tried(check: Checklist, mine: Any, run: Any, name: str) -> Any:
    """What a file of the trial calls so; what is no path is taken for the function itself.

    Of a file that has changed since, nobody knows whether it comes to an end.
    """
    if not isinstance(mine, str | Path):
        return mine
    file = Path(mine)
    check.unless(
        not file.is_file(),
        f"there is a file {file.name}",
        hint=f"There is none in {file.parent}. Run the cell above that writes it.",
    )
    tried = run.paths.program / file.name
    check.unless(
        tried.is_file() and plain(tried).read_bytes() != plain(file).read_bytes(),
        f"the ranks have tried {file.name} as it is now",
        hint="It has changed since. Run the cell above that submits the trial again, then this "
        "check.",
    )
    with redirect_stdout(io.StringIO()):
        return runpy.run_path(str(file)).get(name, ...)
