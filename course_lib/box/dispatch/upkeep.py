"""Upkeep of the queue: notices dead nodes and supervisors, allots nodes and starts supervisors.

Every command imports this module. Imports that only some commands need are made where they are
used.
"""

from __future__ import annotations

import fcntl
import os
import time
from _sqlite3 import Connection
from contextlib import suppress

from course_lib.box import settings
from course_lib.box.processes import control
from course_lib.box.queue import store
from course_lib.box.queue.records import Job

# The supervisor locks this file as long as it lives.
ALIVE = "alive"
PROCESSES = "processes"
SUPERVISOR_LOG = "supervisor.log"
KILLING_S = 5.0


def start_supervisor(job_id: int) -> None:
    """Start a supervisor and return at once. It outlives the caller; a second start is harmless.

    If it cannot be started now, a later `upkeep` that finds the job without one tries again.
    """
    from course_lib.box.warm import client

    folder = settings.job_folder(job_id)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not client.supervise(job_id):
            client.ensure()
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            log = os.path.join(folder, SUPERVISOR_LOG)
            control.spawn("supervisor", [str(job_id)], log, flags)
    except OSError as error:
        store.tell(f"box: job {job_id} cannot begin yet: {error}")


def is_alive(job: Job) -> bool:
    """Return True if a process in any namespace holds the lock of this job's supervisor."""
    return control.is_locked(os.path.join(settings.job_folder(job.id), ALIVE))


def inside_job() -> int | None:
    """Return the job of this box in which the caller runs."""
    job_id, _, home = os.environ.get(settings.MARKER, "").partition("@")
    return int(job_id) if home == settings.state_home() and job_id.isdigit() else None


def kill_processes(folder: str) -> None:
    """Kill the processes of a job and wait for their end."""
    from course_lib.box.processes import finding

    name, home = os.path.basename(folder), os.path.dirname(os.path.dirname(folder))
    mark = settings.marker(int(name), home) if name.isdigit() else ""
    noted = os.path.join(folder, PROCESSES)
    deadline = time.monotonic() + KILLING_S
    while left := finding.marked(mark).union(finding.noted(noted)):
        finding.kill(sorted(left))
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)


# A supervisor that has not come up after this time is started once more.
GRACE_S = 5.0
GIVE_UP_S = 60.0


def bring_up_to_date() -> None:
    """Update the queue before a command answers, and start a dispatcher if one is needed."""
    if inside_job() is None and end_dead_jobs():
        ensure_dispatcher()


def try_to_bring_up_to_date() -> None:
    """Update the queue if the state can be written. Otherwise the command shows old data."""
    with suppress(store.StateError, OSError):
        bring_up_to_date()


def end_dead_jobs() -> bool:
    """End the remains of jobs whose supervisor died, and give their nodes to other jobs.

    Return True if a dispatcher has something to wait for.
    """
    with store.snapshot() as db:
        holding = store.jobs(db, store.HOLDING_NODES)
        watched = next_look_s(db) is not None
    ended = [job.id for job in holding if not is_alive(job) and _end_dead_job(job)]
    if ended:
        run_pass()
    return watched


def _end_dead_job(job: Job) -> bool:
    """End a dead job. Return False if its supervisor may still start, or the job has changed."""
    if not job.supervisor_pid and not job.completing and _may_still_start(job):
        return False
    from course_lib.box import state_folder
    from course_lib.box.queue import state

    folder = settings.job_folder(job.id)
    kill_processes(folder)
    with suppress(OSError):
        state_folder.remove_temporary(folder)
    return state.record_dead_supervisor(job)


def _may_still_start(job: Job) -> bool:
    """Return True if a missing supervisor may still start. Start it again if that may help."""
    age_s = time.time() - job.start_s
    may_start = -GRACE_S < age_s < GIVE_UP_S  # not after the clock was set back
    if may_start and age_s > GRACE_S:
        start_supervisor(job.id)
    return may_start


# A killed supervisor is noticed within this time.
LOOK_S = 1.0


def run_pass() -> None:
    own_job = inside_job()
    if own_job is not None:  # a supervisor started here would end with this job
        control.send(own_job, {"do": "pass"})
        return
    from course_lib.box.scheduling import first_come  # most commands need no scheduler

    with store.transaction() as db:
        started = first_come.allot_nodes(db, settings.load())
    for job_id in started:  # a later upkeep finds a job that cannot be started now
        start_supervisor(job_id)


def begin_new_job() -> None:
    """Schedule a new, queued job. If the disk is full now, a later pass does this."""
    try:
        run_pass()
    except store.HomeGone:
        raise
    except store.StateError:
        ensure_dispatcher()


def next_look_s(db: Connection) -> float | None:
    """Return the seconds until the queue may change by itself, or None if it never will."""
    if db.execute(f"SELECT 1 FROM job WHERE {store.HOLDING_NODES}").fetchone():  # noqa: S608
        return LOOK_S
    begin = db.execute(
        "SELECT min(begin_s) FROM job WHERE state = 'PENDING' AND hold = ''"
        " AND reason NOT IN ('DependencyNeverSatisfied', 'BadConstraints')"
    ).fetchone()[0]
    if begin is None:
        return None
    return min(max(float(begin) - time.time(), 0.1 if begin else LOOK_S), 5.0)


LOCK = "lock"
DISPATCHER_LOG = "log"


def ensure_dispatcher() -> None:
    """Start the dispatcher if none runs, and return at once.

    The dispatcher must not call this: opening and closing the file would drop its own lock. If the
    start fails (a full disk, too many processes), the next command tries again.
    """
    try:
        if _is_absent():
            log = os.path.join(settings.state_home(), DISPATCHER_LOG)
            control.spawn("dispatcher", [], log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        cure = store.cure(os.path.join(settings.state_home(), LOCK))
        store.tell(f"box: no dispatcher can start waiting jobs: {error}. {cure}.")


def _is_absent() -> bool:
    try:
        with open(os.path.join(settings.state_home(), LOCK), "ab") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
