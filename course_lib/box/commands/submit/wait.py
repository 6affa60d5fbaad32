"""Waits for the end of a job (sbatch --wait)."""

from __future__ import annotations

import time

from course_lib.box.dispatch import upkeep
from course_lib.box.queue import arrays, rows, store
from course_lib.box.queue.records import FINAL_STATES

FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0


def for_end(job_id: int) -> int:
    """Exit code of the job, or the greatest of an array; 1 where a signal ended it."""
    store.stay_with_folder()
    wait_s = FIRST_WAIT_S
    while True:
        upkeep.try_to_bring_up_to_date()
        with rows.snapshot() as db:
            jobs = arrays.members(db, job_id)
        if not jobs:
            return 1
        if all(job.state in FINAL_STATES and not job.completing for job in jobs):
            return max(job.exit_code if not job.exit_signal else 1 for job in jobs)
        time.sleep(wait_s)
        wait_s = min(wait_s * 1.5, LONGEST_WAIT_S)
