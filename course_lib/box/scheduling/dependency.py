"""Conditions of `--dependency`, evaluated from the rows of the other jobs."""

from __future__ import annotations

from _sqlite3 import Connection

from course_lib.box.frozen_record import Record
from course_lib.box.queue import arrays, store
from course_lib.box.queue.records import COMPLETED, FINAL_STATES, PENDING, Job

KINDS = ("after", "afterany", "afternotok", "afterok")
REFUSED = ("aftercorr", "afterburstbuffer", "expand")
READY, WAITING, NEVER = "ready", "waiting", "never"


PROBLEM = "Job dependency problem"


class DependencyError(ValueError):
    """The text is not a dependency. The message is Slurm's."""


class Condition(Record):
    kind: str
    job_id: int = 0
    # Task of an array; -1 means the whole array.
    task: int = -1


def parse(text: str) -> list[Condition]:
    """Return the conditions, all of which must hold."""
    found: list[Condition] = []
    for sign, name in (("?", "a choice of dependencies (?)"), ("+", "after:<job id>+<minutes>")):
        if sign in text:
            raise DependencyError(f"the box does not do {name}; a real Slurm does")
    for part in text.split(","):
        kind, *numbers = part.split(":")
        kind = kind.lower()
        if kind == "singleton" and not numbers:
            found.append(Condition(kind=kind))
            continue
        if kind[:1].isdigit() and not numbers:
            kind, numbers = "afterany", [kind]
        if kind in REFUSED:
            raise DependencyError(f"the box does not do {kind}; a real Slurm does")
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
    if not all(map(arrays.is_number, [job_id, *([task] if one_task else [])])) or int(job_id) == 0:
        raise DependencyError(PROBLEM)
    return Condition(kind=kind, job_id=int(job_id), task=int(task) if one_task else -1)


def judge(db: Connection, job: Job) -> tuple[str, str]:
    """Return READY, WAITING or NEVER, and the text that squeue and scontrol show."""
    if not job.dependency:
        return READY, ""
    judged = [(one, _judge_one(db, job, one)) for one in parse(job.dependency)]
    verdicts = {verdict for _, verdict in judged}
    shown = [_text(db, one, verdict) for one, verdict in judged if verdict != READY]
    return next(v for v in (NEVER, WAITING, READY) if v in verdicts), ",".join(shown)


def shown(db: Connection, job: Job) -> str:
    """Return the dependencies of a waiting job. A held job shows all of them, as in Slurm."""
    if not job.dependency or job.state != PENDING:
        return ""
    if not job.hold:
        return judge(db, job)[1]
    return ",".join(_text(db, one, WAITING) for one in parse(job.dependency))


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
