"""Waiting jobs: their priority, holding and releasing them, queueing a job again."""

from __future__ import annotations

import time

from course_lib.box import settings
from course_lib.box.queue import rows
from course_lib.box.queue.records import FINAL_STATES, PENDING, Job
from course_lib.box.queue.rows import transaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

FIRST_PRIORITY = 4294901759
"""Slurm's priority/basic counts down from here, so that an earlier job goes first."""


def take_number(db: Connection) -> int:
    """The next job number; also a test of a submission uses one up, as in Slurm."""
    job_id = int(db.execute("SELECT value FROM fact WHERE name = 'next_job_id'").fetchone()[0])
    db.execute("UPDATE fact SET value = ? WHERE name = 'next_job_id'", (str(job_id + 1),))
    return job_id


def take_priority(db: Connection) -> int:
    """The next lower priority. A released job gets a new one: it queues at the end."""
    row = db.execute("SELECT value FROM fact WHERE name = 'next_priority'").fetchone()
    priority = int(row[0]) if row else FIRST_PRIORITY
    db.execute("INSERT OR REPLACE INTO fact VALUES ('next_priority', ?)", (str(priority - 1),))
    return priority


def hold(job: Job, by: str) -> None:
    """`by`: user or admin. A running job is held once it is queued again."""
    shown = {"reason": "JobHeldUser" if by == "user" else "JobHeldAdmin"}
    with transaction() as db:
        rows.change(db, job.id, hold=by, eligible_s=0.0, **shown if job.state == PENDING else {})


def release(job_id: int) -> None:
    """Lets a held job into the order, at its end."""
    with transaction() as db:
        rows.change(db, job_id, hold="", reason="None", priority=take_priority(db))


def ask_requeue(job_id: int, how: str) -> None:
    """`requeue` or `hold`. A job that has ended is pending again at once."""
    with transaction() as db:
        job = rows.job(db, job_id)
        if job is None:
            return
        rows.change(db, job_id, requeue_asked=how)
        if job.state in FINAL_STATES and not job.completing:
            asked = rows.job(db, job_id)
            assert asked is not None
            queue_again(db, asked)


HELD_AGAIN = "job requeued in held state"


def queue_again(db: Connection, job: Job) -> None:
    """Slurm holds a job back for a while, so that what made it fail may pass. `job` has all of its
    columns."""
    from course_lib.box.queue import earlier_runs

    held = "user" if job.requeue_asked == "hold" else job.hold
    rows.change(
        db,
        job.id,
        state=PENDING,
        completing=0,
        requeue_asked="",
        hold=held,
        restarts=job.restarts + 1,
        earlier_runs=earlier_runs.with_the_last(db, job),
        start_s=0.0,
        end_s=0.0,
        supervisor_pid=0,
        supervisor_ticks=0,
        exit_code=0,
        exit_signal=0,
        batch_host="",
        reason=HELD_AGAIN if job.requeue_asked == "hold" else "BeginTime",
        submit_s=time.time(),
        begin_s=max(job.begin_s, time.time() + settings.load().requeue_delay_s),
    )
    rows.allot(db, job.id, [])
    db.execute("DELETE FROM step WHERE job_id = ?", (job.id,))
