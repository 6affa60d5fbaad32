"""Job arrays: one row stands for all tasks that wait; one that is split off gets its own.

So an array of 500 is one row until its tasks begin. The number of the array stays with those that
wait; the last task that is left has it, as in Slurm.
"""

from __future__ import annotations

from itertools import pairwise

from course_lib.box.queue import rows
from course_lib.box.queue.pending_jobs import take_number
from course_lib.box.queue.records import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from sqlite3 import Connection

MAX_ARRAY_SIZE = 1001
"""Slurm's default: the highest number of a task is one less."""
MOST_LISTED = 5
OWN_COLUMNS = ("id", "array_task", "array_waiting")
"""What a task's own row does not take over from the row that it is split off."""


class ArrayError(ValueError):
    """Not a list of array tasks."""


def parse(text: str) -> tuple[str, int]:
    """`1-5,8,10-20:5%2` as the tasks in Slurm's own writing and how many may run at once (0: all).
    What follows the % counts as 0 where it is no number, as in Slurm."""
    listed, _, most = text.partition("%")
    digits = most.partition("%")[0]
    found: set[int] = set()
    for piece in listed.strip().removeprefix("[").removesuffix("]").split(","):
        if piece:
            found.update(_range(piece))
    if found and max(found) >= MAX_ARRAY_SIZE:
        raise ArrayError(text)
    return written(found), int(digits) if is_number(digits) else 0


def is_number(text: str) -> bool:
    """`isdigit` alone is true of signs that int() does not read."""
    return text.isascii() and text.isdigit()


def _range(piece: str) -> range:
    bounds, colon, step = piece.partition(":")
    first, dash, last = bounds.partition("-")
    parts = [first, *([last] if dash else []), *([step] if colon else [])]
    if not all(map(is_number, parts)) or (colon and not dash):
        raise ArrayError(piece)
    begin, end, by = int(first), int(last if dash else first), int(step or 1)
    if end < begin or not 0 < by < MAX_ARRAY_SIZE or end >= MAX_ARRAY_SIZE:
        raise ArrayError(piece)
    return range(begin, end + 1, by)


def numbers(text: str) -> list[int]:
    """Of a list as `written` makes it, ascending."""
    found: list[int] = []
    for piece in filter(None, text.split(",")):
        first, dash, last = piece.partition("-")
        found += range(int(first), int(last if dash else first) + 1)
    return found


def written(tasks: Iterable[int]) -> str:
    """`1-3,5`"""
    groups: list[list[int]] = []
    for task in sorted(tasks):
        if groups and groups[-1][1] == task - 1:
            groups[-1][1] = task
        else:
            groups.append([task, task])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in groups)


def displayed(text: str) -> str:
    """As the commands print it: more than five tasks that are equally far apart as `0-20:4`."""
    tasks = numbers(text)
    steps = {after - before for before, after in pairwise(tasks)}
    if len(tasks) > MOST_LISTED and len(steps) == 1 and steps != {1}:
        return f"{tasks[0]}-{tasks[-1]}:{steps.pop()}"
    return text


def described(asked: str) -> dict[str, int]:
    """Count, least, most and step of a list as it was given. Slurm tells only a step that stands
    there: that of `5,7` is 1."""
    tasks = numbers(parse(asked)[0])
    step = asked.partition(":")[2].partition(",")[0].partition("%")[0]
    return {"COUNT": len(tasks), "MAX": tasks[-1], "MIN": tasks[0], "STEP": int(step or 1)}


def changed(job: Job, **values: object) -> Job:
    """The same job with other values, as after `rows.change`."""
    full = {**vars(job), **values}
    return Job.of_row(list(full), tuple(full.values()))


def members(db: Connection, job_id: int, tasks: Collection[int] | None = None) -> list[Job]:
    """The rows that a number means: a job, or an array, or some tasks of it; those that wait
    together also where only some of them are meant."""
    if tasks is None:
        return rows.jobs(db, "id = ? OR array_job_id = ?", (job_id, job_id))
    found = rows.jobs(db, "array_job_id = ?", (job_id,))
    return [job for job in found if job.array_task in tasks or waiting(job, tasks)]


def waiting(job: Job, tasks: Collection[int]) -> list[int]:
    """Those of the tasks that this row stands for."""
    return [task for task in numbers(job.array_waiting) if task in tasks]


def split_off(db: Connection, job_id: int, tasks: Collection[int] | None = None) -> list[Job]:
    """Like `members`, with rows of their own for tasks that waited with others."""
    found = []
    for job in members(db, job_id, tasks):
        chosen = waiting(job, tasks) if tasks is not None else []
        if not chosen or len(chosen) == len(numbers(job.array_waiting)):
            found.append(job)
            continue
        left = job
        for task in chosen:
            own, left = _split_one(db, left, task)
            found.append(own)
    return found


def _split_one(db: Connection, job: Job, task: int) -> tuple[Job, Job]:
    """The task's own row, and the row with what is left; a task that is left alone is one."""
    number = take_number(db)
    columns = ", ".join(name for name in rows.ALL_COLUMNS if name not in OWN_COLUMNS)
    db.execute(
        f"INSERT INTO job (id, array_task, array_waiting, {columns})"  # noqa: S608
        f" SELECT ?, ?, '', {columns} FROM job WHERE id = ?",
        (number, task, job.id),
    )
    own = changed(job, id=number, array_task=task, array_waiting="")
    left = [other for other in numbers(job.array_waiting) if other != task]
    values = {"array_waiting": written(left), "array_task": -1}
    if len(left) == 1:
        values = {"array_waiting": "", "array_task": left[0]}
    rows.change(db, job.id, **values)
    return own, changed(job, **values)


def begin_next(db: Connection, job: Job) -> tuple[Job, Job | None]:
    """What starts of a row that gets nodes: itself, or its first task; and what goes on waiting."""
    tasks = numbers(job.array_waiting)
    if len(tasks) > 1:
        return _split_one(db, job, tasks[0])
    if tasks:
        values = {"array_waiting": "", "array_task": tasks[0]}
        rows.change(db, job.id, **values)
        return changed(job, **values), None
    return job, None


def is_throttled(db: Connection, job: Job) -> bool:
    """Whether as many tasks of the array run as may (`%2`)."""
    if not job.array_most:
        return False
    where = f"SELECT count(*) FROM job WHERE array_job_id = ? AND {rows.HOLDING_NODES}"  # noqa: S608
    return int(db.execute(where, (job.array_job_id,)).fetchone()[0]) >= job.array_most


def leave_out(db: Connection, job: Job, tasks: Collection[int]) -> bool:
    """Waiting tasks that are cancelled leave no trace, as in Slurm. Whether none is left, so that
    the row is to be cancelled."""
    left = [task for task in numbers(job.array_waiting) if task not in tasks]
    rows.change(db, job.id, array_waiting=written(left))
    return not left
