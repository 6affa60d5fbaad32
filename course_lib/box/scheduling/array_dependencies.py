"""The jobs that a condition of `--dependency` is about: one, all tasks of an array, one of them."""

from __future__ import annotations

from course_lib.box.queue import arrays, rows
from course_lib.box.queue.records import COMPLETED, FINAL_STATES, PENDING, Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection


def others(db: Connection, job: Job, kind: str, other_id: int, task: int) -> list[Job]:
    """`task` is -1 where all are meant; for aftercorr that is the one of the job's own number."""
    if kind == "aftercorr" and task < 0 and is_array(db, other_id):
        task = next(iter(arrays.numbers(job.array_waiting)), job.array_task)  # any: part_decided
        own = arrays.members(db, other_id, (task,))
        return own or arrays.members(db, other_id, None)  # without a counterpart: on all of them
    return arrays.members(db, other_id, None if task < 0 else (task,))


def is_array(db: Connection, job_id: int) -> bool:
    return bool(rows.jobs(db, "array_job_id = ?", (job_id,)))


def have_ended(jobs: list[Job]) -> bool:
    return all(job.state in FINAL_STATES and not job.completing for job in jobs)


def have_succeeded(jobs: list[Job]) -> bool:
    return all(job.state == COMPLETED for job in jobs)


def have_begun(jobs: list[Job], before_s: float) -> bool:
    return all(job.state != PENDING and job.start_s <= before_s for job in jobs)
