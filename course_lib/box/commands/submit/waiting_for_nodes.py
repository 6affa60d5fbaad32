"""What salloc and srun do between the submission of their job and its first moment."""

from __future__ import annotations

import sys
import time

from course_lib.box.commands.shared.errors import Failure
from course_lib.box.dispatch import upkeep
from course_lib.box.queue import state
from course_lib.box.queue.records import PENDING, Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

QUEUED_AFTER_S = 0.4
"""Slurm says that a job is queued only if it does not start at once."""
LOOKS_S = (0.02, 0.05, 0.1, 0.2)
LOOKS_PER_UPKEEP = 10


def wait(
    job_id: int, immediate_s: float | None, tell_queued: Callable[[Job], None]
) -> tuple[Job | None, bool]:
    """The job once it waits no more, None where it is gone; and whether it had to be told that it
    waits. With -I (`immediate_s`) it fails after so long instead."""
    begun_s, told = time.time(), False
    for turn in range(sys.maxsize):
        job = state.read_job(job_id)
        if job is None or job.state != PENDING:
            break
        waited_s = time.time() - begun_s
        if immediate_s is not None and waited_s >= immediate_s:
            state.mark_unplaced(job_id)
            raise Failure("Unable to allocate resources: Requested nodes are busy")
        if not told and immediate_s is None and waited_s > QUEUED_AFTER_S:
            tell_queued(job)
            told = True
        time.sleep(LOOKS_S[min(turn, len(LOOKS_S) - 1)])
        if turn % LOOKS_PER_UPKEEP == LOOKS_PER_UPKEEP - 1:
            upkeep.try_to_bring_up_to_date()
    return job, told
