"""What `--dependency` waits for, judged from the other jobs' rows."""

from __future__ import annotations

import time

from course_lib.box.frozen_record import Record
from course_lib.box.queue import arrays, rows
from course_lib.box.queue.records import PENDING, Job
from course_lib.box.scheduling import array_dependencies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

KINDS = ("after", "afterany", "afternotok", "afterok", "aftercorr", "afterburstbuffer")
READY, WAITING, NEVER = "ready", "waiting", "never"


PROBLEM = "Job dependency problem"


class DependencyError(ValueError):
    """Not a dependency; Slurm's words for why."""


class Condition(Record):
    kind: str
    job_id: int = 0
    task: int = -1
    """Of an array; -1: all of it."""
    delay_min: int = 0


def parse(text: str) -> tuple[list[Condition], bool]:
    """The conditions, and whether any one of them is enough."""
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
        if kind == "expand" and numbers:
            raise DependencyError("Requested operation not supported on this system")
        if kind not in KINDS or not numbers:
            raise DependencyError(PROBLEM)
        for number in numbers:
            condition = _condition(kind, number)
            if condition not in found:
                found.append(condition)
    return found, either


def _condition(kind: str, text: str) -> Condition:
    """Of `12`, `12_3`, `12_*` or `12+5`."""
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


def leads_back(db: Connection, job: Job, text: str) -> str:
    """Slurm's words where a job, told to wait so, would wait for itself; else empty."""
    numbers = {job.id, job.array_job_id} - {0}
    waited_for, seen = _waited_for(text), set[int]()
    if waited_for & numbers:
        return PROBLEM
    while waited_for := waited_for - seen:
        seen |= waited_for
        marks = ",".join("?" * len(waited_for))
        where = f"state = 'PENDING' AND (id IN ({marks}) OR array_job_id IN ({marks}))"
        others = rows.jobs(db, where, (*waited_for, *waited_for))
        waited_for = set().union(*(_waited_for(other.dependency) for other in others))
        if waited_for & numbers:
            return "Circular job dependency"
    return ""


def _waited_for(text: str) -> set[int]:
    return {one.job_id for one in parse(text)[0]} - {0} if text else set()


def part_decided(db: Connection) -> None:
    """Tasks whose own counterparts (aftercorr) ended otherwise leave the row: what is left in it
    may be judged by any of them."""
    where = "state = 'PENDING' AND hold = '' AND array_waiting != '' AND dependency LIKE '%corr%'"
    for job in rows.jobs(db, where):
        tasks = arrays.numbers(job.array_waiting)
        alone = {task: arrays.changed(job, array_task=task, array_waiting="") for task in tasks}
        verdicts = {task: judge(db, alone[task])[0] for task in tasks}
        stay = WAITING if WAITING in verdicts.values() else verdicts[tasks[-1]]
        leaving = [task for task in tasks if verdicts[task] != stay]
        arrays.split_off(db, job.array_job_id, leaving)


def judge(db: Connection, job: Job) -> tuple[str, str]:
    """Ready, waiting or never, and the text that squeue and scontrol show."""
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
    """What a waiting job waits for. For a held one Slurm does not look: all is unfulfilled."""
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
    of_array = "_*" if task < 0 and array_dependencies.is_array(db, job_id) else ""
    which = f"_{task}" if task >= 0 else of_array
    return f"{kind}:{job_id}{which}{f'+{delay}' if delay else ''}({state})"


def _judge_one(db: Connection, job: Job, condition: Condition) -> str:
    kind, delay_min = condition.kind, condition.delay_min
    if kind == "singleton":
        where = (
            "name = ? AND uid = ? AND id < ? AND (state IN ('PENDING', 'RUNNING') OR completing)"
        )
        return WAITING if rows.jobs(db, where, (job.name, job.uid, job.id)) else READY
    others = array_dependencies.others(db, job, kind, condition.job_id, condition.task)
    if not others:
        return READY  # Slurm takes a job that it no longer knows for one that ended well
    if kind == "after":
        begun = array_dependencies.have_begun(others, time.time() - delay_min * 60)
        return READY if begun else WAITING
    if not array_dependencies.have_ended(others):
        return WAITING
    succeeded = array_dependencies.have_succeeded(others)
    wanted = {"afterok": True, "aftercorr": True, "afternotok": False}.get(kind, succeeded)
    return READY if succeeded == wanted else NEVER
