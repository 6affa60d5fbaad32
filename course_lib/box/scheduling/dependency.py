"""Conditions of `--dependency`, evaluated from the rows of the other jobs."""

from __future__ import annotations

import time
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
    delay_min: int = 0


def parse(text: str) -> tuple[list[Condition], bool]:
    """Return the conditions, and whether any one of them is enough."""
    either = "?" in text
    if either and "," in text:
        raise DependencyError(PROBLEM)
    found: list[Condition] = []
    for part in text.split("?" if either else ","):
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
    return found, either


def _condition(kind: str, text: str) -> Condition:
    """Read `12`, `12_3`, `12_*` or `12+5`."""
    number, plus, delay = text.partition("+")
    job_id, array, task = number.partition("_")
    one_task = bool(array) and task != "*"
    digits = [job_id, *([task] if one_task else []), *([delay] if plus else [])]
    if not all(map(arrays.is_number, digits)) or int(job_id) == 0:
        raise DependencyError(PROBLEM)
    return Condition(
        kind=kind,
        job_id=int(job_id),
        task=int(task) if one_task else -1,
        delay_min=int(delay or 0),
    )


def judge(db: Connection, job: Job) -> tuple[str, str]:
    """Return READY, WAITING or NEVER, and the text that squeue and scontrol show."""
    if not job.dependency:
        return READY, ""
    conditions, either = parse(job.dependency)
    verdicts = [_judge_one(db, job, condition) for condition in conditions]
    shown = [
        _text(db, condition, verdict)
        for condition, verdict in zip(conditions, verdicts, strict=True)
        if verdict != READY
    ]
    text = ("?" if either else ",").join(shown)
    decisive = (READY, WAITING, NEVER) if either else (NEVER, WAITING, READY)
    verdict = next(value for value in decisive if value in verdicts)
    return verdict, "" if verdict == READY else text


def shown(db: Connection, job: Job) -> str:
    """Return the dependencies of a waiting job. A held job shows all of them, as in Slurm."""
    if not job.dependency or job.state != PENDING:
        return ""
    if not job.hold:
        return judge(db, job)[1]
    conditions, either = parse(job.dependency)
    return ("?" if either else ",").join(_text(db, one, WAITING) for one in conditions)


def _text(db: Connection, condition: Condition, verdict: str) -> str:
    kind, job_id, task, delay = (getattr(condition, name) for name in Condition.fields())
    state = "failed" if verdict == NEVER else "unfulfilled"
    if kind == "singleton":
        return f"{kind}({state})"
    of_array = "_*" if task < 0 and is_array(db, job_id) else ""
    which = f"_{task}" if task >= 0 else of_array
    return f"{kind}:{job_id}{which}{f'+{delay}' if delay else ''}({state})"


def _judge_one(db: Connection, job: Job, condition: Condition) -> str:
    kind, delay_min = condition.kind, condition.delay_min
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
        begun = have_begun(others, time.time() - delay_min * 60)
        return READY if begun else WAITING
    if not have_ended(others):
        return WAITING
    succeeded = have_succeeded(others)
    wanted = {"afterok": True, "afternotok": False}.get(kind, succeeded)
    return READY if succeeded == wanted else NEVER


def is_array(db: Connection, job_id: int) -> bool:
    return bool(store.jobs(db, "array_job_id = ?", (job_id,)))


def have_ended(jobs: list[Job]) -> bool:
    return all(job.state in FINAL_STATES and not job.completing for job in jobs)


def have_succeeded(jobs: list[Job]) -> bool:
    return all(job.state == COMPLETED for job in jobs)


def have_begun(jobs: list[Job], before_s: float) -> bool:
    return all(job.state != PENDING and job.start_s <= before_s for job in jobs)
