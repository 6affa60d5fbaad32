"""Checks of a submission, as Slurm's controller makes them, and the wait for a job's nodes or end.

The checks fill in defaults, refuse impossible jobs and tell --test-only when a job would start.
"""

from __future__ import annotations

import os
import sys
import time
from _sqlite3 import Connection

from course_lib.box import hostlist, settings
from course_lib.box.commands.command_line import Failure, Unsupported
from course_lib.box.commands.submit.options import Gathered
from course_lib.box.dispatch import upkeep
from course_lib.box.queue import arrays, state, store
from course_lib.box.queue.records import FINAL_STATES, PENDING, RUNNING, Job
from course_lib.box.scheduling import first_come, job_placement
from course_lib.box.settings import UNLIMITED
from course_lib.box.steps import filename_patterns

NOT_AVAILABLE = "Requested node configuration is not available"


class Refused(Exception):
    """Refusal of the controller. `remark` is a line that the controller prints first."""

    def __init__(self, why: str, remark: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.remark = remark


def check_client(job: Job) -> None:
    """Refuse requests that the command itself refuses before it asks the controller."""
    if job.memory and job.memory_per_cpu:
        words = "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."
        raise Failure(words, fatal=True)
    named = len(job.want_nodes.split(",")) if job.want_nodes else 0
    if job.nodes_given and named > job.nodes_min:
        raise Failure(f"invalid number of nodes (-N {named}-{job.nodes_min})")
    if job.gpus and (job.gpus_per_node or job.gres or job.gpus_per_task):
        raise Unsupported("--gpus together with another count of devices", "Use --gpus-per-node.")
    if job.gpus_per_task and not (job.tasks_given or job.tasks_per_node):
        raise Failure(
            "Failed to validate job spec. --gpus-per-task used without either --gpus or"
            " -n/--ntasks is not allowed.",
            "Invalid generic resource (gres) specification",
        )


def check_names(job: Job, box: settings.Settings) -> None:
    """Check the names of the partition, the nodes and the dependency."""
    for name in job.partition.split(","):
        if name not in box.partition_names:
            raise Refused(
                "Invalid partition name specified",
                f"invalid partition specified: {name or '(null)'}",
            )
    wanted = [name for name in job.want_nodes.split(",") if name]
    excluded = [name for name in job.exclude_nodes.split(",") if name]
    unknown = (set(wanted) | set(excluded)) - set(box.node_names)
    if unknown or set(wanted) & set(excluded):
        raise Refused("Invalid node name specified")
    try:
        if job.dependency:
            first_come.conditions(job.dependency)
    except first_come.DependencyError as error:
        raise Refused(str(error)) from None


def check_limits(job: Job, box: settings.Settings) -> None:
    """Check the limits of the partition. Held jobs are checked too."""
    most = box.max_time_min
    if most is not None and not 0 <= job.time_limit_min <= most:
        raise Refused("Requested time limit is invalid (missing or exceeds some limit)")
    if job.nodes_min > box.nodes or (job.nodes_min < 1 and not job.hold):
        raise Refused("Node count specification invalid")
    if job.tasks * max(job.cpus_per_task, 1) > box.nodes * box.cpus_per_node:
        raise Refused("More processors requested than permitted")


def check_controller(job: Job, box: settings.Settings, test_only: bool = False) -> int:
    """Make all checks of the controller. Return the number of nodes that a waiting job shows.

    A held job is not checked for fit until it is released, except with --test-only.
    """
    check_names(job, box)
    check_limits(job, box)
    cpus = max(job.cpus_per_task, 1)
    by_cpus = -(-job.tasks * cpus // box.cpus_per_node) if job.tasks_given and job.tasks > 1 else 1
    by_tasks = -(-job.tasks // job.tasks_per_node) if job.tasks_per_node else 1
    least = job.nodes_min
    if not job.nodes_given:
        least = min(max(least, by_cpus, by_tasks), box.nodes)
    if job.hold and not test_only:
        return least
    try:
        return max(least, len(job_placement.place_on_empty_box(job, box)))
    except job_placement.NeverFits as never:
        raise Refused(NOT_AVAILABLE, str(never)) from None


Fields = dict[str, object]


VERBS = {
    "salloc": "Job submit/allocate failed",
    "sbatch": "Batch job submission failed",
    "srun": "Unable to allocate resources",
}


def complete(fields: Fields, gathered: Gathered) -> Fields:
    """Return all fields of a job. Refuse a job that can never run."""
    box = settings.load()
    full = _with_defaults(fields, box)
    _settle_counts(full, gathered.command)
    job = Job(id=0, **full)
    check_client(job)
    try:
        nodes = check_controller(job, box, "test-only" in gathered.given)
    except Refused as refused:
        raise _worded(refused, gathered) from None
    full["partition"] = job.partition.split(",")[0]
    full["nodes_shown"] = nodes
    return full


def _worded(refused: Refused, gathered: Gathered) -> Failure:
    if "test-only" in gathered.given:
        print(f"allocation failure: {refused.why}", file=sys.stderr)
        return Failure()
    verb = VERBS[gathered.command]
    remark = [refused.remark] if refused.remark else []
    return Failure(*remark, f"{verb}: {refused.why}")


def _with_defaults(fields: Fields, box: settings.Settings) -> Fields:
    link_gbit, memory_gib = settings.of_submission(box)
    here = os.getcwdb()
    full: Fields = {
        **_about_submitter(),
        "partition": box.partition_names[0],
        "link_gbit": link_gbit,
        "memory_per_device_gib": memory_gib,
        "work_dir": here,
        "time_limit_min": settings.minutes(box.default_time) or UNLIMITED,
        **fields,
    }
    work_dir = full["work_dir"]
    if isinstance(work_dir, bytes) and not os.path.isabs(work_dir):
        full["work_dir"] = os.path.join(here, work_dir)
    return full


def _about_submitter() -> Fields:
    import grp

    gid = os.getgid()
    try:
        group = grp.getgrgid(gid).gr_name
    except KeyError:
        group = str(gid)
    mask = os.umask(0)
    os.umask(mask)
    return {
        "user": filename_patterns.user_name(),
        "uid": os.getuid(),
        "group_name": group,
        "gid": gid,
        "umask": mask,
        "submit_host": os.uname().nodename.partition(".")[0],
        "submit_session": os.getsid(0),
    }


def _settle_counts(full: Fields, command: str) -> None:
    """Derive the numbers of nodes and tasks from each other."""
    asked = Job(id=0, **full)
    named = len([name for name in asked.want_nodes.split(",") if name])
    tasks, given = asked.tasks, asked.tasks_given
    nodes = asked.nodes_min if asked.nodes_given else max(named, 1)
    if not given and asked.gpus_per_task and asked.nodes_given:
        tasks, given = nodes * max(asked.tasks_per_node, 1), 1
    if asked.nodes_given and given and tasks < nodes:
        print(
            f"{command}: Warning: can't run {tasks} processes on {nodes} nodes,"
            f" setting nnodes to {tasks}",
            file=sys.stderr,
        )
        nodes = tasks
    if not given:
        tasks = nodes * max(asked.tasks_per_node, 1)
    full |= {"tasks": tasks, "tasks_given": given, "nodes_min": nodes}


def test_only(fields: Fields, command: str) -> int:
    """Print when and where the job would start, on stderr as Slurm does (--test-only)."""
    box = settings.load()
    job = Job(id=0, **fields)
    with store.transaction() as db:
        number = store.take_number(db)
        parts = job_placement.place(job, first_come.free_nodes(db, box))
        start_s = time.time() if parts else _next_end_s(db)
    parts = parts or job_placement.place(job, job_placement.empty_nodes(box)) or []
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(start_s))
    processors = sum(len(part.cpus) for part in parts)
    nodes = hostlist.compress_sorted([part.node for part in parts])
    print(
        f"{command}: Job {number} to start at {when} using {processors} processors on nodes {nodes}"
        f" in partition {job.partition}",
        file=sys.stderr,
    )
    return 0


def _next_end_s(db: Connection) -> float:
    ends = [
        job.start_s + job.time_limit_min * 60
        for job in store.jobs(db, "state = 'RUNNING'")
        if job.time_limit_min >= 0
    ]
    return max(ends, default=time.time())


# Slurm reports that a job is queued only if the job does not start at once.
QUEUED_AFTER_S = 0.4
LOOKS_S = (0.02, 0.05, 0.1, 0.2)
LOOKS_PER_UPKEEP = 10


def wait_for_nodes(command: str, job_id: int, quiet: bool) -> Job | None:
    """Wait for a job's nodes, and report the wait. Return None if the job ended first."""

    def say(text: str) -> None:
        if not quiet:
            print(f"{command}: {text}", file=sys.stderr, flush=True)

    store.stay_with_folder()
    begun_s, told = time.time(), False
    for turn in range(sys.maxsize):
        job = state.read_job(job_id)
        if job is None or job.state != PENDING:
            break
        if not told and time.time() - begun_s > QUEUED_AFTER_S:
            told = True
            if job.hold:
                say("Job is in held state, pending scheduler release")
            if command == "salloc":
                say(f"Pending job allocation {job_id}")
            say(f"job {job_id} queued and waiting for resources")
        time.sleep(LOOKS_S[min(turn, len(LOOKS_S) - 1)])
        if turn % LOOKS_PER_UPKEEP == LOOKS_PER_UPKEEP - 1:
            upkeep.try_to_bring_up_to_date()
    if job is None or job.state != RUNNING:
        return None
    if told:
        say(f"job {job_id} has been allocated resources")
    return job


FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0


def wait_for_end(job_id: int) -> int:
    """Return the job's exit code, the highest exit code of an array, or 1 after a signal."""
    store.stay_with_folder()
    wait_s = FIRST_WAIT_S
    while True:
        upkeep.try_to_bring_up_to_date()
        with store.snapshot() as db:
            jobs = arrays.members(db, job_id)
        if not jobs:
            return 1
        if all(job.state in FINAL_STATES and not job.completing for job in jobs):
            return max(job.exit_code if not job.exit_signal else 1 for job in jobs)
        time.sleep(wait_s)
        wait_s = min(wait_s * 1.5, LONGEST_WAIT_S)
