"""What the controller of a real Slurm does at submission: fills in defaults, refuses, and for
--test-only says when a job would start."""

from __future__ import annotations

import os
import sys
import time

from course_lib.box import settings
from course_lib.box.commands.shared import refusal
from course_lib.box.commands.shared.errors import Failure
from course_lib.box.commands.submit.option_sources import Gathered
from course_lib.box.queue import rows
from course_lib.box.queue.records import Job
from course_lib.box.scheduling import first_come, job_placement
from course_lib.box.settings import UNLIMITED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

Fields = dict[str, object]
RLIMITS = ("CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS")


VERBS = {
    "salloc": "Job submit/allocate failed",
    "sbatch": "Batch job submission failed",
    "srun": "Unable to allocate resources",
}


def complete(fields: Fields, gathered: Gathered) -> Fields:
    """All fields of a job that this box takes; a job that can never run is refused."""
    box = settings.load()
    full = _with_defaults(fields, box)
    full["submit_line"] = _submit_line(gathered.command)
    _settle_counts(full, gathered.command)
    job = Job(id=0, **full)
    refusal.check_client(job)
    try:
        nodes = refusal.check_controller(job, box, "test-only" in gathered.given)
    except refusal.Refused as refused:
        raise _worded(refused, gathered) from None
    full["partition"] = job.partition.split(",")[0]
    full["nodes_shown"] = nodes
    return full


def _worded(refused: refusal.Refused, gathered: Gathered) -> Failure:
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
    import pwd

    uid, gid = os.getuid(), os.getgid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    try:
        group = grp.getgrgid(gid).gr_name
    except KeyError:
        group = str(gid)
    mask = os.umask(0)
    os.umask(mask)
    return {
        "user": user,
        "uid": uid,
        "group_name": group,
        "gid": gid,
        "umask": mask,
        "submit_host": os.uname().nodename.partition(".")[0],
        "submit_session": os.getsid(0),
        "rlimits": _limits(),
    }


def _limits() -> bytes:
    import resource

    lines = []
    for name in RLIMITS:
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is not None:
            lines.append(f"{name}={resource.getrlimit(kind)[0]}")
    return "\n".join(lines).encode()


def _submit_line(command: str) -> bytes:
    words = getattr(sys, "orig_argv", sys.argv)
    return b" ".join([command.encode(), *map(os.fsencode, sys.argv[2:])]) if words else b""


def _settle_counts(full: Fields, command: str) -> None:
    """Nodes and tasks that follow from each other."""
    asked = Job(id=0, **full)
    named = len([name for name in asked.want_nodes.split(",") if name])
    total, per_node, per_task = job_placement.devices_wanted(asked)
    tasks, given = asked.tasks, asked.tasks_given
    if not given and total and (per_task or asked.tasks_per_gpu):
        tasks, given = total // per_task if per_task else total * asked.tasks_per_gpu, 1
    low, high = asked.nodes_min, asked.nodes_max
    if not given and asked.tasks_per_gpu and per_node and command != "srun":
        tasks, given = max(low, 1) * per_node * asked.tasks_per_gpu, 1
    if not given and asked.gpus_per_task and asked.nodes_given and low == high:
        tasks, given = low * max(asked.tasks_per_node, 1), 1
    if not asked.nodes_given:
        low, high = max(named, 1), 0
    elif given and tasks < low:
        print(
            f"{command}: Warning: can't run {tasks} processes on {low} nodes,"
            f" setting nnodes to {tasks}",
            file=sys.stderr,
        )
        low = high = tasks
    elif low < named <= high:
        low = named
    if not given:
        tasks = low * max(asked.tasks_per_node, 1)
    full |= {"tasks": tasks, "tasks_given": given, "nodes_min": low, "nodes_max": high}


def test_only(fields: Fields, command: str) -> int:
    """--test-only: when and where it would start, on stderr as Slurm prints it."""
    box = settings.load()
    job = Job(id=0, **fields)
    with rows.transaction() as db:
        from course_lib.box.queue.pending_jobs import take_number

        number = take_number(db)
        parts = job_placement.place(job, first_come.free_nodes(db, box))
        start_s = time.time() if parts else _next_end_s(db)
    parts = parts or job_placement.place(job, job_placement.empty_nodes(box)) or []
    from course_lib.box import hostlist

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
        for job in rows.jobs(db, "state = 'RUNNING'")
        if job.time_limit_min >= 0
    ]
    return max(ends, default=time.time())
