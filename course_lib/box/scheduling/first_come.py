"""First-come, first-served scheduling, like Slurm's sched/builtin.

The first job in the order that does not fit now (`Resources`) makes every later job wait
(`Priority`), even if it would fit. Three kinds of jobs are not in the order: held jobs, jobs that
wait for a job or a time, and jobs that no node could run. The rows of the other jobs decide the
conditions of `--dependency`.
"""

from __future__ import annotations

import time
from _sqlite3 import Connection

from course_lib.box import settings
from course_lib.box.queue import arrays, store
from course_lib.box.queue.records import COMPLETED, FINAL_STATES, PENDING, RUNNING, Allocation, Job
from course_lib.box.scheduling import job_placement
from course_lib.box.scheduling.job_placement import FreeNode, empty_nodes, place

# Reason of a job that will never run. It does not block other jobs.
BAD_CONSTRAINTS = "BadConstraints"
# SQL: the reason of a job that a pass does not look at. The argument is the time of the pass.
REASON = (
    "CASE WHEN hold = 'admin' THEN 'JobHeldAdmin' WHEN hold != '' THEN 'JobHeldUser'"
    " WHEN begin_s > ? THEN 'BeginTime' ELSE 'Priority' END"
)
IN_ORDER = "state = 'PENDING' AND hold = '' AND begin_s <= ?"


def allot_nodes(db: Connection, box: settings.Settings) -> list[int]:
    """Make one pass over the pending jobs inside the caller's transaction, and return started jobs.

    The pass ends at the first job that must wait. One statement updates the reasons of all later
    jobs.
    """
    now_s = time.time()
    nodes: list[FreeNode] | None = None
    started: list[int] = []
    seen = [0]
    for first in store.jobs(db, IN_ORDER, (now_s,), order="priority DESC, id"):
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
    db.execute(
        f"UPDATE job SET reason = {REASON} WHERE {others}"  # noqa: S608
        f" AND (hold != '' OR dependency = '') AND reason != {REASON}",
        (now_s, now_s),
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
    names = {NEVER: "DependencyNeverSatisfied", WAITING: "Dependency"}
    return names.get(judge(db, job)[0])


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
        batch_host=parts[0].node,
        tasks=job.tasks if job.tasks_given else len(parts) * max(job.tasks_per_node, 1),
    )


def _note(db: Connection, job: Job, reason: str) -> None:
    """Write a job's reason if it changed, because a pass over many waiting jobs mostly reads."""
    if reason != job.reason:
        store.change(db, job.id, reason=reason)


KINDS = ("after", "afterany", "afternotok", "afterok")
REFUSED = ("aftercorr", "afterburstbuffer", "expand")
READY, WAITING, NEVER = "ready", "waiting", "never"
PROBLEM = "Job dependency problem"


class DependencyError(ValueError):
    """Error: the text is not a dependency. The message is Slurm's."""


class Condition(settings.Record):
    kind: str
    job_id: int = 0
    # Task of an array; -1 means the whole array.
    task: int = -1


def conditions(text: str) -> list[Condition]:
    """Return the conditions that must all hold."""
    found: list[Condition] = []
    for sign, name in (("?", "a choice of dependencies (?)"), ("+", "after:<job id>+<minutes>")):
        if sign in text:
            raise DependencyError(f"the box does not support {name}; a real Slurm does")
    for part in text.split(","):
        kind, *numbers = part.split(":")
        kind = kind.lower()
        if kind == "singleton" and not numbers:
            found.append(Condition(kind=kind))
            continue
        if kind[:1].isdigit() and not numbers:
            kind, numbers = "afterany", [kind]
        if kind in REFUSED:
            raise DependencyError(f"the box does not support {kind}; a real Slurm does")
        if kind not in KINDS or not numbers:
            raise DependencyError(PROBLEM)
        for number in numbers:
            condition = _condition(kind, number)
            if condition not in found:
                found.append(condition)
    return found


def _condition(kind: str, text: str) -> Condition:
    """Read `12`, `12_3` or `12_*`."""
    job_id, array, task = text.partition("_")
    one_task = bool(array) and task != "*"
    if not all(map(settings.is_number, [job_id, *[task][:one_task]])) or int(job_id) == 0:
        raise DependencyError(PROBLEM)
    return Condition(kind=kind, job_id=int(job_id), task=int(task) if one_task else -1)


def judge(db: Connection, job: Job) -> tuple[str, str]:
    """Return READY, WAITING or NEVER, and the text that squeue and scontrol show."""
    if not job.dependency:
        return READY, ""
    judged = [(one, _judge_one(db, job, one)) for one in conditions(job.dependency)]
    verdicts = {verdict for _, verdict in judged}
    texts = [_text(db, one, verdict) for one, verdict in judged if verdict != READY]
    return next(v for v in (NEVER, WAITING, READY) if v in verdicts), ",".join(texts)


def dependency_shown(db: Connection, job: Job) -> str:
    """Return the dependencies of a waiting job. A held job shows all of them, as in Slurm."""
    if not job.dependency or job.state != PENDING:
        return ""
    if not job.hold:
        return judge(db, job)[1]
    return ",".join(_text(db, one, WAITING) for one in conditions(job.dependency))


def _text(db: Connection, condition: Condition, verdict: str) -> str:
    kind, job_id, task = condition.kind, condition.job_id, condition.task
    state = "failed" if verdict == NEVER else "unfulfilled"
    if kind == "singleton":
        return f"{kind}({state})"
    of_array = "_*" if task < 0 and store.jobs(db, "array_job_id = ?", (job_id,)) else ""
    return f"{kind}:{job_id}{f'_{task}' if task >= 0 else of_array}({state})"


def _judge_one(db: Connection, job: Job, condition: Condition) -> str:
    kind = condition.kind
    if kind == "singleton":
        where = (
            "name = ? AND uid = ? AND id < ? AND (state IN ('PENDING', 'RUNNING') OR completing)"
        )
        return WAITING if store.jobs(db, where, (job.name, job.uid, job.id)) else READY
    task = condition.task
    others = arrays.members(db, condition.job_id, None if task < 0 else (task,))
    if not others:
        return READY  # Slurm treats an unknown job as a successful one
    if kind == "after":
        return READY if all(other.state != PENDING for other in others) else WAITING
    if not all(other.state in FINAL_STATES and not other.completing for other in others):
        return WAITING
    succeeded = all(other.state == COMPLETED for other in others)
    wanted = {"afterok": True, "afternotok": False}.get(kind, succeeded)
    return READY if succeeded == wanted else NEVER
