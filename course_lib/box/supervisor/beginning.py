"""How a job begins: the lock of its supervisor, its nodes, its first processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from course_lib.box import settings
from course_lib.box.dispatch import launch, passes
from course_lib.box.nodes import host_names, namespaces, probe
from course_lib.box.process_tree.guard import Guard
from course_lib.box.process_tree.job_plan import JobPlan
from course_lib.box.processes import finding
from course_lib.box.processes.log import note
from course_lib.box.queue import state
from course_lib.box.queue.records import NODE_FAIL, Allocation, Job
from course_lib.box.supervisor import script_files
from course_lib.box.supervisor.context import JobProcesses
from course_lib.box.supervisor.state_writes import insist
from course_lib.box.warm import shims
from course_lib.box.warm.loaded import Loaded

LOCK_TRIES = 20


def take_lock(folder: str) -> bool:
    """The lock is ours until we die; a look of another process may hold it for a moment."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    lock = os.open(os.path.join(folder, launch.ALIVE), os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(LOCK_TRIES):
        with contextlib.suppress(OSError):
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.05)
    return False


def make_plan(job: Job, parts: list[Allocation], folder: str, loaded: Loaded | None) -> JobPlan:
    box = settings.load()
    mode, _ = probe.describe(box)
    separate = mode == probe.NAMESPACES
    known = {name: namespaces.address(number) for number, name in enumerate(box.node_names, 1)}
    plan = JobPlan(
        job_id=job.id,
        home=settings.state_home(),
        folder=folder,
        separate=separate,
        nodes=tuple((part.node, known[part.node]) for part in parts),
        link_gbit=job.link_gbit,
        shims=shims.make(folder, separate, loaded) if loaded else shims.Shims(),
        names_library="" if separate else host_names.library(box, probe.stamp()),
    )
    with open(plan.hosts_file, "w") as file:
        file.write(namespaces.hosts_text(box.node_names))
    return plan


def fork_processes(plan: JobPlan) -> JobProcesses:
    guard, line = Guard(plan).start()
    living = [guard, *finding.descendants(guard)]
    finding.note(os.path.join(plan.folder, launch.PROCESSES), living)
    return JobProcesses(guard, living[-1], line)


def report_failure(job: Job, host: str, why: str) -> None:
    """The nodes could not be made: in the log of the job, and in the queue."""
    with contextlib.suppress(OSError):
        streams = script_files.open_streams(job, host)
        os.write(streams[2], f"box: the nodes of the job could not be made: {why}\n".encode())
    note(why)
    probe.forget()
    insist(lambda: state.mark_completing(job.id, NODE_FAIL, 1))
    insist(lambda: state.finish(job.id, NODE_FAIL, 1))
    insist(passes.run_pass)
