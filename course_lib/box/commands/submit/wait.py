"""Waits for the end of a job (sbatch --wait)."""

from __future__ import annotations

import time

from course_lib.box.dispatch import upkeep
from course_lib.box.queue import state, store
from course_lib.box.queue.records import FINAL_STATES

FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0


def for_end(job_id: int) -> int:
    """Exit code of the job; 1 where a signal ended it."""
    store.stay_with_folder()
    wait_s = FIRST_WAIT_S
    while True:
        upkeep.bring_up_to_date()
        job = state.read_job(job_id)
        if job is None:
            return 1
        if job.state in FINAL_STATES and not job.completing:
            return job.exit_code if not job.exit_signal else 1
        time.sleep(wait_s)
        wait_s = min(wait_s * 1.5, LONGEST_WAIT_S)
