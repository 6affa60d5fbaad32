"""Stacks of all ranks of a running job, requested by a small step beside the job's own step."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib import read
from course_lib.lab.errors import LabError
from course_lib.lab.job import quote
from course_lib.lab.job.site import Site
from course_lib.lab.queue.slurm import job_environment
from course_lib.words import _

if TYPE_CHECKING:
    from course_lib.lab.runs.run import Run
    from course_lib.read import Stacks

ASKS = "process/places.py"
ANSWERED_S, SETTLED_S = 10.0, 0.3


def ask_stacks(run: Run) -> Stacks:
    if run.origin:  # a recorded run already has its stacks
        return read.stacks(run.paths.stacks)
    if run.ended or run.status.waiting:
        raise LabError(
            _(
                "{run} has no ranks to ask: it is {reason}. Only a running job has stacks, even if "
                "it hangs",
                run=run.title,
                reason=run.reason,
            )
        )
    folder = run.paths.stacks
    before = _sizes(folder)
    slurm = run._jobs.slurm
    slurm.call(
        "srun", "--overlap", f"--jobid={run.job_id}", f"--nodes={run.recipe.nodes}",
        "--ntasks-per-node=1", "--cpus-per-task=1",
        *step_beside(Site(**run.site), ASKS, str(run.folder)),
        environment=job_environment(slurm.here),
    )  # fmt: skip
    end_s = time.monotonic() + ANSWERED_S
    while time.monotonic() < end_s:
        sizes = _sizes(folder)
        if sizes and all(size > before.get(name, 0) for name, size in sizes.items()):
            break
        time.sleep(0.05)
    time.sleep(SETTLED_S)  # a stack dump is written line by line
    return read.stacks(folder)


def _sizes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in folder.glob("rank*.txt")}


def step_beside(site: Site, program: str, *arguments: str) -> list[str]:
    """Return the command for srun. It uses `python` of the nodes, which may differ from the
    notebook's Python in name and location."""
    lines = [quote.words(command) for command in site.commands]
    if site.path:
        lines.append(quote.Quoted(f'export PATH={quote.word(site.path)}:"$PATH"'))
    for name, value in site.environment.items():
        lines.append(quote.Quoted(f"export {quote.word(name)}={quote.word(value)}"))
    run = quote.words([*site.container, "python", f"{site.programs}/{program}", *arguments])
    shell = ["bash", "-lc" if site.login_shell else "-c"]
    return [*shell, "\n".join(["set -e", *lines, f"exec {run}"])]
