"""Events of a job, one function per event. Each event is one transaction.

Only the supervisor of a job (box/supervisor) and the commands call these functions. No other code
writes the state file. A function that is called too late changes nothing, and its result says so.
This happens if the job is already over or another supervisor was faster.
"""

from __future__ import annotations

import time
from _sqlite3 import Connection
from collections.abc import Collection

from course_lib.box import settings
from course_lib.box.queue import arrays, store
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
from course_lib.box.queue.store import snapshot, transaction


def submit(values: dict[str, object]) -> int:
    """Record a job as pending and give it the next number."""
    with transaction() as db:
        job_id = store.take_number(db)
        full = {"submit_s": time.time(), "priority": take_priority(db), **values}
        if full.get("array_waiting"):
            full["array_job_id"] = job_id
        record = Job(id=job_id, **full)
        store.insert(db, "job", {name: getattr(record, name) for name in Job.fields()})
    return job_id


def read_job(job_id: int) -> Job | None:
    with snapshot() as db:
        return store.job(db, job_id)


def read_allocation(job_id: int) -> list[Allocation]:
    with snapshot() as db:
        return store.allocations(db, job_id)


def read_steps(job_id: int) -> list[StepRecord]:
    with snapshot() as db:
        return store.steps(db, "job_id = ?", (job_id,))


def claim(job_id: int, pid: int, ticks: int) -> Job | None:
    """Make this process the supervisor of a job that has its nodes; None if the job must not run.

    The process that ran the scheduling pass starts the job. A process that finds the job without a
    supervisor starts it again. Only the first claim counts.
    """
    with transaction() as db:
        job = store.job(db, job_id)
        if job is None or job.state != RUNNING or job.supervisor_pid:
            return None
        store.change(db, job_id, supervisor_pid=pid, supervisor_ticks=ticks)
        return store.job(db, job_id)


def add_step(values: dict[str, object]) -> StepRecord | None:
    """Begin a step. Without a `step` it gets the next number. Return None if the job is over."""
    with transaction() as db:
        job = store.job(db, int(str(values["job_id"])))
        if job is None or job.state != RUNNING or job.completing:
            return None
        if "step" not in values:
            names = [s.step for s in store.steps(db, "job_id = ?", (job.id,))]
            values = {**values, "step": str(sum(name.isdigit() for name in names))}
        step = StepRecord(**{"start_s": time.time(), **values})
        store.insert(db, "step", {name: getattr(step, name) for name in StepRecord.fields()})
    return step


def finish_step(
    job_id: int, step: str, state: str, exit_code: int, exit_signal: int = 0, **usage: object
) -> None:
    """Record the end of a step. `usage` has max_rss_kib and cpu_s."""
    with transaction() as db:
        values = {"state": state, "exit_code": exit_code, "exit_signal": exit_signal, **usage}
        values["end_s"] = time.time()
        columns = ", ".join(f"{name} = ?" for name in values)
        db.execute(
            f"UPDATE step SET {columns} WHERE job_id = ? AND step = ? AND end_s = 0",  # noqa: S608
            (*values.values(), job_id, step),
        )


def mark_step_cancelled(job_id: int, step: str, uid: int) -> None:
    """Record for sacct which user cancelled a step. The supervisor ends it and sets its state."""
    with transaction() as db:
        db.execute(
            "UPDATE step SET cancelled_by = ? WHERE job_id = ? AND step = ? AND end_s = 0",
            (uid, job_id, step),
        )


def mark_completing(
    job_id: int, state: str, exit_code: int = 0, exit_signal: int = 0
) -> Job | None:
    """Record how a running job ends, while its processes are being ended (squeue: CG).

    The first decision stays: a cancelled job that then fails stays cancelled.
    """
    with transaction() as db:
        job = store.job(db, job_id)
        if job is None or job.state != RUNNING:
            return job
        store.change(
            db,
            job_id,
            state=state,
            completing=1,
            end_s=time.time(),
            exit_code=exit_code,
            exit_signal=exit_signal,
        )
        return store.job(db, job_id)


def mark_cancelled(job_id: int, uid: int, tasks: Collection[int] | None = None) -> Job | None:
    """End a pending job at once, or mark a running job as CANCELLED and completing.

    `tasks` selects tasks of an array that wait together. Return the job as it was before the call,
    so that the caller knows whether to stop processes.
    """
    with transaction() as db:
        job = store.job(db, job_id)
        if job is None or job.state not in (PENDING, RUNNING):
            return job
        if tasks is not None and job.array_waiting and not arrays.leave_out(db, job, tasks):
            return job
        now_s = time.time()
        store.change(
            db,
            job_id,
            state=CANCELLED,
            cancelled_by=uid,
            end_s=now_s,
            completing=int(job.state == RUNNING),
            requeue_asked=0,
            start_s=job.start_s or now_s,
        )
        return job


# Reasons for the end of a job, as squeue and scontrol show them.
REASONS = {
    FAILED: "NonZeroExitCode",
    TIMEOUT: "TimeLimit",
    OUT_OF_MEMORY: "OutOfMemory",
    NODE_FAIL: "NodeDown",
}


def finish(job_id: int, state: str = COMPLETED, exit_code: int = 0, exit_signal: int = 0) -> None:
    """Free the nodes of a job that has no process left, and keep an end that was decided earlier.

    If a requeue was requested, the job is pending again instead.
    """
    with transaction() as db:
        job = store.job(db, job_id)
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
            reason = "JobLaunchFailure"  # Slurm reports this for every script that a signal ends
        store.change(db, job_id, **values, reason=reason)
        _end_open_steps(db, job_id, final)


def record_dead_supervisor(seen: Job) -> bool:
    """Record NODE_FAIL, or requeue the job, after its supervisor died and nothing of it is left.

    Return False if the job has ended, or was started again, since it was `seen`.
    """
    job_id = seen.id
    with transaction() as db:
        job = store.job(db, job_id)
        if job is None or (job.state != RUNNING and not job.completing):
            return False
        if (job.start_s, job.supervisor_pid) != (seen.start_s, seen.supervisor_pid):
            return False
        if job.state == RUNNING or job.requeue_asked:
            if job.requeue_asked:
                queue_again(db, job)
                return True
            failed = {"state": NODE_FAIL, "reason": REASONS[NODE_FAIL], "completing": 0}
            store.change(db, job_id, **failed, end_s=time.time())
        else:
            store.change(db, job_id, completing=0)
        _end_open_steps(db, job_id, CANCELLED)
        return True


def _end_open_steps(db: Connection, job_id: int, state: str) -> None:
    db.execute(
        "UPDATE step SET state = ?, end_s = ? WHERE job_id = ? AND end_s = 0",
        (state, time.time(), job_id),
    )


# Slurm's priority/basic counts down from here, so that an earlier job goes first.
FIRST_PRIORITY = 4294901759


def take_priority(db: Connection) -> int:
    """Return the next lower priority. A released job goes to the end of the queue."""
    row = db.execute("SELECT value FROM fact WHERE name = 'next_priority'").fetchone()
    priority = int(row[0]) if row else FIRST_PRIORITY
    db.execute("INSERT OR REPLACE INTO fact VALUES ('next_priority', ?)", (str(priority - 1),))
    return priority


def hold(job: Job, by: str) -> None:
    """Hold a job. `by` is user or admin. A running job is held when it is queued again."""
    shown = {"reason": "JobHeldUser" if by == "user" else "JobHeldAdmin"}
    with transaction() as db:
        store.change(db, job.id, hold=by, **shown if job.state == PENDING else {})


def release(job_id: int) -> None:
    """Release a held job to the end of the queue."""
    with transaction() as db:
        store.change(db, job_id, hold="", reason="None", priority=take_priority(db))


def ask_requeue(job_id: int) -> None:
    """Request a requeue. A job that has ended is pending again at once."""
    with transaction() as db:
        job = store.job(db, job_id)
        if job is None:
            return
        store.change(db, job_id, requeue_asked=1)
        if job.state in FINAL_STATES and not job.completing:
            asked = store.job(db, job_id)
            assert asked is not None
            queue_again(db, asked)


def queue_again(db: Connection, job: Job) -> None:
    """Put a job, read with all columns, back in the queue. The delay lets a fault pass."""
    store.change(
        db,
        job.id,
        state=PENDING,
        completing=0,
        requeue_asked=0,
        restarts=job.restarts + 1,
        start_s=0.0,
        end_s=0.0,
        supervisor_pid=0,
        supervisor_ticks=0,
        exit_code=0,
        exit_signal=0,
        batch_host="",
        reason="BeginTime",
        submit_s=time.time(),
        begin_s=max(job.begin_s, time.time() + settings.load().requeue_delay_s),
    )
    store.allot(db, job.id, [])
    db.execute("DELETE FROM step WHERE job_id = ?", (job.id,))
