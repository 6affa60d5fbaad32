"""The srun command: run a command on the nodes of a job, or of a new job made for it."""

from __future__ import annotations

import os
import sys

from course_lib.box.commands.command_line import Failure, Unsupported
from course_lib.box.commands.submit import admission
from course_lib.box.commands.submit.options import Gathered, job_environment, number
from course_lib.box.dispatch import upkeep
from course_lib.box.queue import state
from course_lib.box.queue.records import FINAL_STATES, PENDING, Job
from course_lib.box.steps import request

# Variables whose names do not follow from the option's name. A later variable wins.
VARIABLES = {
    "chdir": ("SLURM_REMOTE_CWD", "SLURM_WORKING_DIR"),
    "cpus-per-task": ("SRUN_CPUS_PER_TASK",),
    "error": ("SLURM_STDERRMODE",),
    "export": ("SLURM_EXPORT_ENV", "SRUN_EXPORT_ENV"),
    "input": ("SLURM_STDINMODE",),
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "ntasks": ("SLURM_NPROCS", "SLURM_NTASKS"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "output": ("SLURM_STDOUTMODE",),
    "time": ("SLURM_TIMELIMIT",),
}
# Options that a step inside a job does not take from SLURM_JOB_NAME and SLURM_CPUS_PER_TASK.
ONLY_OUTSIDE = ("job-name", "cpus-per-task")
USAGE = "srun [options] program [arguments of the program]"


def gather(arguments: list[str]) -> tuple[Gathered, list[str]]:
    """Read the options. The command line overrides environment variables."""
    gathered = Gathered("srun", "r", "SLURM_")
    pairs, command = gathered.syntax.parse(arguments)
    inside = "SLURM_JOB_ID" in os.environ
    gathered.apply_environment(skip=ONLY_OUTSIDE if inside else ("cpus-per-task",))
    for option, names in VARIABLES.items():
        values = [os.environ[name] for name in names if os.environ.get(name)]
        gathered.apply([(option, value) for value in values], "environment")
    gathered.apply(pairs, "command line")
    return gathered, command


def run(arguments: list[str]) -> int:
    gathered, command = gather(arguments)
    given = gathered.given
    if ":" in command:
        advice = "Start each with an srun of its own."
        raise Unsupported("several components of one step (:)", advice)
    _check_mpi(gathered)
    if not command:
        raise Failure("No command given to execute.", fatal=True)
    if "whole" in given and {"exact", "exclusive"} & given.keys():
        raise Failure("--exact and --whole are mutually exclusive.")
    _check_names(gathered)
    gathered.say_notes()
    if "jobid" in given:
        return _in_job(gathered, command, number(given["jobid"], "jobid", 0))
    return _in_own_job(gathered, command)


def _check_mpi(gathered: Gathered) -> None:
    mpi = gathered.given.get("mpi", "none")
    if mpi == "none":
        return
    if gathered.sources["mpi"] != "environment":
        raise Unsupported(f"--mpi={mpi}", "Leave it out: torch.distributed does not use it.")
    gathered.say_left_aside("mpi", mpi, "the box has no MPI, and torch.distributed does not use it")


def _check_names(gathered: Gathered) -> None:
    names = str(gathered.fields.get("want_nodes", "")).split(",")
    most = [int(str(gathered.fields.get(name) or len(names))) for name in ("nodes_min", "tasks")]
    if len(names) > min(most):
        raise Unsupported("--nodelist longer than --nodes or --ntasks", "Name fewer nodes.")


def _in_job(gathered: Gathered, command: list[str], job_id: int) -> int:
    for name in ("exclude", "time"):
        if name in gathered.given:
            raise Unsupported(f"--{name} of a step", f"Give --{name} to the job.")
    job = state.read_job(job_id)
    why = "Job is pending execution"
    if job is None or job.state in FINAL_STATES:
        why = "Invalid job id specified"
    elif job.state != PENDING:
        return request.run(gathered, command, job, owns_job=False)
    print(
        f"srun: error: Unable to confirm allocation for job {job_id}: {why}\n"
        f"srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {job_id}",
        file=sys.stderr,
    )
    return 1


def _in_own_job(gathered: Gathered, command: list[str]) -> int:
    fields = {
        "name": os.path.basename(command[0]),
        "kind": "srun",
        **gathered.fields,
        "command": os.fsencode(command[0]),
        "environment": job_environment({}),
    }
    job_id = state.submit(admission.complete(fields, gathered))
    upkeep.begin_new_job()
    job = _wait_for_nodes(job_id, "quiet" in gathered.given)
    return request.run(gathered, command, job, owns_job=True) if job else 1


def _wait_for_nodes(job_id: int, quiet: bool) -> Job | None:
    """Wait for the nodes. Return None if the job ended first, by scancel or Ctrl-C."""
    try:
        job = admission.wait_for_nodes("srun", job_id, quiet)
    except KeyboardInterrupt:
        state.mark_cancelled(job_id, os.getuid())
        job = None
    if job is None:
        print(
            f"srun: Job allocation {job_id} has been revoked\n"
            f"srun: Force Terminated JobId={job_id}",
            file=sys.stderr,
        )
    return job
