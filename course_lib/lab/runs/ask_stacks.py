"""Asks all ranks of a running job where they are, by a small step beside the job's own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from course_lib import read
from course_lib.lab.errors import LabError
from course_lib.lab.job.run_paths import RunPaths
from course_lib.lab.job.site import Site
from course_lib.lab.queue.slurm import job_environment
from course_lib.lab.runs.step_beside import step_beside

if TYPE_CHECKING:
    from course_lib.lab.runs.run import Run
    from course_lib.read import Stacks

ASKS = "process/places.py"
SETTLED_S = 0.3


def ask_stacks(run: Run, wait_s: float) -> Stacks:
    if run.origin:  # a recorded run was asked where it ran
        return read.stacks(run.paths.stacks)
    if run.ended or run.status.waiting:
        raise LabError(
            f"{run.name} (job {run.job_id}) has no ranks to ask: it is {run.reason}. Stacks are "
            "those of a job that runs, as one does that hangs"
        )
    paths: RunPaths = run.paths
    before = _sizes(paths)
    slurm = run._jobs.slurm
    slurm.call(
        "srun", "--overlap", f"--jobid={run.job_id}", f"--nodes={run.recipe.nodes}",
        "--ntasks-per-node=1", "--cpus-per-task=1",
        *step_beside(Site(**run.site), ASKS, str(paths.folder)),
        environment=job_environment(slurm.here),
    )  # fmt: skip
    end_s = time.monotonic() + wait_s
    while time.monotonic() < end_s:
        sizes = _sizes(paths)
        if sizes and all(size > before.get(name, 0) for name, size in sizes.items()):
            break
        time.sleep(0.05)
    time.sleep(SETTLED_S)  # a dump is written line by line
    return read.stacks(paths.stacks)


def _sizes(paths: RunPaths) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in paths.stacks.glob("rank*.txt")}
