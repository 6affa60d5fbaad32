"""How a job begins: the lock of its supervisor, its nodes, its first processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time

from course_lib.box import settings
from course_lib.box.dispatch import launch, passes, temporary_files
from course_lib.box.nodes import host_names, namespaces, own_commands, probe
from course_lib.box.process_tree.guard import Guard
from course_lib.box.process_tree.job_plan import JobPlan
from course_lib.box.processes import detached, disk, finding
from course_lib.box.processes.log import note
from course_lib.box.queue import state
from course_lib.box.queue.records import NODE_FAIL, Allocation, Job
from course_lib.box.supervisor import script_files
from course_lib.box.supervisor.context import JobProcesses
from course_lib.box.supervisor.state_writes import LASTING_S, insist
from course_lib.box.warm import shims
from course_lib.box.warm.loaded import Loaded

LOCK_TRIES = 20


def take_lock(folder: str) -> bool:
    """The lock is ours until we die; a look of another process may hold it for a moment. Without
    room for the file the job is started again later."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        lock = os.open(os.path.join(folder, launch.ALIVE), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        if not disk.is_failing(error):
            raise
        return False
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
        command_folders=_command_folders(job, folder),
        names_library="" if separate else host_names.library(box, probe.stamp()),
    )
    temporary_files.make(folder)
    with open(plan.hosts_file, "w") as file:
        file.write(namespaces.hosts_text(box.node_names))
    return plan


def _command_folders(job: Job, folder: str) -> tuple[str, ...]:
    """Those of the PATH of the submission that its nodes see otherwise."""
    own = os.path.join(detached.package_root(), "course_lib", "box", "bin")
    own_commands.write(folder, settings.state_home(), sys.executable, own)
    path = os.fsdecode(job.variables().get(b"PATH", b""))
    return tuple(own_commands.folders_to_cover(path, own))


def fork_processes(plan: JobPlan) -> JobProcesses:
    guard, line, covered = Guard(plan).start()
    living = [guard, *finding.descendants(guard)]
    finding.note(os.path.join(plan.folder, launch.PROCESSES), living)
    start_file = "" if covered else os.path.join(plan.folder, own_commands.START_FILE)
    return JobProcesses(guard, living[-1], line, start_file)


def report_failure(job: Job, host: str, why: str) -> None:
    """The nodes could not be made: in the log of the job, and in the queue."""
    with contextlib.suppress(OSError):
        streams = script_files.open_streams(job, host)
        os.write(streams[2], f"box: the nodes of the job could not be made: {why}\n".encode())
    note(why)
    probe.forget()
    insist(lambda: state.mark_completing(job.id, NODE_FAIL, 1), LASTING_S)
    insist(lambda: state.finish(job.id, NODE_FAIL, 1), LASTING_S)
    insist(passes.run_pass)
