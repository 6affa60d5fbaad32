"""srun: run a command on the nodes of a job, or of a job made for it."""

from __future__ import annotations

import os
import sys

from course_lib.box.commands.shared import advice, refusal
from course_lib.box.commands.shared.errors import Failure, Unsupported
from course_lib.box.commands.submit import admission, srun_options, waiting_for_nodes
from course_lib.box.commands.submit.job_fields import Fields
from course_lib.box.commands.submit.option_sources import Gathered
from course_lib.box.dispatch import passes
from course_lib.box.queue import state, store
from course_lib.box.queue.records import FINAL_STATES, PENDING, RUNNING, Job

USAGE = "srun [options] program [arguments of the program]"


def run(arguments: list[str]) -> int:
    gathered, command = srun_options.gather(arguments)
    if gathered.given.get("mpi") == "list":
        print("MPI plugin types are...\n\tnone")
        return 0
    if ":" in command:
        raise Unsupported("several components of one step (:)", advice.SEVERAL_STEPS)
    if not command:
        return _fatal("No command given to execute.")
    gathered.say_notes()
    options = srun_options.build(gathered, command, " ".join(["srun", *arguments]))
    if options.distribution.startswith("arbitrary"):
        if not options.nodelist and "SLURM_HOSTFILE" not in os.environ:
            raise Failure(_without_places(options))
        raise Unsupported("--distribution=arbitrary", "Use block, cyclic or plane.")
    if not options.nodelist and os.environ.get("SLURM_HOSTFILE"):
        raise Unsupported("SLURM_HOSTFILE", "Unset it, and name nodes with --nodelist.")
    if options.jobid is not None and "test-only" not in gathered.given:
        return _in_job(options, options.jobid)
    if options.relative is not None:
        return _fatal("--relative option invalid for job allocation request")
    return _in_own_job(options, gathered)


def _without_places(options: srun_options.SrunOptions) -> str:
    """What is wrong with --distribution=arbitrary where no nodes are named."""
    if not options.tasks_given_here:
        return "invalid number of tasks (-n 0)"
    if options.jobid is not None:
        return f"You asked for {options.ntasks} tasks but hostlist specified 0 nodes"
    return refusal.WITHOUT_PLACES


def _fatal(text: str) -> int:
    print(f"srun: fatal: {text}", file=sys.stderr)
    return 1


def _in_job(options: srun_options.SrunOptions, job_id: int) -> int:
    from course_lib.box.steps import srun as node_srun

    job = state.read_job(job_id)
    why = ""
    if job is None or job.state in FINAL_STATES:
        why = "Invalid job id specified"
    elif job.state == PENDING:
        why = "Job is pending execution"
    if why:
        print(
            f"srun: error: Unable to confirm allocation for job {job_id}: {why}\n"
            f"srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {job_id}",
            file=sys.stderr,
        )
        return 1
    return int(node_srun.run(options, job_id))


def _in_own_job(options: srun_options.SrunOptions, gathered: Gathered) -> int:
    from course_lib.box.commands.submit import environment
    from course_lib.box.steps import srun as node_srun

    fields = {
        "name": os.path.basename(options.command[0]),
        "kind": "srun",
        "requeue": 1,
        **gathered.fields,
        "command": os.fsencode(options.command[0]),
        "environment": environment.environment({}),
    }
    _name_fewer_nodes(fields)
    job = admission.complete(fields, gathered)
    if "test-only" in gathered.given:
        return admission.test_only(job, "srun")
    job_id = state.submit(job)
    passes.begin_new_job()
    if not _wait_for_nodes(job_id, options):
        return 1
    return int(node_srun.run(options.with_submission(), job_id))


def _name_fewer_nodes(fields: Fields) -> None:
    """Of the nodes that -w names, those for which -N or -n leave room."""
    names = str(fields.get("want_nodes", "")).split(",")
    most, tasks = int(str(fields.get("nodes_max", 0))), int(str(fields.get("tasks", 0)))
    if len(names) > most > 0:
        print(
            "srun: error: Required nodelist includes more nodes than permitted by max-node count"
            f" ({len(names)} > {most}). Eliminating nodes from the nodelist.",
            file=sys.stderr,
        )
        names = names[:most]
    elif len(names) > tasks > 0:
        print(
            f"srun: Warning: can't run {tasks} processes on {len(names)} nodes,"
            f" setting nnodes to {tasks}",
            file=sys.stderr,
        )
        names = names[:tasks]
    if len(names) > 0 and names[0]:
        fields["want_nodes"] = ",".join(names)


def _wait_for_nodes(job_id: int, options: srun_options.SrunOptions) -> bool:
    """False where the job ended before it began, by scancel, -I or Ctrl-C."""
    store.stay_with_folder()
    told = False
    immediate_s = None if options.immediate_s is None else max(options.immediate_s, 0.1)
    try:
        job, told = waiting_for_nodes.wait(
            job_id, immediate_s, lambda waiting: _tell_queued(waiting, options)
        )
    except KeyboardInterrupt:
        state.mark_cancelled(job_id, os.getuid())
        job = state.read_job(job_id)
    if job is None or job.state != RUNNING:
        _tell_revoked(job_id)
        return False
    if told and not options.quiet:
        print(f"srun: job {job_id} has been allocated resources", file=sys.stderr)
    return True


def _tell_queued(job: Job, options: srun_options.SrunOptions) -> None:
    if options.quiet:
        return
    if job.hold:
        print("srun: Job is in held state, pending scheduler release", file=sys.stderr)
    print(f"srun: job {job.id} queued and waiting for resources", file=sys.stderr)


def _tell_revoked(job_id: int) -> None:
    print(
        f"srun: Job allocation {job_id} has been revoked\nsrun: Force Terminated JobId={job_id}",
        file=sys.stderr,
    )
