"""`python cancel_each.py NOTEBOOK WORKSPACE [killed]`: print what a lesson says of cancelled runs.

The lesson runs on its recorded runs. Then each cell that submits runs once more, with jobs that are
submitted to the box, held there, and cancelled. After it, all later cells run that use its results.
With `killed`, the supervisor of each job is killed, and the log ends after one iteration.
The output of these cells is printed as JSON.
"""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from course_lib.lab import lab as labs
from course_lib.lab.clusters import box_bin
from course_lib.lab.queue import submission
from course_lib.lab.queue.jobs import PAUSES_ON_THE_BOX_S, Jobs
from course_lib.lab.queue.records import Registry
from course_lib.lab.queue.slurm import Slurm
from course_lib.lab.recorded.recording_index import NoRecordingError
from course_lib.lab.workspace import Workspace
from course_lib.mistakes import left_open
from course_lib.mistakes.display import install
from course_lib.mistakes.errors import CourseError
from course_lib.teach.checklist import NotYet

OF_SUBMITTING = r"^.*: job \d+.*\n"
ITERATION = re.compile(r"^ iteration .*\n", re.MULTILINE)


class Cancelling:
    """Stand-in for the recordings while `is_on` is set."""

    def __init__(self, folder: Path, kills: bool):
        on_the_box = {**os.environ, "PATH": f"{box_bin()}{os.pathsep}{os.environ['PATH']}"}
        registry = Registry(Workspace(folder))
        self.box = Jobs(registry, PAUSES_ON_THE_BOX_S, lambda text: None, Slurm(on_the_box))
        self.is_on, self.submitted, self.cancelled, self.kills = False, 0, 0, kills
        self._same, self._recorded = labs._same_recipe, labs._recorded_run
        vars(labs).update(_same_recipe=self.same_recipe, _recorded_run=self.recorded_run)

    def same_recipe(self, jobs, wanted):
        self.submitted += 1
        return None if self.is_on else self._same(jobs, wanted)

    def recorded_run(self, jobs, wanted):
        if not self.is_on:
            return self._recorded(jobs, wanted)
        record = submission.submit(self.box, wanted, 2)
        self.kill(record.job_id) if self.kills else self.box.cancel(record)
        self.cancelled += 1
        while not self.box.statuses([record], 0.0)[record.token].ended:
            pass
        if self.kills:
            self.leave_one_iteration(jobs, wanted, record)
        return next(one for one in self.box.registry.all() if one.token == record.token)

    def kill(self, job_id):
        self.box.slurm.release(job_id)
        pid = 0
        with closing(sqlite3.connect(Path(os.environ["COURSE_BOX_HOME"], "state.sqlite"))) as state:
            while not pid:
                time.sleep(0.1)
                asked = "SELECT supervisor_pid FROM job WHERE id = ?"
                (pid,) = state.execute(asked, (job_id,)).fetchone()
        os.kill(pid, signal.SIGKILL)

    def leave_one_iteration(self, jobs, wanted, record):
        try:
            complete = self._recorded(jobs, wanted)
        except NoRecordingError:  # a later recipe names the folder of the run
            return
        text = jobs.registry.paths(complete).log.read_text()
        jobs.registry.update(complete, cleaned=True)
        first = ITERATION.search(text)
        end = first.end() if first else len(text) // 2
        jobs.registry.paths(record).log.write_text(text[:end])


@dataclass
class Cell:
    name: str
    source: str
    makes: set[str]
    reads: set[str]
    said: str = ""
    after: dict[str, Any] = field(default_factory=dict)


@dataclass
class Lesson:
    shell: InteractiveShell
    cells: list[Cell]
    cancelling: Cancelling
    said: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> None:
        """Run each cell. Then run each submitting cell once more, with its jobs cancelled."""
        befores = []
        for cell in self.cells:
            before, submitted = copied(self.shell.user_ns), self.cancelling.submitted
            error, cell.said = self.result_of(cell)
            if error is not None:
                raise SystemExit(f"{cell.name}: {error}")
            cell.after = copied(self.shell.user_ns)
            if self.cancelling.submitted > submitted:
                befores.append((cell, before))
        for cell, before in befores:
            self.cancelled(cell, before)

    def cancelled(self, submitting: Cell, before: dict[str, Any]) -> None:
        self.shell.user_ns.clear()
        self.shell.user_ns.update(copied(before))
        self.cancelling.is_on = True
        touched: set[str] = set()
        self.cancelling.cancelled = 0
        left_open.LEFT.clear()
        for cell in self.cells[self.cells.index(submitting) :]:
            is_first = cell is submitting
            error, out = None, cell.said
            if is_first or cell.reads & touched:
                error, out = self.result_of(cell)
            self.cancelling.is_on = False
            if not is_first and error is None and out == cell.said:
                made = {name: cell.after[name] for name in cell.makes if name in cell.after}
                self.shell.user_ns.update(copied(made))
                touched -= cell.makes
                continue
            touched |= cell.makes
            told = isinstance(error, CourseError | NotYet) or (
                isinstance(error, NameError) and left_open.why_missing(error.name)
            )
            self.said.append(
                {
                    "submits": submitting.name,
                    "cell": cell.name,
                    "cancelled": self.cancelling.cancelled,
                    "kind": type(error).__name__ if error else "",
                    "error": str(error) if error else "",
                    "is_told": bool(told),
                    "out": out,
                    "as_it_is": cell.said,
                }
            )

    def result_of(self, cell: Cell) -> tuple[BaseException | None, str]:
        with capture_output() as shown:
            result = self.shell.run_cell(cell.source, store_history=False)
        rich = "\n".join(output.data.get("text/plain", "") for output in shown.outputs)
        out = re.sub(OF_SUBMITTING, "", f"{shown.stdout}\n{rich}", flags=re.MULTILINE)
        return result.error_before_exec or result.error_in_exec, out.strip()


def copied(value: Any) -> Any:
    """Copy containers but not their elements, because a later cell may append to a list."""
    if type(value) is dict:
        return {key: copied(one) for key, one in value.items()}
    return [copied(one) for one in value] if type(value) is list else value


def cells_of(path: Path, shell: InteractiveShell) -> list[Cell]:
    """Return the code cells, except cells that delete the runs that later cells read."""
    found = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code" and "lab.clean(" not in cell.source:
            source = shell.transform_cell(cell.source)
            nodes = list(ast.walk(ast.parse(source)))
            reads = {node.id for node in nodes if isinstance(node, ast.Name)}
            reads -= {node.arg for node in nodes if isinstance(node, ast.arg)}
            reads |= set(re.findall(r"{(\w+)", cell.source))  # of a line for the shell
            found.append(Cell(cell.id, cell.source, left_open.names_in(source), reads))
    return found


def main(notebook: str, folder: str, how: str = "") -> None:
    vars(submission)["_release"] = lambda jobs, record: jobs.registry.update(record, released=True)
    os.environ["COURSE_WORKSPACE"] = folder
    os.chdir(Path(notebook).parent)
    shell = InteractiveShell.instance(colors="NoColor")
    shell.system = shell.system_piped
    install(shell)
    lesson = Lesson(shell, cells_of(Path(notebook), shell), Cancelling(Path(folder), bool(how)))
    lesson.run()
    print(json.dumps(lesson.said))


if __name__ == "__main__":
    main(*map(os.path.abspath, sys.argv[1:3]), *sys.argv[3:])
