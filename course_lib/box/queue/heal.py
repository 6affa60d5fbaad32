"""Finds what died with nobody looking; every command does this before it answers."""

from __future__ import annotations

import time

from course_lib.box import settings
from course_lib.box.queue import access, keeper, schedule, state
from course_lib.box.queue.records import Job
from course_lib.box.queue.store import StateError

GRACE_S = 5.0
"""Time for a supervisor to come up before it is started once more."""
GIVE_UP_S = 60.0


def heal() -> bool:
    """Ends what is left of jobs whose supervisor died. True if anything changed."""
    from course_lib.box.supervisor import launch

    if launch.inside_job() is not None:
        return False
    with access.snapshot() as db:
        holding = access.jobs(db, "state = 'RUNNING' OR completing = 1")
        watched = keeper.next_look_s(db) is not None
    changed = [job.id for job in holding if not launch.is_alive(job) and _bury(job)]
    if changed:
        schedule.run_pass()
    if watched:
        keeper.ensure()
    return bool(changed)


def try_to_heal() -> None:
    """For commands that only ask: where nothing can be written, what is known is still shown."""
    try:
        heal()
    except (StateError, OSError):
        return


def _bury(job: Job) -> bool:
    from course_lib.box.supervisor import launch

    if not job.supervisor_pid and not job.completing:
        age_s = time.time() - job.start_s
        if age_s < GIVE_UP_S:
            if age_s > GRACE_S or launch.died_at_its_start(job.id):
                launch.start_supervisor(job.id)
            return False
    launch.kill_processes(settings.job_folder(job.id))
    return state.bury(job)
