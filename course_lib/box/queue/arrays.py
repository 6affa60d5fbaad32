"""Job arrays: one row stands for all waiting tasks. A task that is split off gets its own row.

An array of 500 tasks is one row until its tasks begin. The waiting tasks keep the number of the
array, so the last task has this number, as in Slurm.
"""

from __future__ import annotations

from _sqlite3 import Connection
from collections.abc import Collection, Iterable

from course_lib.box.queue import store
from course_lib.box.queue.records import Job
from course_lib.box.settings import is_number

# Slurm's default. The highest task number is one less.
MAX_ARRAY_SIZE = 1001
# Columns that a task's own row does not copy from the array's row.
OWN_COLUMNS = ("id", "array_task", "array_waiting")


class ArrayError(ValueError):
    """Error: the text is not a list of array tasks."""


def parse(text: str) -> tuple[str, int]:
    """Read `1-5,8,10-20:5%2`. Return the tasks in Slurm's notation and how many may run at once (0:
    all). Like Slurm, read a limit after % that is not a number as 0."""
    listed, _, most = text.partition("%")
    digits = most.partition("%")[0]
    found: set[int] = set()
    for piece in listed.strip().removeprefix("[").removesuffix("]").split(","):
        if piece:
            found.update(_range(piece))
    if found and max(found) >= MAX_ARRAY_SIZE:
        raise ArrayError(text)
    return written(found), int(digits) if is_number(digits) else 0


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
    """Return the numbers of a list that `written` made, in ascending order."""
    found: list[int] = []
    for piece in filter(None, text.split(",")):
        first, dash, last = piece.partition("-")
        found += range(int(first), int(last if dash else first) + 1)
    return found


def written(tasks: Iterable[int]) -> str:
    """Write task numbers as `1-3,5`."""
    groups: list[list[int]] = []
    for task in sorted(tasks):
        if groups and groups[-1][1] == task - 1:
            groups[-1][1] = task
        else:
            groups.append([task, task])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in groups)


def described(asked: str) -> dict[str, int]:
    """Return count, minimum, maximum and step of a list. The step is 1 if none is given."""
    tasks = numbers(parse(asked)[0])
    step = asked.partition(":")[2].partition(",")[0].partition("%")[0]
    return {"COUNT": len(tasks), "MAX": tasks[-1], "MIN": tasks[0], "STEP": int(step or 1)}


def changed(job: Job, **values: object) -> Job:
    """Return the same job with other values, as after `store.change`."""
    full = {**vars(job), **values}
    return Job.of_row(list(full), tuple(full.values()))


def members(db: Connection, job_id: int, tasks: Collection[int] | None = None) -> list[Job]:
    """Return the rows of a job, an array, or some of its tasks. A row of tasks that wait together
    is included even if only some of them are meant."""
    if tasks is None:
        return store.jobs(db, "id = ? OR array_job_id = ?", (job_id, job_id))
    found = store.jobs(db, "array_job_id = ?", (job_id,))
    return [job for job in found if job.array_task in tasks or waiting(job, tasks)]


def waiting(job: Job, tasks: Collection[int]) -> list[int]:
    """Return the tasks of this list for which the row stands."""
    return [task for task in numbers(job.array_waiting) if task in tasks]


def split_off(db: Connection, job_id: int, tasks: Collection[int] | None = None) -> list[Job]:
    """Return the same rows as `members`, after giving the named waiting tasks their own rows."""
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
    """Return the task's own row and the row of the remaining tasks, which may be a single task."""
    number = store.take_number(db)
    columns = ", ".join(name for name in store.ALL_COLUMNS if name not in OWN_COLUMNS)
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
    store.change(db, job.id, **values)
    return own, changed(job, **values)


def begin_next(db: Connection, job: Job) -> tuple[Job, Job | None]:
    """Return the job that starts when a row gets nodes (the row or its first task) and the rest."""
    tasks = numbers(job.array_waiting)
    if len(tasks) > 1:
        return _split_one(db, job, tasks[0])
    if tasks:
        values = {"array_waiting": "", "array_task": tasks[0]}
        store.change(db, job.id, **values)
        return changed(job, **values), None
    return job, None


def is_throttled(db: Connection, job: Job) -> bool:
    """Return True if the array already runs as many tasks as allowed (`%2`)."""
    if not job.array_most:
        return False
    where = f"SELECT count(*) FROM job WHERE array_job_id = ? AND {store.HOLDING_NODES}"  # noqa: S608
    return int(db.execute(where, (job.array_job_id,)).fetchone()[0]) >= job.array_most


def leave_out(db: Connection, job: Job, tasks: Collection[int]) -> bool:
    """Remove cancelled waiting tasks without a trace, as in Slurm. Return True if none is left."""
    left = [task for task in numbers(job.array_waiting) if task not in tasks]
    store.change(db, job.id, array_waiting=written(left))
    return not left
