"""Who gets nodes next: first come, first served, as Slurm's sched/builtin does it.

The first job in the order that does not fit now (`Resources`) keeps every later one waiting
(`Priority`), also those that would fit. Held jobs, jobs that wait for another job or for a
time are not in the order.
"""

from __future__ import annotations

import time

from course_lib.box import settings
from course_lib.box.queue import access, dependency, waiting
from course_lib.box.queue.place import Node, empty_nodes, place
from course_lib.box.queue.records import CANCELLED, RUNNING, Allocation, Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection


def run_pass() -> list[int]:
    """Gives nodes to the jobs whose turn it is and starts their supervisors."""
    from course_lib.box.supervisor import launch

    own_job = launch.inside_job()
    if own_job is not None:
        _ask_for_pass(own_job)
        return []
    with access.transaction() as db:
        started = allot_nodes(db, settings.load())
    for job_id in started:
        launch.start_supervisor(job_id)
    return started


def _ask_for_pass(own_job: int) -> None:
    """Inside a job a supervisor would end with the job, so somebody outside starts it."""
    from course_lib.box.processes import control
    from course_lib.box.queue import keeper

    if not keeper.poke():
        control.send(own_job, {"do": "pass"})


def allot_nodes(db: Connection, box: settings.Settings) -> list[int]:
    """One pass over the pending jobs inside the caller's transaction.

    Only the jobs up to the first that must wait are read; what the others are told is written
    by three statements, however many they are.
    """
    now_s = time.time()
    nodes: list[Node] | None = None
    blocked_nodes: set[str] = set()
    started: list[int] = []
    seen = [0]
    order = "ORDER BY priority - nice DESC, id"
    where = f"state = 'PENDING' AND hold = '' AND begin_s <= ? {order}"
    for job in access.each_job(db, where, (now_s,)):
        reason = dependency_reason(db, job)
        if reason is None:
            nodes = nodes or free_nodes(db, box)
            parts = place(job, [node for node in nodes if node.name not in blocked_nodes])
            if parts is not None:
                _start(db, job, parts, nodes)
                started.append(job.id)
                continue
            reason = "Resources" if place(job, nodes) is None else "Priority"
        _note(db, job, reason)
        seen.append(job.id)
        if reason in ("Resources", "Priority"):
            names = set(job.want_nodes.split(",")) if job.want_nodes else set()
            if len(names) < job.nodes_min:
                break
            blocked_nodes |= names
    _tell_the_others(db, seen, now_s)
    return started


def _tell_the_others(db: Connection, seen: list[int], now_s: float) -> None:
    """Reasons of the jobs that the pass did not reach, or that are not in the order at all."""
    known = ", ".join(map(str, seen))
    others = f"state = 'PENDING' AND id NOT IN ({known})"
    for job in access.jobs(db, f"{others} AND hold = '' AND dependency != ''"):
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
        " AND reason NOT IN ('JobHeldUser', 'JobHeldAdmin', ?)",
        (waiting.HELD_AGAIN,),
    )


def free_nodes(db: Connection, box: settings.Settings) -> list[Node]:
    """The nodes with what running and completing jobs hold taken out."""
    nodes = empty_nodes(box)
    named = {node.name: node for node in nodes}
    holding = {job.id: job for job in access.jobs(db, "state = 'RUNNING' OR completing = 1")}
    held = access.all_allocations(
        db, "job_id IN (SELECT id FROM job WHERE state = 'RUNNING' OR completing = 1)"
    )
    for job_id, part in held:
        if part.node in named:
            named[part.node].take(part, bool(holding[job_id].exclusive))
    return nodes


def dependency_reason(db: Connection, job: Job) -> str | None:
    """Why a job with dependencies is not in the order yet; None if it is."""
    if not job.dependency:
        return None
    verdict, _ = dependency.judge(db, job)
    names = {dependency.NEVER: "DependencyNeverSatisfied", dependency.WAITING: "Dependency"}
    return names.get(verdict)


def _start(db: Connection, job: Job, parts: list[Allocation], nodes: list[Node]) -> None:
    for part in parts:
        next(node for node in nodes if node.name == part.node).take(part, bool(job.exclusive))
    access.allot(db, job.id, parts)
    now_s = time.time()
    access.change(
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
    """Writes only what changed: a pass over many waiting jobs is mostly reading."""
    if reason == "DependencyNeverSatisfied" and job.kill_on_invalid_dependency == 1:
        now_s = time.time()
        access.change(
            db, job.id, state=CANCELLED, reason=reason, end_s=now_s, start_s=now_s, cancelled_by=0
        )
        return
    values: dict[str, object] = {}
    if reason != job.reason:
        values["reason"] = reason
    if not job.eligible_s and reason in ("Resources", "Priority"):
        values["eligible_s"] = max(job.submit_s, job.begin_s)
    if values:
        access.change(db, job.id, **values)
