"""Work of srun inside a job: create the step, relay streams and signals, report the end."""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from collections.abc import Mapping

from course_lib.box.processes import control, messages
from course_lib.box.queue import state
from course_lib.box.queue.records import RUNNING, exported
from course_lib.box.scheduling.job_placement import count_of
from course_lib.box.scheduling.step_placement import Impossible
from course_lib.box.steps import step_request
from course_lib.box.steps.session import Session
from course_lib.box.steps.step_request import SrunOptions, request
from course_lib.box.steps.streams import say

START_S = 60.0


def run(options: SrunOptions, job_id: int) -> int:
    """Run a step and return srun's exit code. Without --jobid, srun's own job ends with it."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # `srun … | head` ends as its tasks do
    owns_job = options.jobid is None
    try:
        message = _message(options, job_id if owns_job or _joins(job_id) else None)
        step_request.check_nodes(options, message["request"], state.read_allocation(job_id))
    except Impossible as error:
        for line in str(error).splitlines():
            say(f"error: {line}")
        return _give_up(job_id) if owns_job else 1
    attached = connect(job_id, {"do": "attach"}) if owns_job else None
    connection = connect(job_id, message)
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


def _give_up(job_id: int) -> int:
    """Release the job that was made for a step that cannot start."""
    if attached := connect(job_id, {"do": "attach"}):
        attached.close()
    return 1


def connect(job_id: int, message: messages.Message) -> socket.socket | None:
    """Connect to a job's supervisor, which may still be making the job's nodes."""
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


def _message(options: SrunOptions, own_job: int | None) -> messages.Message:
    mask = os.umask(0)
    os.umask(mask)
    own = {**options.environment, b"SLURM_UMASK": f"{mask:04o}".encode()}
    if options.cpus_per_task:
        own[b"SLURM_CPUS_PER_TASK"] = str(options.cpus_per_task).encode()
    if options.job_name:
        own[b"SLURM_JOB_NAME"] = os.fsencode(options.job_name)
    choice = options.export or os.environ.get("SLURM_EXPORT_ENV", "")
    folder = os.path.join(os.getcwdb(), os.fsencode(options.chdir))
    soft = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {
        "do": "step",
        "request": request(options, _handed_down(options, own_job)),
        "argv": _argv(options.command, folder),
        "environment": exported(choice, own),
        "folder": folder,
        "umask": mask,
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in soft},
        "name": options.job_name or os.path.basename(options.command[0]),
        "line": os.fsencode(options.submit_line),
        "label": options.label,
        "terminal": options.pty and os.isatty(0),
        "distribution": options.distribution,
        "per_task": count_of(options.gpus_per_task),
        "time_min": max(options.time_min or 0, 0),  # -t 0 means no limit, as in Slurm
    }


def _argv(command: list[str], folder: bytes) -> list[bytes]:
    """Return the command. A relative path is relative to the tasks' folder."""
    first = os.fsencode(command[0])
    if b"/" in first:
        first = os.path.join(folder, first)
    return [first, *(os.fsencode(word) for word in command[1:])]


def _joins(job_id: int) -> bool:
    """Return True if srun joins the job from outside with --jobid. It then has no job variables."""
    return os.environ.get("SLURM_JOB_ID") != str(job_id)


def _handed_down(options: SrunOptions, own_job: int | None) -> Mapping[str, str]:
    """Return the values that the step takes from its job: variables, or the job itself."""
    if own_job is None:
        return os.environ
    job, parts = state.read_job(own_job), state.read_allocation(own_job)
    found = {"SLURM_NNODES": str(len(parts))}
    owns_job = options.jobid is None  # an srun that joins a job does not get the number of tasks
    if (
        owns_job
        and job
        and (options.ntasks or job.tasks_per_node or (job.tasks_given and not job.gpus_per_task))
    ):
        found["SLURM_NTASKS"] = str(job.tasks)
    return found


def _wait_for_step(connection: socket.socket, job_id: int) -> messages.Message | None:
    """Wait for the step. Return None after printing why it cannot start."""
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
            if remark := answer.get("remark"):
                say(f"error: {remark}")
            say(f"error: Unable to create step for job {job_id}: {answer['error']}")
            return None
        else:
            if retried:
                say(f"Step created for job {job_id}")
            return answer
