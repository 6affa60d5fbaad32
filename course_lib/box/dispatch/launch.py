"""Start the supervisor of a job, find it, and end what is left of a job without one.

Imported by every command, which it must not slow down: what only some of them need is imported
where it is used.
"""

from __future__ import annotations

import os

from course_lib.box import settings
from course_lib.box.processes import job_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from course_lib.box.queue.records import Job

ALIVE = "alive"
"""Locked by the supervisor as long as it lives."""
PROCESSES = "processes"
STARTING = "starting"
LOG = "supervisor.log"
KILLING_S = 5.0


def start_supervisor(job_id: int) -> bool:
    """Returns at once; the supervisor outlives the caller. A second start does no harm.

    False where it cannot be started now, as on a full disk; whoever finds the job without one
    tries again (`upkeep`).
    """
    folder = settings.job_folder(job_id)
    try:
        _make_lock(folder)
        _start(job_id, folder)
    except OSError:
        return False
    return True


def _make_lock(folder: str) -> None:
    """The file that the supervisor locks: without room for it none is started."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, ALIVE)
    if not os.path.exists(path):  # closing it would drop the lock, were the supervisor ours
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))


def startable_since_s(job_id: int) -> float:
    """When the first supervisor could be started; 0 where there has been no room for it."""
    try:
        return os.stat(os.path.join(settings.job_folder(job_id), ALIVE)).st_ctime
    except OSError:
        return 0.0


def _start(job_id: int, folder: str) -> None:
    from course_lib.box.processes import detached, finding
    from course_lib.box.warm import client

    pid = client.supervise(job_id)
    if not pid:
        client.ensure()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        log = os.path.join(folder, LOG)
        pid = detached.spawn_detached("supervisor", [str(job_id)], log, flags)
    finding.note(os.path.join(folder, STARTING), [pid])


def died_at_its_start(job_id: int) -> bool:
    """Whether the supervisor that was started for a job is gone already, as far as is known."""
    from course_lib.box.processes import finding

    path = os.path.join(settings.job_folder(job_id), STARTING)
    return os.path.exists(path) and not finding.noted(path)


def is_alive(job: Job) -> bool:
    """Does a process hold the lock of this job's supervisor? True from any namespace."""
    from course_lib.box.processes import detached

    return detached.is_locked(os.path.join(settings.job_folder(job.id), ALIVE))


def inside_job() -> int | None:
    """The job of this box in which the caller runs, also where its environment was cleared."""
    home = settings.state_home()
    job_id, _, of_home = os.environ.get(job_mark.MARKER, "").partition("@")
    if of_home == home and job_id.isdigit():
        return int(job_id)
    try:
        with open("/proc/1/comm") as file:
            name = file.read().strip()
        number = int(name[1:].partition("-")[0])
    except (OSError, ValueError):
        return None
    return number if name == job_mark.process_name(number, home) else None


def end_remains(folder: str) -> None:
    """Of a job whose supervisor is dead: its processes, and its temporary files."""
    from course_lib.box.dispatch import temporary_files

    kill_processes(folder)
    try:
        temporary_files.remove(folder)
    except OSError:
        return


def kill_processes(folder: str) -> None:
    """Of a job without supervisor, found by its folder, as the state file may have forgotten it;
    nothing remains on return."""
    import time

    from course_lib.box.processes import finding

    name, home = os.path.basename(folder), os.path.dirname(os.path.dirname(folder))
    mark = job_mark.marker(int(name), home) if name.isdigit() else ""
    noted = os.path.join(folder, PROCESSES)
    deadline = time.monotonic() + KILLING_S
    while left := finding.marked(mark).union(finding.noted(noted)):
        finding.kill(sorted(left))
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)
