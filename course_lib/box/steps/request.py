"""The request of an srun for a step, and the answer of the job's supervisor."""

from __future__ import annotations

import os
import resource
import signal
import socket
from typing import Any

from course_lib.box.commands.submit.options import Gathered
from course_lib.box.processes import control, messages
from course_lib.box.queue import state
from course_lib.box.queue.records import Job, exported
from course_lib.box.scheduling.step_placement import Impossible
from course_lib.box.steps.session import Session
from course_lib.box.steps.streams import say


def run(gathered: Gathered, command: list[str], job: Job, owns_job: bool) -> int:
    """Run a step and return srun's exit code. A job that was made for the step ends with it."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # `srun … | head` ends as its tasks do
    attached = control.connect(job.id, {"do": "attach"}) if owns_job else None
    try:
        connection = control.connect(job.id, _message(gathered, command, job, owns_job))
        if connection is None:
            say(f"error: Unable to confirm allocation for job {job.id}: Invalid job id specified")
            say(f"Check SLURM_JOB_ID environment variable. Expired or invalid job {job.id}")
            return 1
        connection.settimeout(None)
        granted = _wait_for_step(connection, job.id)
        if granted is None:
            return 1
        return Session(gathered, connection, job.id, granted).run()
    except Impossible as error:
        say(f"error: {error}")
        return 1
    except messages.Gone:
        say(f"error: the job {job.id} ended while srun asked for a step")
        return 1
    finally:
        if attached:
            attached.close()


def _message(gathered: Gathered, command: list[str], job: Job, owns_job: bool) -> messages.Message:
    fields, given = gathered.fields, gathered.given
    mask = os.umask(0)
    os.umask(mask)
    own = {**os.environb, b"SLURM_UMASK": f"{mask:04o}".encode()}
    if owns_job:  # as sbatch would set them
        own[b"SLURM_SUBMIT_DIR"] = os.getcwdb()
        own[b"SLURM_SUBMIT_HOST"] = os.fsencode(os.uname().nodename.partition(".")[0])
    if "cpus_per_task" in fields:
        own[b"SLURM_CPUS_PER_TASK"] = str(fields["cpus_per_task"]).encode()
    if "name" in fields:
        own[b"SLURM_JOB_NAME"] = os.fsencode(str(fields["name"]))
    choice = given.get("export") or os.environ.get("SLURM_EXPORT_ENV", "")
    folder = os.path.join(os.getcwdb(), os.fsencode(given.get("chdir", "")))
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {
        "do": "step",
        "request": request(gathered, len(state.read_allocation(job.id)), owns_job),
        "argv": _argv(command, folder),
        "environment": exported(choice, own),
        "folder": folder,
        "umask": mask,
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
        "name": fields.get("name") or os.path.basename(command[0]),
        "label": "label" in given,
        "terminal": "pty" in given and os.isatty(0),
        "distribution": given.get("distribution", ""),
    }


def _argv(command: list[str], folder: bytes) -> list[bytes]:
    """Return the command. A relative path is relative to the tasks' folder."""
    first = os.fsencode(command[0])
    if b"/" in first:
        first = os.path.join(folder, first)
    return [first, *(os.fsencode(word) for word in command[1:])]


def request(gathered: Gathered, held: int, owns_job: bool) -> dict[str, Any]:
    """Return the fields of a StepRequest in a job of `held` nodes."""
    fields: dict[str, Any] = gathered.fields
    given = gathered.given
    nodes, tasks, per_node = _counts(fields, held, owns_job)
    kind = given.get("distribution", "").replace(",", ":").partition(":")[0]
    asked = {name: fields.get(name) for name in ("gpus", "gpus_per_node", "gpus_per_task")}
    if fields.get("gres") == 0:  # --gres=none
        asked = {"gpus": 0}
    elif "gres" in fields:
        asked["gpus_per_node"] = fields["gres"]
    whole_node = owns_job and "tasks" not in fields  # srun --exclusive alone is about the job
    return {
        "nodes": nodes,
        "tasks": tasks,
        "tasks_per_node": per_node,
        "cpus_per_task": fields.get("cpus_per_task", 1),
        "wanted": tuple(name for name in fields.get("want_nodes", "").split(",") if name),
        "cyclic": {"cyclic": True, "block": False}.get(kind),
        **asked,
        "exact": bool({"exact", "cpus-per-task"} & given.keys())
        or ("exclusive" in given and not whole_node),
        "overlap": "overlap" in given,
    }


def _counts(fields: dict[str, Any], held: int, owns_job: bool) -> tuple[int, int, int]:
    """Return the numbers of nodes, tasks, and tasks per node (0: not given)."""
    nodes = fields.get("nodes_min") or held
    if owns_job:
        nodes = min(nodes, held)  # because of -n, the job may have fewer nodes than -N asked for
    per_node = fields.get("tasks_per_node", 0)
    tasks = fields.get("tasks") or nodes * (per_node or 1)
    if tasks < nodes:
        if fields.get("nodes_min"):
            say(f"Warning: can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}")
        nodes = tasks
    if nodes > held:
        raise Impossible(f"Only allocated {held} nodes asked for {nodes}")
    if 0 < per_node < tasks and tasks // nodes != per_node:
        say(
            f"Warning: can't honor --ntasks-per-node set to {per_node} which doesn't match the"
            f" requested tasks {tasks} with the number of requested nodes {nodes}."
            " Ignoring --ntasks-per-node."
        )
        per_node = 0
    return nodes, tasks, per_node


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
