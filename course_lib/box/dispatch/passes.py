"""Runs a pass over the queue: gives nodes to the jobs whose turn it is, and starts them."""

from __future__ import annotations

import time

from course_lib.box import settings
from course_lib.box.dispatch import dispatcher, launch, lost_jobs
from course_lib.box.processes import control
from course_lib.box.queue import lost_state, rows, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

LOOK_S = 1.0
"""A killed supervisor is noticed within this time."""


def run_pass() -> None:
    own_job = launch.inside_job()
    if own_job is not None:
        _ask_for_pass(own_job)
        return
    from course_lib.box.scheduling import first_come  # commands that only ask need no scheduler

    with rows.transaction() as db:
        started = first_come.allot_nodes(db, settings.load())
        lost = lost_state.lost_jobs(db)
    lost_jobs.end(lost)
    for job_id in started:  # one that cannot be started now is found without a supervisor later
        launch.start_supervisor(job_id)


def begin_new_job() -> None:
    """It is in the queue: where no pass can be made now (a full disk), one is made later."""
    try:
        run_pass()
    except store.HomeGone:
        raise
    except store.StateError:
        dispatcher.ensure()


def _ask_for_pass(own_job: int) -> None:
    """Inside a job a supervisor would end with the job, so somebody outside starts it."""
    if not dispatcher.ask_for_pass():
        control.send(own_job, {"do": "pass"})


def next_look_s(db: Connection) -> float | None:
    """Seconds until something may happen by itself; None if nothing ever will."""
    if db.execute(f"SELECT 1 FROM job WHERE {rows.HOLDING_NODES}").fetchone():  # noqa: S608
        return LOOK_S
    begin = db.execute(
        "SELECT min(begin_s) FROM job WHERE state = 'PENDING' AND hold = ''"
        " AND reason NOT IN ('DependencyNeverSatisfied', 'BadConstraints')"
    ).fetchone()[0]
    if begin is None:
        return None
    return min(max(float(begin) - time.time(), 0.1 if begin else LOOK_S), 5.0)
