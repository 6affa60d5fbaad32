"""The state file: one SQLite database, opened by many commands at once.

Whatever is wrong with the file, a command must be able to go on: a file that cannot be read
is set aside under another name, jobs that only it knew are ended, and a note says so.
"""

from __future__ import annotations

import _sqlite3 as sqlite3  # the package around it imports datetime: 4 ms in every command
import os
import sys
import time
from zlib import crc32

from course_lib.box import settings
from course_lib.box.queue import private_folder
from course_lib.box.queue.records import Job, StepRecord

BUSY_S = 10.0
SCHEMA_VERSION = (
    crc32(repr([Job.__annotations__, StepRecord.__annotations__]).encode()) & 0x7FFFFFFF
)
"""Changes by itself with the columns, so that no file of another layout is taken for ours."""
SQL_TYPES = {"int": "INTEGER", "float": "REAL", "str": "TEXT", "bytes": "BLOB"}


class StateError(Exception):
    """The state file cannot be used now: locked for long, disk full, folder not writable."""


class HomeGone(StateError):
    """The state folder that this process belongs to was removed, perhaps made anew."""


class NotOurs(StateError):
    """The state folder is somebody else's; nothing in it is read."""


_folder_of_this_process: list[int] = []
"""Inode of the folder that a supervisor or the dispatcher was started for; empty in commands,
which make a folder that is gone anew."""


def stay_with_folder() -> None:
    """From here on, a state folder that is gone stays gone for this process."""
    _folder_of_this_process[:] = [_number(settings.state_home())]


def _number(folder: str) -> int:
    try:
        return os.stat(folder).st_ino
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:  # which says nothing about the folder
        raise StateError(f"{folder}: {error}") from error


def path() -> str:
    return os.path.join(settings.state_home(), "state.sqlite")


def connect() -> sqlite3.Connection:
    """An open state file of this version, made or replaced where needed."""
    file = path()
    _check_folder()
    try:
        if not _folder_of_this_process:
            private_folder.make(settings.state_home())
        return _opened_as_ours(file) or _create(file)
    except private_folder.NotPrivate as error:
        raise NotOurs(f"the state folder {error}") from error
    except (sqlite3.Error, OSError) as error:
        _check_folder()  # it may have gone in the meantime
        raise StateError(f"{file}: {error}") from error


def _check_folder() -> None:
    if _folder_of_this_process and _number(settings.state_home()) != _folder_of_this_process[0]:
        raise HomeGone(f"{settings.state_home()} was removed")


def _opened_as_ours(file: str) -> sqlite3.Connection | None:
    """Whatever goes wrong, no connection stays open: its locks would be in everybody's way."""
    connection = _open(file)
    ours = False
    try:
        ours = connection is not None and _version(connection) == SCHEMA_VERSION
        return connection if ours else None
    finally:
        if connection is not None and not ours:
            connection.close()


def _open(file: str) -> sqlite3.Connection | None:
    """None where the file is none that SQLite can read."""
    connection = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=NORMAL")
        if not _is_cut(file) or _is_sound(connection):
            return connection
    except sqlite3.DatabaseError as error:
        if not is_corrupt(error):
            connection.close()
            raise
    connection.close()
    return None


def _is_cut(file: str) -> bool:
    """Not a whole number of sectors. The file itself must not be opened here: closing it again
    would drop SQLite's POSIX locks of this process, and the next writer would destroy it."""
    return os.stat(file).st_size % 512 != 0


def _is_sound(connection: sqlite3.Connection) -> bool:
    row = connection.execute("PRAGMA quick_check(1)").fetchone()
    return bool(row) and row[0] == "ok"


def is_corrupt(error: sqlite3.Error) -> bool:
    return any(word in str(error) for word in ("malformed", "not a database", "no such"))


def set_aside(file: str, why: str) -> str:
    """Renames a state file that cannot be used, with its journals, and says so."""
    kept = f"{file}.{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    for suffix in ("-wal", "-shm", ""):
        if os.path.exists(file + suffix):
            os.replace(file + suffix, kept + suffix)
    tell(
        f"box: the state file {why}; it is kept as {kept} and a new one is begun."
        " Jobs that were running are ended."
    )
    return kept


def tell(text: str) -> None:
    """On standard error, which may lie on the disk that is full."""
    try:
        print(text, file=sys.stderr)
    except OSError:
        return


def replace_damaged() -> None:
    """For damage that is met only while reading; another command may have been faster."""
    try:
        _replace_damaged()
    except OSError as error:
        raise StateError(f"{path()}: {error}") from error


def _replace_damaged() -> None:
    import fcntl

    with open(os.path.join(settings.state_home(), "create.lock"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection = _open(path())
        try:
            if connection is None or not _is_sound(connection):
                set_aside(path(), "is damaged")
        finally:
            if connection is not None:
                connection.close()


def _create(file: str) -> sqlite3.Connection:
    """Makes the tables under a lock, so that of many first commands only one makes them."""
    import fcntl

    with open(os.path.join(settings.state_home(), "create.lock"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection = _opened_as_ours(file)
        if connection is not None:
            return connection
        if version := _version_of(file):
            what = "cannot be read" if version == -1 else "was made by another version of the box"
            set_aside(file, what)
        made = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)
        try:
            made.execute("PRAGMA synchronous=NORMAL")
            _make_tables(made)
        except sqlite3.Error:
            made.close()
            raise
    return made


def _version_of(file: str) -> int:
    connection = _open(file)
    if connection is None:
        return -1
    try:
        return _version(connection)
    finally:
        connection.close()


def _version(connection: sqlite3.Connection) -> int:
    """-1 where the file cannot be read; a file that is only locked is an error."""
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.DatabaseError as error:
        if not is_corrupt(error):
            raise
        return -1


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
    lost = _job_folders()
    first_free = max(map(int, lost), default=settings.load().first_job_id - 1) + 1
    connection.execute("INSERT INTO fact VALUES ('next_job_id', ?)", (str(first_free),))
    connection.execute("INSERT INTO fact VALUES ('lost_jobs', ?)", (",".join(lost),))
    connection.execute("INSERT INTO fact VALUES ('lost_at', ?)", (str(time.time() if lost else 0),))
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _table(name: str, record: type[Job] | type[StepRecord], key: str) -> str:
    columns = ", ".join(f"{c} {SQL_TYPES[t]}" for c, t in record.__annotations__.items())
    return f"CREATE TABLE {name} ({columns}, {key})"


def _job_folders() -> list[str]:
    """Numbers of jobs of an earlier state file, which a new one must not give out again."""
    folder = os.path.join(settings.state_home(), "jobs")
    return [name for name in os.listdir(folder) if name.isdigit()] if os.path.isdir(folder) else []
