"""The state file, one SQLite database that many commands open at once, and its transactions.

A command must be able to continue if the file is damaged. An unreadable file is renamed, and a note
reports it. A supervisor ends its job if the new file does not know the job. Functions that take a
connection run inside the caller's transaction.
"""

from __future__ import annotations

import _sqlite3 as sqlite3  # the package around it imports datetime: 4 ms in every command
import os
import sys
import time
from zlib import crc32

from course_lib.box import settings, state_folder
from course_lib.box.queue.records import Allocation, Job, StepRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

BUSY_S = 10.0
# The version changes with the columns, so a file with another layout is never used by mistake.
SCHEMA_VERSION = (
    crc32(repr([Job.__annotations__, StepRecord.__annotations__]).encode()) & 0x7FFFFFFF
)
# Space that a transaction and its journal need.
LEAST_FREE_BYTES = 64 * 1024
SQL_TYPES = {"int": "INTEGER", "float": "REAL", "str": "TEXT", "bytes": "BLOB"}


class StateError(Exception):
    """Error: the state file is locked for long, its disk is full, or it is not writable."""


class HomeGone(StateError):
    """Error: the state folder was removed, and may have been created again."""


class NotOurs(StateError):
    """Error: the state folder belongs to another user. Nothing in it is read."""


# Inode of the folder for which a supervisor or the dispatcher was started. It is empty in commands,
# because a command creates a missing folder again.
_folder_of_this_process: list[int] = []


def stay_with_folder() -> None:
    """Make this process fail, from now on, if its state folder was removed."""
    _folder_of_this_process[:] = [_number(settings.state_home())]


def _number(folder: str) -> int:
    try:
        return os.stat(folder).st_ino
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:  # this error says nothing about the folder
        raise StateError(f"{folder}: {error}") from error


def path() -> str:
    return os.path.join(settings.state_home(), "state.sqlite")


def connect() -> sqlite3.Connection:
    """Open a state file of this version. Create or replace the file if needed."""
    file = path()
    _check_folder()
    try:
        if not _folder_of_this_process:
            state_folder.make_private(settings.state_home())
        return _opened(file)[0] or _create(file)
    except state_folder.NotPrivate as error:
        raise NotOurs(str(error)) from error
    except (sqlite3.Error, OSError) as error:
        _check_folder()  # the folder may have been removed in the meantime
        raise StateError(f"{file}: {error}") from error


def lock_path() -> str:
    return os.path.join(settings.state_home(), "create.lock")


def _check_folder() -> None:
    if _folder_of_this_process and _number(settings.state_home()) != _folder_of_this_process[0]:
        raise HomeGone(f"{settings.state_home()} was removed")


def _opened(file: str) -> tuple[sqlite3.Connection | None, str]:
    """Return a sound state file of this version, or the reason why it cannot be used.

    The reason is empty if no file exists yet. On failure the connection is closed, because its
    locks would block other processes.
    """
    connection = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)
    why = "cannot be read"
    try:
        connection.execute("PRAGMA synchronous=NORMAL")
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version == SCHEMA_VERSION:
            connection.execute("SELECT count(*) FROM fact").fetchone()  # fails if it was cut off
            return connection, ""
        why = "was made by another version of the box" if version else ""
    except sqlite3.DatabaseError as error:
        if not is_corrupt(error):
            connection.close()
            raise
    connection.close()
    return None, why


def is_corrupt(error: sqlite3.Error) -> bool:
    return any(word in str(error) for word in ("malformed", "not a database", "no such"))


def set_aside(file: str, why: str) -> str:
    """Rename an unusable state file with its journals, and print a note about it."""
    kept = f"{file}.{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    for suffix in ("-wal", "-shm", ""):
        if os.path.exists(file + suffix):
            os.replace(file + suffix, kept + suffix)
    tell(
        f"box: the state file {why}; the box renamed it to {kept} and began a new one."
        " The box ends all running jobs."
    )
    return kept


def tell(text: str) -> None:
    """Print to standard error. Ignore errors, because it may lie on a full disk."""
    try:
        print(text, file=sys.stderr)
    except OSError:
        return


def _create(file: str) -> sqlite3.Connection:
    """Create the tables under a lock, so that only one of many first commands creates them."""
    import fcntl

    with open(lock_path(), "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection, why = _opened(file)
        if connection is not None:
            return connection
        if why:
            set_aside(file, why)
        made = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)
        try:
            made.execute("PRAGMA synchronous=NORMAL")
            _make_tables(made)
        except sqlite3.Error:
            made.close()
            raise
    return made


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_table("job", Job, "PRIMARY KEY (id)"))
    connection.execute(_table("step", StepRecord, "PRIMARY KEY (job_id, step)"))
    connection.execute(
        "CREATE TABLE allocation (job_id INTEGER, node TEXT, cpus TEXT, devices TEXT,"
        " tasks INTEGER, PRIMARY KEY (job_id, node))"
    )
    connection.execute("CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT)")
    connection.execute("CREATE INDEX job_active ON job (state, completing)")
    connection.execute("CREATE INDEX job_array ON job (array_job_id) WHERE array_job_id > 0")
    first_free = max(_job_folders(), default=settings.load().first_job_id - 1) + 1
    connection.execute("INSERT INTO fact VALUES ('next_job_id', ?)", (str(first_free),))
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _table(name: str, record: type[Job] | type[StepRecord], key: str) -> str:
    columns = ", ".join(f"{c} {SQL_TYPES[t]}" for c, t in record.__annotations__.items())
    return f"CREATE TABLE {name} ({columns}, {key})"


def _job_folders() -> list[int]:
    """Return the job numbers of an earlier state file. A new file must not give them out again."""
    folder = os.path.join(settings.state_home(), "jobs")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [int(name) for name in names if name.isdigit()]


def explain(error: StateError) -> str:
    """Explain why the state file cannot be used, and what to do about it."""
    home = settings.state_home()
    if isinstance(error, NotOurs):
        return str(error)
    if is_full(error):
        return (
            f"the disk that holds {home} is full. Free some space."
            " Running jobs continue, and the box will record their ends"
        )
    if "locked" in str(error):
        return (
            f"another process has held {path()} for {BUSY_S:.0f} s. Wait, or end this process"
            f" (`fuser {path()}` names it)"
        )
    return f"the box cannot use its state file: {error}. {cure(lock_path())}"


def cure(*more: str) -> str:
    """Return what to do about a file that cannot be written, or about a folder in its place."""
    for file in (path(), f"{path()}-wal", f"{path()}-shm", *more):
        if os.path.isdir(file):
            return f"Remove the folder {file}, which is in the place of a file"
        if os.path.exists(file) and not os.access(file, os.R_OK | os.W_OK):
            return f"`chmod u+rw {file}` makes that file writable again"
    home = settings.state_home()
    way = "If you cannot write there, name another folder with COURSE_BOX_HOME"
    if os.access(home, os.W_OK):  # SQLite removes its journals when the last process closes them
        way = "Its files can be written now, so try again"
    return f"{way}. If no job of yours runs, you may remove {home}"


def is_full(error: StateError) -> bool:
    if "is full" in str(error) or "No space left" in str(error):
        return True
    try:
        disk = os.statvfs(settings.state_home())
    except OSError:
        return False
    no_files = bool(disk.f_files) and disk.f_favail == 0
    return disk.f_bavail * disk.f_frsize < LEAST_FREE_BYTES or no_files


# Columns that are read only to run or show one job. Together they take kilobytes per job.
HEAVY = ("script", "argv", "environment")
LIGHT_COLUMNS = [name for name in Job.__annotations__ if name not in HEAVY]
HOLDING_NODES = "(state = 'RUNNING' OR completing = 1)"
# Jobs that squeue and scontrol show: they have not ended, or ended after the time that is given.
SHOWN = "(state IN ('PENDING', 'RUNNING') OR completing = 1 OR end_s > ?)"
ALL_COLUMNS = list(Job.__annotations__)
STEP_COLUMNS = ", ".join(StepRecord.__annotations__)


class transaction:
    """A write transaction: all of its changes happen, or none. Other writers wait up to 10 s."""

    begin = "BEGIN IMMEDIATE"

    def __enter__(self) -> sqlite3.Connection:
        self.db = connect()
        try:
            self.db.execute(self.begin)
        except sqlite3.Error as error:
            self.db.close()
            raise StateError(f"{path()}: {error}") from error
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
            raise StateError(f"{path()}: {failure}") from failure
        finally:
            self.db.close()
        if isinstance(error, sqlite3.Error):
            raise StateError(f"{path()}: {error}") from error


class snapshot(transaction):
    """A read transaction. It never waits for a writer and sees the state of one moment."""

    begin = "BEGIN"


def jobs(
    db: sqlite3.Connection,
    where: str = "1",
    values: tuple[object, ...] = (),
    columns: list[str] = LIGHT_COLUMNS,
    order: str = "id",
) -> list[Job]:
    """Return the jobs that match `where`: SQL from this package, never a user's text."""
    rows = db.execute(
        f"SELECT {', '.join(columns)} FROM job WHERE {where} ORDER BY {order}",  # noqa: S608
        values,
    )
    return [Job.of_row(columns, row) for row in rows]


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
    # REPLACE, because a supervisor repeats a write that seemed to have failed
    marks = ", ".join("?" * len(values))
    text = f"INSERT OR REPLACE INTO {table} ({', '.join(values)}) VALUES ({marks})"  # noqa: S608
    db.execute(text, tuple(values.values()))


def change(db: sqlite3.Connection, job_id: int, **values: object) -> None:
    """Set columns of one job."""
    columns = ", ".join(f"{name} = ?" for name in values)
    db.execute(f"UPDATE job SET {columns} WHERE id = ?", (*values.values(), job_id))  # noqa: S608


def allocations(db: sqlite3.Connection, job_id: int) -> list[Allocation]:
    """Return the resources that a job holds or held, in node order; empty while it is pending."""
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


def take_number(db: sqlite3.Connection) -> int:
    """Take the next job number. A submission test also takes a number, as in Slurm."""
    job_id = int(db.execute("SELECT value FROM fact WHERE name = 'next_job_id'").fetchone()[0])
    db.execute("UPDATE fact SET value = ? WHERE name = 'next_job_id'", (str(job_id + 1),))
    return job_id
