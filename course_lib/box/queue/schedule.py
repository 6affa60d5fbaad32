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
    from course_lib.box.node import launch

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
    from course_lib.box.node import control
    from course_lib.box.queue import keeper

    if not keeper.poke():
        control.send(own_job, {"do": "pass"})


def allot_nodes(db: Connection, box: settings.Settings) -> list[int]:
    """One pass over the pending jobs inside the caller's transaction."""
    pending = access.jobs(db, "state = 'PENDING'")
    if not pending:
        return []
    nodes = free_nodes(db, box)
    blocked_nodes: set[str] = set()
    blocked = False
    started = []
    for job in sorted(pending, key=lambda job: (job.nice - job.priority, job.id)):
        reason = waiting_reason(db, job, box)
        if reason is None and blocked:
            reason = "Priority"
        if reason is None:
            usable = [node for node in nodes if node.name not in blocked_nodes]
            parts = place(job, usable)
            if parts is not None:
                _start(db, job, parts, nodes)
                started.append(job.id)
                continue
            reason = "Resources" if place(job, nodes) is None else "Priority"
            names = set(job.want_nodes.split(",")) if job.want_nodes else set()
            if len(names) >= job.nodes_min:
                blocked_nodes |= names
            else:
                blocked = True
        _note(db, job, reason)
    return started


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


def waiting_reason(db: Connection, job: Job, box: settings.Settings) -> str | None:
    """Why a job is not in the order at all; None if it is."""
    if job.hold:
        usual = "JobHeldAdmin" if job.hold == "admin" else "JobHeldUser"
        return job.reason if job.reason == waiting.HELD_AGAIN else usual
    if job.dependency:
        verdict, _ = dependency.judge(db, job)
        if verdict == dependency.NEVER:
            return "DependencyNeverSatisfied"
        if verdict == dependency.WAITING:
            return "Dependency"
    if job.begin_s > time.time():
        return "BeginTime"
    most = box.max_time_min
    if most is not None and not 0 <= job.time_limit_min <= most:
        return "PartitionTimeLimit"
    return None


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
