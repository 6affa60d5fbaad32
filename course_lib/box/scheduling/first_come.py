"""First-come, first-served scheduling, like Slurm's sched/builtin.

The first job in the order that does not fit now (`Resources`) makes every later job wait
(`Priority`), even if it would fit. Three kinds of jobs are not in the order: held jobs, jobs that
wait for a job or a time, and jobs that no node could run.
"""

from __future__ import annotations

import time
from _sqlite3 import Connection

from course_lib.box import settings
from course_lib.box.queue import arrays, store
from course_lib.box.queue.records import RUNNING, Allocation, Job
from course_lib.box.scheduling import dependency, job_placement
from course_lib.box.scheduling.job_placement import FreeNode, empty_nodes, place

# Reason of a job that will never run. It does not block other jobs.
BAD_CONSTRAINTS = "BadConstraints"
IN_ORDER = "state = 'PENDING' AND hold = '' AND begin_s <= ? ORDER BY priority DESC, id"


def allot_nodes(db: Connection, box: settings.Settings) -> list[int]:
    """Make one pass over the pending jobs inside the caller's transaction, and return started jobs.

    Only jobs up to the first that must wait are read. Three statements update the reasons of all
    later jobs.
    """
    now_s = time.time()
    nodes: list[FreeNode] | None = None
    started: list[int] = []
    seen = [0]
    for first in store.each_job(db, IN_ORDER, (now_s,)):
        job = first
        reason = dependency_reason(db, job)
        if reason is None and not job_placement.could_run(job, box):
            reason = BAD_CONSTRAINTS  # a held job was not checked at submission
        if reason is None:
            nodes = nodes or free_nodes(db, box)
            job, reason = _start_tasks(db, job, nodes, started)
            if reason is None:
                continue
        _note(db, job, reason)
        seen.append(job.id)
        if reason == "Resources":
            break
    _tell_the_others(db, seen, now_s)
    return started


def _start_tasks(
    db: Connection, job: Job, nodes: list[FreeNode], started: list[int]
) -> tuple[Job, str | None]:
    """Start a job, or all tasks of an array that fit. Return what still waits, and the reason."""
    left: Job | None = job
    while left is not None:
        job = left
        if arrays.is_throttled(db, job):
            return job, "JobArrayTaskLimit"
        parts = place(job, nodes)
        if parts is None:
            return job, "Resources"
        begun, left = arrays.begin_next(db, job)
        _start(db, begun, parts, nodes)
        started.append(begun.id)
    return job, None


def _tell_the_others(db: Connection, seen: list[int], now_s: float) -> None:
    """Write the reasons of jobs that the pass did not reach or that are not in the order."""
    known = ", ".join(map(str, seen))
    others = f"state = 'PENDING' AND id NOT IN ({known})"
    for job in store.jobs(db, f"{others} AND hold = '' AND dependency != ''"):
        late = "BeginTime" if job.begin_s > now_s else "Priority"
        _note(db, job, dependency_reason(db, job) or late)
    plain = f"{others} AND hold = '' AND dependency = ''"
    db.execute(
        "UPDATE job SET reason = 'Priority', eligible_s = max(submit_s, begin_s)"  # noqa: S608
        f" WHERE {plain} AND begin_s <= ? AND reason != 'Priority'",
        (now_s,),
    )
    db.execute(
        f"UPDATE job SET reason = 'BeginTime' WHERE {plain} AND begin_s > ?"  # noqa: S608
        " AND reason != 'BeginTime'",
        (now_s,),
    )
    db.execute(
        "UPDATE job SET reason = CASE hold WHEN 'admin' THEN 'JobHeldAdmin' ELSE 'JobHeldUser' END"
        " WHERE state = 'PENDING' AND hold != ''"
        " AND reason NOT IN ('JobHeldUser', 'JobHeldAdmin')"
    )


def free_nodes(db: Connection, box: settings.Settings) -> list[FreeNode]:
    """Return the nodes with the resources that running and completing jobs leave free."""
    nodes = empty_nodes(box)
    named = {node.name: node for node in nodes}
    holding = {job.id: job for job in store.jobs(db, store.HOLDING_NODES)}
    held = store.all_allocations(
        db, "job_id IN (SELECT id FROM job WHERE state = 'RUNNING' OR completing = 1)"
    )
    for job_id, part in held:
        if part.node in named:
            named[part.node].take(part, bool(holding[job_id].exclusive))
    return nodes


def dependency_reason(db: Connection, job: Job) -> str | None:
    """Return why a job's dependencies keep it out of the order, or None if they do not."""
    if not job.dependency:
        return None
    verdict, _ = dependency.judge(db, job)
    names = {dependency.NEVER: "DependencyNeverSatisfied", dependency.WAITING: "Dependency"}
    return names.get(verdict)


def _start(db: Connection, job: Job, parts: list[Allocation], nodes: list[FreeNode]) -> None:
    for part in parts:
        next(node for node in nodes if node.name == part.node).take(part, bool(job.exclusive))
    store.allot(db, job.id, parts)
    now_s = time.time()
    store.change(
        db,
        job.id,
        state=RUNNING,
        reason="None",
        dependency="",
        start_s=now_s,
        end_s=0.0,
        eligible_s=job.eligible_s or max(job.submit_s, job.begin_s),
        batch_host=parts[0].node,
        tasks=job.tasks if job.tasks_given else len(parts) * max(job.tasks_per_node, 1),
    )


def _note(db: Connection, job: Job, reason: str) -> None:
    """Write a job's reason if it changed, because a pass over many waiting jobs mostly reads."""
    values: dict[str, object] = {}
    if reason != job.reason:
        values["reason"] = reason
    if not job.eligible_s and reason in ("Resources", "Priority"):
        values["eligible_s"] = max(job.submit_s, job.begin_s)
    if values:
        store.change(db, job.id, **values)
