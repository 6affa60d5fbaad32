"""Brings the queue up to date with what died with nobody looking."""

from __future__ import annotations

import time

from course_lib.box import settings
from course_lib.box.dispatch import dispatcher, launch, lost_jobs, passes
from course_lib.box.queue import lost_state, rows, state, store
from course_lib.box.queue.records import Job

GRACE_S = 5.0
"""Time for a supervisor to come up before it is started once more."""
GIVE_UP_S = 60.0


def bring_up_to_date() -> None:
    """Every command does this before it answers, and leaves a dispatcher where one is needed."""
    if launch.inside_job() is None and end_dead_jobs():
        dispatcher.ensure()


def try_to_bring_up_to_date() -> None:
    """For commands that only ask: where nothing can be written, what is known is still shown."""
    try:
        bring_up_to_date()
    except (store.StateError, OSError):
        return


def end_dead_jobs() -> bool:
    """Ends what is left of jobs whose supervisor died, and gives their nodes to others.

    True where a dispatcher has something to wait for.
    """
    with rows.certainty() as db:
        holding = rows.jobs(db, rows.HOLDING_NODES)
        lost = lost_state.lost_jobs(db)
        watched = passes.next_look_s(db) is not None
    lost_jobs.end(lost)
    ended = [job.id for job in holding if not launch.is_alive(job) and _end(job)]
    if ended:
        passes.run_pass()
    return watched


def _end(job: Job) -> bool:
    """False where its supervisor may still come up, or something happened to it meanwhile."""
    if not job.supervisor_pid and not job.completing and _may_come_up(job):
        return False
    launch.end_remains(settings.job_folder(job.id))
    return state.record_dead_supervisor(job)


def _may_come_up(job: Job) -> bool:
    """A supervisor that is not there yet; it is started once more where that may help."""
    since_s = launch.startable_since_s(job.id)
    age_s = time.time() - max(job.start_s, since_s)
    if since_s and not -GRACE_S < age_s < GIVE_UP_S:
        return False  # also one that begins in the future: the clock was set back
    if not since_s or age_s > GRACE_S or launch.died_at_its_start(job.id):
        launch.start_supervisor(job.id)
    return True
