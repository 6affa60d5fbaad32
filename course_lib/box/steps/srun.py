"""srun, once the job is there: makes the step, carries its streams and signals, tells its end."""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from collections.abc import Mapping
from typing import Any

from course_lib.box.processes import control, messages
from course_lib.box.queue import state
from course_lib.box.queue.records import RUNNING
from course_lib.box.steps.session import Session
from course_lib.box.steps.step_request import Options, exported, request
from course_lib.box.steps.task_ends import say

START_S = 60.0


def run(options: Options, job_id: int) -> int:
    """Exit code of srun. Without --jobid the job was made for this srun, and ends with it."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    owns_job = options.jobid is None
    if wrong := _too_many_nodes(options, len(state.read_allocation(job_id))):
        say(f"error: {wrong}")
        return 1
    attached = _connect(job_id, {"do": "attach"}) if owns_job else None
    connection = _connect(job_id, _message(options, job_id if owns_job or _joins(job_id) else None))
    if connection is None:
        say(f"error: Unable to confirm allocation for job {job_id}: Invalid job id specified")
        say(f"Check SLURM_JOB_ID environment variable. Expired or invalid job {job_id}")
        return 1
    try:
        connection.settimeout(None)
        granted = _wait_for_step(connection, job_id)
        if granted is None:
            return 1
        return Session(options, connection, job_id, granted).run()
    except messages.Gone:
        say(f"error: the job {job_id} ended while srun was asking for a step")
        return 1
    finally:
        if attached:
            attached.close()


def _too_many_nodes(options: Options, held: int) -> str:
    """What is wrong with the nodes that are asked for, of a job that holds so many."""
    asked, passed_over = options.nodes_min or 0, options.relative or 0
    if asked > held > 0:
        return f"Only allocated {held} nodes asked for {asked}"
    if passed_over and held and passed_over + max(asked, 1) > held:
        return (
            "--relative and --nodes option incompatible with count of allocated nodes"
            f" ({passed_over}+{max(asked, 1)}>{held})"
        )
    return ""


def _connect(job_id: int, message: messages.Message) -> socket.socket | None:
    """The supervisor of a job that has just got its nodes may still be making them."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            connection = messages.connect(control.path(job_id))
            messages.send(connection, message)
            return connection
        except (OSError, messages.Gone):
            job = state.read_job(job_id)
            if job is None or job.state != RUNNING or time.monotonic() > deadline:
                return None
            time.sleep(0.02)


def _message(options: Options, own_job: int | None) -> messages.Message:
    mask = os.umask(0)
    os.umask(mask)
    own = {**options.environment, b"SLURM_UMASK": f"{mask:04o}".encode()}
    if options.cpus_per_task:
        own[b"SLURM_CPUS_PER_TASK"] = str(options.cpus_per_task).encode()
    choice = options.export or os.environ.get("SLURM_EXPORT_ENV", "")
    soft = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {
        "do": "step",
        "request": request(options, _handed_down(own_job)),
        "argv": _argv(options.command),
        "environment": exported(choice, own),
        "folder": os.path.join(os.getcwdb(), os.fsencode(options.chdir)),
        "umask": mask,
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in soft},
        "name": options.job_name or os.path.basename(options.command[0]),
        "line": os.fsencode(options.submit_line),
        "label": options.label,
        "distribution": options.distribution,
        "time_min": options.time_min or 0,
    }


def _argv(command: list[str]) -> list[bytes]:
    """A path relative to the folder of srun is that also on the nodes."""
    first = os.fsencode(command[0])
    if b"/" in first:
        first = os.path.join(os.getcwdb(), first)
    return [first, *(os.fsencode(word) for word in command[1:])]


def _joins(job_id: int) -> bool:
    """Whether srun came from outside with --jobid, so that no variable tells it the job's shape."""
    return os.environ.get("SLURM_JOB_ID") != str(job_id)


def _handed_down(own_job: int | None) -> Mapping[str, str]:
    """What the step takes from its job: the variables, or for srun's own job the job itself."""
    if own_job is None:
        return os.environ
    job, parts = state.read_job(own_job), state.read_allocation(own_job)
    found = {"SLURM_NNODES": str(len(parts))}
    if job and (job.tasks_given or job.tasks_per_node):
        found["SLURM_NTASKS"] = str(job.tasks)
    return found


def _wait_for_step(connection: Any, job_id: int) -> messages.Message | None:
    """The step, or None after saying why there is none."""
    retried = False
    while True:
        answer, _ = messages.receive(connection)
        if "busy" in answer:
            retried = True
            say(
                f"Job {job_id} step creation temporarily disabled, retrying"
                " (Requested nodes are busy)"
            )
        elif "error" in answer:
            say(f"error: Unable to create step for job {job_id}: {answer['error']}")
            return None
        else:
            if retried:
                say(f"Step created for job {job_id}")
            return answer
