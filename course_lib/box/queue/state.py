"""What happens to a job, one function per event; each is one transaction.

The supervisor of a job (box/supervisor) and the commands call these; nobody else writes the state
file. A function that comes too late (the job is already over, another supervisor was faster)
changes nothing and says so with its result.
"""

from __future__ import annotations

import time

from course_lib.box.queue import arrays, rows
from course_lib.box.queue.pending_jobs import queue_again, take_number, take_priority
from course_lib.box.queue.records import (
    CANCELLED,
    COMPLETED,
    FAILED,
    FINAL_STATES,
    NODE_FAIL,
    OUT_OF_MEMORY,
    PENDING,
    RUNNING,
    TIMEOUT,
    Allocation,
    Job,
    StepRecord,
)
from course_lib.box.queue.rows import snapshot, transaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from sqlite3 import Connection


def submit(values: dict[str, object]) -> int:
    """Records a job as pending and gives it the next number."""
    with transaction() as db:
        job_id = take_number(db)
        full = {"submit_s": time.time(), **values}
        if not full.get("priority"):
            full["priority"] = take_priority(db)
        if full.get("array_waiting"):
            full["array_job_id"] = job_id
        record = Job(id=job_id, **full)
        rows.insert(db, "job", {name: getattr(record, name) for name in Job.fields()})
    return job_id


def read_job(job_id: int) -> Job | None:
    with snapshot() as db:
        return rows.job(db, job_id)


def read_certainly(job_id: int) -> Job | None:
    """For its supervisor, which ends a job that the queue has ended or forgotten."""
    with rows.certainty() as db:
        return rows.job(db, job_id)


def read_allocation(job_id: int) -> list[Allocation]:
    with snapshot() as db:
        return rows.allocations(db, job_id)


def read_steps(job_id: int) -> list[StepRecord]:
    with snapshot() as db:
        return rows.steps(db, "job_id = ?", (job_id,))


def claim(job_id: int, pid: int, ticks: int) -> Job | None:
    """Makes this process the supervisor of a job that has its nodes; None if it is not to run.

    A job is started by whoever ran the scheduling pass, and again by whoever finds it without
    supervisor; only the first claim counts.
    """
    with transaction() as db:
        job = rows.job(db, job_id)
        if job is None or job.state != RUNNING or job.supervisor_pid:
            return None
        rows.change(db, job_id, supervisor_pid=pid, supervisor_ticks=ticks)
        return rows.job(db, job_id)


def add_step(values: dict[str, object]) -> StepRecord | None:
    """Begins a step; without a `step` it gets the next number. None if the job is over."""
    with transaction() as db:
        job = rows.job(db, int(str(values["job_id"])))
        if job is None or job.state != RUNNING or job.completing:
            return None
        if "step" not in values:
            names = [s.step for s in rows.steps(db, "job_id = ?", (job.id,))]
            values = {**values, "step": str(sum(name.isdigit() for name in names))}
        step = StepRecord(**{"start_s": time.time(), **values})
        rows.insert(db, "step", {name: getattr(step, name) for name in StepRecord.fields()})
    return step


def finish_step(
    job_id: int, step: str, state: str, exit_code: int, exit_signal: int = 0, **usage: object
) -> None:
    """`usage`: max_rss_kib, cpu_s, user_cpu_s."""
    with transaction() as db:
        values = {"state": state, "exit_code": exit_code, "exit_signal": exit_signal, **usage}
        values["end_s"] = time.time()
        columns = ", ".join(f"{name} = ?" for name in values)
        db.execute(
            f"UPDATE step SET {columns} WHERE job_id = ? AND step = ? AND end_s = 0",  # noqa: S608
            (*values.values(), job_id, step),
        )


def mark_step_cancelled(job_id: int, step: str, uid: int) -> None:
    """Who cancelled it, for sacct; the supervisor ends the step and decides its state."""
    with transaction() as db:
        db.execute(
            "UPDATE step SET cancelled_by = ? WHERE job_id = ? AND step = ? AND end_s = 0",
            (uid, job_id, step),
        )


def mark_completing(
    job_id: int, state: str, exit_code: int = 0, exit_signal: int = 0
) -> Job | None:
    """The end of a running job is decided, its processes are being ended (squeue: CG).

    The first decision stands: a cancelled job that then fails stays cancelled.
    """
    with transaction() as db:
        job = rows.job(db, job_id)
        if job is None or job.state != RUNNING:
            return job
        rows.change(
            db,
            job_id,
            state=state,
            completing=1,
            end_s=time.time(),
            exit_code=exit_code,
            exit_signal=exit_signal,
        )
        return rows.job(db, job_id)


def mark_cancelled(job_id: int, uid: int, tasks: Collection[int] | None = None) -> Job | None:
    """Ends a pending job at once; a running one becomes CANCELLED and completing. `tasks`: of those
    of an array that wait together only these.

    Returns the job as it was before, so that the caller knows whether to stop processes.
    """
    with transaction() as db:
        job = rows.job(db, job_id)
        if job is None or job.state not in (PENDING, RUNNING):
            return job
        if tasks is not None and job.array_waiting and not arrays.leave_out(db, job, tasks):
            return job
        now_s = time.time()
        rows.change(
            db,
            job_id,
            state=CANCELLED,
            cancelled_by=uid,
            end_s=now_s,
            completing=int(job.state == RUNNING),
            requeue_asked="",
            start_s=job.start_s or now_s,
        )
        return job


def mark_unplaced(job_id: int) -> None:
    """A job that would not wait (--immediate), as Slurm keeps it."""
    with transaction() as db:
        job = rows.job(db, job_id)
        if job is not None and job.state == PENDING:
            now_s = time.time()
            ended: dict[str, object] = {"state": FAILED, "reason": "BadConstraints"}
            rows.change(db, job_id, **ended, start_s=now_s, end_s=now_s, exit_signal=1)


REASONS = {
    FAILED: "NonZeroExitCode",
    TIMEOUT: "TimeLimit",
    OUT_OF_MEMORY: "OutOfMemory",
    NODE_FAIL: "NodeDown",
}
"""Why a job ended as it did, as squeue and scontrol show it."""


def finish(job_id: int, state: str = COMPLETED, exit_code: int = 0, exit_signal: int = 0) -> None:
    """No process of the job is left: its nodes are free. Keeps an end decided earlier.

    A job whose requeue was asked for is pending again instead.
    """
    with transaction() as db:
        job = rows.job(db, job_id)
        if job is None or (job.state in FINAL_STATES and not job.completing):
            return
        if job.requeue_asked:
            queue_again(db, job)
            return
        values: dict[str, object] = {"completing": 0}
        if job.state == RUNNING:
            values |= {"state": state, "end_s": time.time()}
        if job.state == RUNNING or exit_code or exit_signal:
            values |= {"exit_code": exit_code, "exit_signal": exit_signal}
        final = str(values.get("state", job.state))
        reason = REASONS.get(final, job.reason)
        if final == FAILED and exit_signal:
            reason = "JobLaunchFailure"  # what Slurm says of every script that dies by a signal
        rows.change(db, job_id, **values, reason=reason)
        _end_open_steps(db, job_id, final)


def record_dead_supervisor(seen: Job) -> bool:
    """The supervisor is dead and nothing of the job is left: NODE_FAIL, or queued again.

    Not where the job has ended, or begun anew, since it was `seen`.
    """
    job_id = seen.id
    with transaction() as db:
        job = rows.job(db, job_id)
        if job is None or (job.state != RUNNING and not job.completing):
            return False
        if (job.start_s, job.supervisor_pid) != (seen.start_s, seen.supervisor_pid):
            return False
        if job.state == RUNNING or job.requeue_asked:
            if job.requeue_asked:
                queue_again(db, job)
                return True
            rows.change(
                db,
                job_id,
                state=NODE_FAIL,
                reason=REASONS[NODE_FAIL],
                end_s=time.time(),
                completing=0,
            )
        else:
            rows.change(db, job_id, completing=0)
        _end_open_steps(db, job_id, CANCELLED)
        return True


def _end_open_steps(db: Connection, job_id: int, state: str) -> None:
    db.execute(
        "UPDATE step SET state = ?, end_s = ? WHERE job_id = ? AND end_s = 0",
        (state, time.time(), job_id),
    )
