"""The srun command: run a command on the nodes of a job, or of a new job made for it."""

from __future__ import annotations

import os
import sys

from course_lib.box.commands.command_line import Failure, Unsupported
from course_lib.box.commands.submit import admission
from course_lib.box.commands.submit.options import Fields, Gathered, job_environment, number
from course_lib.box.dispatch import upkeep
from course_lib.box.queue import state, store
from course_lib.box.queue.records import FINAL_STATES, PENDING, RUNNING, Job
from course_lib.box.steps.step_request import SrunOptions

LETTER, PREFIX = "r", "SLURM_"
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
    "wait": ("SLURM_WAIT",),
}
# Options that a step inside a job does not take from SLURM_JOB_NAME and SLURM_CPUS_PER_TASK.
ONLY_OUTSIDE = ("job-name", "cpus-per-task")


def gather(arguments: list[str]) -> tuple[Gathered, list[str]]:
    """Read the options. The command line overrides environment variables."""
    gathered = Gathered("srun", LETTER, PREFIX)
    pairs, command = gathered.syntax.parse(arguments)
    inside = "SLURM_JOB_ID" in os.environ
    gathered.apply_environment(skip=ONLY_OUTSIDE if inside else ("cpus-per-task",))
    _apply_special(gathered)
    gathered.apply(pairs, "command line")
    if "verbose" in gathered.given and "quiet" in gathered.given:
        raise Failure("don't specify both --verbose (-v) and --quiet (-Q)")
    return gathered, command


def _apply_special(gathered: Gathered) -> None:
    for option, names in VARIABLES.items():
        for name in names:
            value = os.environ.get(name)
            if value:
                gathered.apply([(option, value)], "environment")


def build(gathered: Gathered, command: list[str], submit_line: str) -> SrunOptions:
    mpi = gathered.given.get("mpi", "")
    if mpi not in ("", "none"):
        if gathered.sources["mpi"] != "environment":
            raise Unsupported(f"--mpi={mpi}", "Leave it out: torch.distributed needs none.")
        gathered.say_left_aside("mpi", mpi, "the box has no MPI, and torch.distributed needs none")
        gathered.given["mpi"] = ""
    return SrunOptions(
        command=command,
        submit_line=submit_line,
        environment=dict(os.environb),
        nodes_given_here=gathered.sources.get("nodes") == "command line",
        **_read_as_for_a_job(gathered.fields),
        **_numbers(gathered.given),
        **_switches(gathered),
        **{name: gathered.given.get(name.replace("_", "-"), "") for name in TEXTS},
    )


def _read_as_for_a_job(fields: Fields) -> Fields:
    numbers = {
        "nodes_min": "nodes_min",
        "nodes_max": "nodes_max",
        "ntasks": "tasks",
        "ntasks_per_node": "tasks_per_node",
        "cpus_per_task": "cpus_per_task",
        "time_min": "time_limit_min",
    }
    texts = {
        "nodelist": "want_nodes",
        "exclude": "exclude_nodes",
        "open_mode": "open_mode",
    }
    found: Fields = {own: int(str(fields[name])) for own, name in numbers.items() if name in fields}
    return found | {own: str(fields.get(name, "")) for own, name in texts.items()}


def _numbers(given: dict[str, str]) -> Fields:
    def count(name: str) -> int | None:
        return number(given[name], name, 0) if given.get(name) else None

    kill = given.get("kill-on-bad-exit")
    return {
        "wait_s": count("wait"),
        "jobid": count("jobid"),
        "kill_on_bad_exit": None if kill is None else bool(count("kill-on-bad-exit") or not kill),
        "quiet": int(given.get("quiet", "0") or 0),
    }


def _switches(gathered: Gathered) -> Fields:
    given = gathered.given
    whole_node = "jobid" not in given and "ntasks" not in given
    return {
        "exact": "exact" in given or ("exclusive" in given and not whole_node),
        **{name: name.replace("_", "-") in given for name in SWITCHES},
    }


SWITCHES = ("label", "unbuffered", "overlap", "overcommit", "pty")
TEXTS = (
    *("distribution", "output", "error", "input", "chdir", "export", "job_name"),
    *("gpus", "gpus_per_node", "gpus_per_task", "gres"),
)


USAGE = "srun [options] program [arguments of the program]"


def run(arguments: list[str]) -> int:
    gathered, command = gather(arguments)
    if gathered.given.get("mpi") == "list":
        print("MPI plugin types are...\n\tnone")
        return 0
    if ":" in command:
        raise Unsupported(
            "several components of one step (:)", "Start each with an srun of its own."
        )
    if not command:
        raise Failure("No command given to execute.", fatal=True)
    gathered.say_notes()
    options = build(gathered, command, " ".join(["srun", *arguments]))
    if options.jobid is not None and "test-only" not in gathered.given:
        return _in_job(options, options.jobid)
    return _in_own_job(options, gathered)


def _in_job(options: SrunOptions, job_id: int) -> int:
    from course_lib.box.steps import srun as node_srun

    if options.exclude:
        raise Unsupported("--exclude of a step", "Name the nodes of a step with --nodelist.")

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


def _in_own_job(options: SrunOptions, gathered: Gathered) -> int:
    from course_lib.box.steps import srun as node_srun

    fields = {
        "name": os.path.basename(options.command[0]),
        "kind": "srun",
        "requeue": 1,
        **gathered.fields,
        "command": os.fsencode(options.command[0]),
        "environment": job_environment({}),
    }
    names = str(fields.get("want_nodes", "")).split(",")
    if len(names) > min(
        int(str(fields.get(name) or len(names))) for name in ("nodes_max", "tasks")
    ):
        raise Unsupported("--nodelist of more nodes than --nodes or --ntasks", "Name fewer nodes.")
    job = admission.complete(fields, gathered)
    if "test-only" in gathered.given:
        return admission.test_only(job, "srun")
    job_id = state.submit(job)
    upkeep.begin_new_job()
    if not _wait_for_nodes(job_id, options):
        return 1
    return int(node_srun.run(options.with_submission(), job_id))


def _wait_for_nodes(job_id: int, options: SrunOptions) -> bool:
    """Wait for the nodes. Return False if the job ended first, by scancel, -I or Ctrl-C."""
    store.stay_with_folder()
    told = False
    try:
        job, told = admission.wait_for_nodes(job_id, lambda waiting: _tell_queued(waiting, options))
    except KeyboardInterrupt:
        state.mark_cancelled(job_id, os.getuid())
        job = state.read_job(job_id)
    if job is None or job.state != RUNNING:
        _tell_revoked(job_id)
        return False
    if told and not options.quiet:
        print(f"srun: job {job_id} has been allocated resources", file=sys.stderr)
    return True


def _tell_queued(job: Job, options: SrunOptions) -> None:
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
