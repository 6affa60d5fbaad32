"""Run the course without a browser: every solution notebook, and one table at the end."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.lab.errors import LabError
from course_lib.lab.queue.records import Record, Registry
from course_lib.lab.runs.clean import KEEP
from course_lib.lab.workspace import Workspace
from course_lib.publish import executed
from course_lib.publish.book import origin
from course_lib.publish.building.build import folder_of, write
from course_lib.publish.building.source import lessons_in, number_of
from course_lib.shipped import SHIPPED
from course_lib.teach import claims
from course_lib.teach.claims import Claim
from course_lib.words import ENGLISH

CELL_TIMEOUT_S = 900
# Exit status of a shell command that Control-C ended.
STOPPED = 130
ANSI_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Result:
    lesson: str
    # Empty if the lesson succeeded; otherwise the cell and the last line of its error.
    failure: str
    seconds: float
    jobs: int
    claims: tuple[Claim, ...] = ()


def run_lesson(path: Path, workspace: Path) -> Result:
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    from course_lib.lab.jupyter.kernels import NotebookKernels

    client = NotebookClient(
        nbformat.read(path, as_version=4),
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        kernel_manager_class=NotebookKernels,
        resources={"metadata": {"path": str(path.parent)}},
    )
    notebook = client.nb
    jobs_before, claims_before = len(_jobs(workspace)), len(claims.kept(workspace))
    started = time.monotonic()
    failure = ""
    try:
        client.execute(env={**os.environ, "COURSE_WORKSPACE": str(workspace)})
    except Exception as error:
        if _was_stopped(client):
            raise KeyboardInterrupt from error
        if not isinstance(error, CellExecutionError | CellTimeoutError | DeadKernelError):
            raise
        failure = _failure(notebook, error)
    seconds = time.monotonic() - started
    jobs, made = _jobs(workspace)[jobs_before:], claims.kept(workspace, claims_before)
    origin.write(notebook, origin.of([*_reused_runs(path, workspace, jobs), *jobs]))
    executed.keep(notebook, path, workspace)
    return Result(path.stem, failure, seconds, len(jobs), tuple(made))


def _was_stopped(client: object) -> bool:
    """Return whether a signal stopped the run. nbclient then raises one of several errors."""
    return getattr(client, "_async_cleanup_kernel_future", None) is not None


def _failure(notebook: Any, error: Exception) -> str:
    """Return the id of the cell that ended the lesson, and the last line of its error."""
    from nbclient.exceptions import CellExecutionError

    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if isinstance(error, CellExecutionError):
        failed = [cell for cell in cells if cell.execution_count is not None][-1]
        return f"cell {failed.id}: {_last_line(f'{error.ename}: {error.evalue}')}"
    unrun = next((cell.id for cell in cells if cell.execution_count is None), "?")
    return f"cell {unrun}: {_last_line(str(error))}"


def _last_line(text: str) -> str:
    return (ANSI_COLOUR.sub("", text).strip().splitlines() or [""])[-1]


def _reused_runs(path: Path, workspace: Path, made: list[Record]) -> list[Record]:
    """Return the runs of an earlier execution of this lesson that this execution used again."""
    import nbformat

    file = executed.place_of(path, workspace)
    before = origin.read(nbformat.read(file, as_version=4)) if file.is_file() else None
    names, new = before.runs if before else (), {record.name for record in made}
    known = {record.folder: record for record in _jobs(workspace)}
    return [known[name] for name in names if name in known and known[name].name not in new]


def _jobs(workspace: Path) -> list[Record]:
    """Return all jobs that were submitted there, including those whose folders are deleted."""
    return Registry(Workspace(workspace)).all()


def table(results: list[Result]) -> str:
    width = max([len("lesson"), *(len(result.lesson) for result in results)])
    lines = [f"{'lesson':{width}}  result  seconds  jobs"]
    for result in results:
        verdict = "FAILED" if result.failure else "passed"
        lines.append(f"{result.lesson:{width}}  {verdict}  {result.seconds:7.1f}  {result.jobs:4d}")
    lines += [f"\n{result.lesson}: {result.failure}" for result in results if result.failure]
    return "\n".join(lines)


def chosen(folder: Path, wanted: list[str], ending: str = "ipynb") -> list[Path]:
    """Return the lessons with these numbers or name prefixes; all if none is given."""
    found = lessons_in(folder, ending)
    by_number = {number_of(path): path for path in found}
    named: set[Path] = set()
    for word in wanted:
        begun = [path for path in found if word and path.name.startswith(word)]
        if not begun:
            known = ", ".join(by_number) or "none"
            raise LabError(f"{word!r} begins no lesson; there are: {known}")
        named.update([by_number[word]] if word in by_number else begun)
    return [path for path in found if path in named or not wanted]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="course run",
        description="Runs every solution notebook from top to bottom, with its real jobs.",
    )
    parser.add_argument("lessons", nargs="*", help="lessons, such as 00 07b; default: all")
    parser.add_argument(
        "--workspace",
        type=Path,
        help="folder for the runs; on a cluster, all nodes must see it; default: a new folder",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep the runs that lessons delete at their end, for `course record`",
    )
    parser.add_argument(
        "--language", default=ENGLISH, help="build and run the notebooks of this translation"
    )
    options = parser.parse_args(argv)
    folder = folder_of(SHIPPED, "solutions", options.language)
    if options.language != ENGLISH:  # translations are not in Git, so existing files may be old
        write(SHIPPED, options.language)
    paths = chosen(folder, options.lessons)
    if not paths:
        raise LabError(f"there are no notebooks in {folder}; `course build` in a clone makes them")
    workspace = options.workspace or Path(tempfile.mkdtemp(prefix="course-run-", dir=Path.cwd()))
    try:
        workspace.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"{workspace} cannot be a workspace: {error.strerror}") from error
    if options.keep:
        os.environ[KEEP] = "1"
    results: list[Result] = []
    try:
        for path in paths:
            print(f"{path.stem} …", file=sys.stderr, flush=True)
            results.append(run_lesson(path, workspace.resolve()))
    except KeyboardInterrupt:
        _tell(results, workspace)
        print(f"stopped in {paths[len(results)].stem}; a job of it may still run: course runs")
        return STOPPED
    _tell(results, workspace)
    return int(any(result.failure for result in results))


def _tell(results: list[Result], workspace: Path) -> None:
    if results:
        print(table(results))
    if made := [(result.lesson, claim) for result in results for claim in result.claims]:
        print(f"\n{claims.table(made)}")
    print(f"\nruns and executed notebooks are in {workspace}")
