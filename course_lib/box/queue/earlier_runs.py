"""The runs of a job that ended in a requeue; `sacct --duplicates` shows them."""

from __future__ import annotations

import json
import time

from course_lib.box.queue import rows
from course_lib.box.queue.records import CANCELLED, FINAL_STATES, Allocation, Job, StepRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

OF_A_RUN = (
    *("start_s", "end_s", "submit_s", "eligible_s", "cancelled_by"),
    *("exit_code", "exit_signal", "batch_host", "restarts"),
)
"""Fields of a job that another run writes over."""

Run = tuple[Job, list[Allocation], list[StepRecord]]


def with_the_last(db: Connection, job: Job) -> str:
    """`earlier_runs` of a job that is about to be queued again."""
    now_s = time.time()
    ended = job.state in FINAL_STATES and not job.completing
    own = {name: getattr(job, name) for name in OF_A_RUN}
    own |= {"state": job.state if ended else "REQUEUED", "end_s": job.end_s or now_s}
    steps = [_ended(step, now_s) for step in rows.steps(db, "job_id = ?", (job.id,))]
    parts = [
        {name: getattr(part, name) for name in Allocation.fields()}
        for part in rows.allocations(db, job.id)
    ]
    run = json.dumps({"job": own, "parts": parts, "steps": steps})
    return f"{job.earlier_runs}{run}\n"


def _ended(step: StepRecord, now_s: float) -> dict[str, object]:
    found = {name: getattr(step, name) for name in StepRecord.fields() if name != "submit_line"}
    return found if step.end_s else {**found, "state": CANCELLED, "end_s": now_s}


def read(job: Job) -> list[Run]:
    """First things first; `job` with all of its columns."""
    now = {name: getattr(job, name) for name in Job.fields()}
    found = []
    for line in job.earlier_runs.splitlines():
        run = json.loads(line)
        parts = [
            Allocation(**{**part, "cpus": tuple(part["cpus"]), "devices": tuple(part["devices"])})
            for part in run["parts"]
        ]
        steps = [StepRecord(**step) for step in run["steps"]]
        found.append((Job(**{**now, **run["job"]}), parts, steps))
    return found
