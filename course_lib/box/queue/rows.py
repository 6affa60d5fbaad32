"""Rows in and out of the state file; every function here runs inside the caller's transaction."""

from __future__ import annotations

import _sqlite3 as sqlite3  # as in store.py

from course_lib.box.queue import store
from course_lib.box.queue.records import Allocation, Job, StepRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

HEAVY = (
    *("script", "argv", "environment", "rlimits", "step_options", "submit_line"),
    "earlier_runs",
)
"""Columns that only who runs or shows one job reads; together they are kilobytes per job."""
LIGHT_COLUMNS = [name for name in Job.__annotations__ if name not in HEAVY]
READ_AT_ONCE = 16
HOLDING_NODES = "(state = 'RUNNING' OR completing = 1)"
ALL_COLUMNS = list(Job.__annotations__)
STEP_COLUMNS = ", ".join(StepRecord.__annotations__)


class transaction:
    """A write transaction: everything inside happens, or nothing; others wait up to 10 s."""

    begin = "BEGIN IMMEDIATE"

    def __enter__(self) -> sqlite3.Connection:
        self.db = store.connect()
        try:
            self.db.execute(self.begin)
        except sqlite3.Error as error:
            self.db.close()
            raise store.StateError(f"{store.path()}: {error}") from error
        return self.db

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.db.execute("COMMIT" if kind is None else "ROLLBACK")
        except sqlite3.Error as failure:
            raise store.StateError(f"{store.path()}: {failure}") from failure
        finally:
            self.db.close()
        if isinstance(error, sqlite3.Error):
            if store.is_corrupt(error):
                store.replace_damaged()
            raise store.StateError(f"{store.path()}: {error}") from error


class certainty(transaction):
    """A read transaction: never waits for a writer and sees one moment."""

    begin = "BEGIN"


class snapshot(certainty):
    """The same for who only shows what is there: a copy, perhaps out of date, where the file
    itself cannot be opened. Nobody ends a job for what a copy says."""

    def __enter__(self) -> sqlite3.Connection:
        try:
            return super().__enter__()
        except store.StateError as error:
            from course_lib.box.queue import read_only_copy

            self.db = read_only_copy.connection(error)
            return self.db


def jobs(
    db: sqlite3.Connection,
    where: str = "1",
    values: tuple[object, ...] = (),
    columns: list[str] = LIGHT_COLUMNS,
) -> list[Job]:
    """`where` is SQL written in this package, never text of a user."""
    rows = db.execute(
        f"SELECT {', '.join(columns)} FROM job WHERE {where} ORDER BY id",  # noqa: S608
        values,
    )
    return [Job.of_row(columns, row) for row in rows]


def each_job(db: sqlite3.Connection, where: str, values: tuple[object, ...]) -> Iterator[Job]:
    """Like `jobs`, in the order that `where` ends with, and read only as far as it is used."""
    columns = ", ".join(LIGHT_COLUMNS)
    reader = db.cursor()
    reader.execute(f"SELECT {columns} FROM job WHERE {where}", values)  # noqa: S608
    waiting = reader.fetchmany(READ_AT_ONCE)
    while waiting:
        for row in waiting:
            yield Job.of_row(LIGHT_COLUMNS, row)
        waiting = reader.fetchmany(READ_AT_ONCE)
    reader.close()


def active_jobs(db: sqlite3.Connection) -> list[Job]:
    """Pending, running and completing."""
    return jobs(db, "state IN ('PENDING', 'RUNNING') OR completing = 1")


def job(db: sqlite3.Connection, job_id: int) -> Job | None:
    found = jobs(db, "id = ?", (job_id,), ALL_COLUMNS)
    return found[0] if found else None


def steps(
    db: sqlite3.Connection, where: str = "1", values: tuple[object, ...] = ()
) -> list[StepRecord]:
    rows = db.execute(
        f"SELECT {STEP_COLUMNS} FROM step WHERE {where} ORDER BY job_id, start_s, rowid",  # noqa: S608
        values,
    )
    names = StepRecord.fields()
    return [StepRecord.of_row(names, row) for row in rows]


def insert(db: sqlite3.Connection, table: str, values: dict[str, object]) -> None:
    marks = ", ".join("?" * len(values))
    columns = ", ".join(values)
    db.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(values.values()))  # noqa: S608


def change(db: sqlite3.Connection, job_id: int, **values: object) -> None:
    """Sets columns of one job."""
    columns = ", ".join(f"{name} = ?" for name in values)
    db.execute(f"UPDATE job SET {columns} WHERE id = ?", (*values.values(), job_id))  # noqa: S608


def allocations(db: sqlite3.Connection, job_id: int) -> list[Allocation]:
    """What a job holds or held, in node order; empty while it is pending."""
    return [of for id_, of in all_allocations(db, "job_id = ?", (job_id,)) if id_ == job_id]


def all_allocations(
    db: sqlite3.Connection, where: str = "1", values: tuple[object, ...] = ()
) -> list[tuple[int, Allocation]]:
    rows = db.execute(
        f"SELECT job_id, node, cpus, devices, tasks FROM allocation WHERE {where} ORDER BY rowid",  # noqa: S608
        values,
    )
    return [
        (row[0], Allocation(node=row[1], cpus=ids(row[2]), devices=ids(row[3]), tasks=row[4]))
        for row in rows
    ]


def allot(db: sqlite3.Connection, job_id: int, parts: list[Allocation]) -> None:
    db.execute("DELETE FROM allocation WHERE job_id = ?", (job_id,))
    for part in parts:
        cpus, devices = (",".join(map(str, numbers)) for numbers in (part.cpus, part.devices))
        db.execute(
            "INSERT INTO allocation VALUES (?, ?, ?, ?, ?)",
            (job_id, part.node, cpus, devices, part.tasks),
        )


def ids(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)
