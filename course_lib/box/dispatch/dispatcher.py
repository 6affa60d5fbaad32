"""The one process that waits for what nobody announces: begin times and killed supervisors.

It lives only while there is something to wait for, and whoever finds it absent starts it.
Inside a job, where a supervisor must not be started (it would end with the job), commands
ask it to run the pass instead.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time

from course_lib.box import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

LOCK = "keeper.lock"
SOCKET = "keeper.sock"
LOOK_S = 1.0
"""A killed supervisor is noticed within this time."""
_serving: list[str] = []
"""Not empty in the keeper itself."""


def poke() -> bool:
    """Asks the keeper for a pass; False if there is none."""
    import socket  # 5 ms that a command without a job around it does not need

    home = settings.state_home()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        here = os.open(".", os.O_RDONLY)
        try:
            os.chdir(home)  # a socket's path may have 107 bytes at most, a home folder's more
            sender.sendto(b"pass", SOCKET)
        except OSError:
            return False
        finally:
            os.fchdir(here)
            os.close(here)
    return True


def is_absent() -> bool:
    if _serving:  # opening and closing the file here would give this process's own lock away
        return False
    try:
        with open(os.path.join(settings.state_home(), LOCK), "ab") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def ensure() -> None:
    """Starts the keeper if there is none; returns at once."""
    if not is_absent():
        return
    package_parent = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    code = (
        f"import sys; sys.path.insert(0, {package_parent!r});"
        "from course_lib.box.dispatch import dispatcher; dispatcher.main()"
    )
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(
        os.path.join(settings.state_home(), "keeper.log"),
        os.O_WRONLY | os.O_CREAT | os.O_APPEND,
        0o600,
    )
    try:
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", code],
            {**os.environ, "COURSE_BOX_HOME": settings.state_home()},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
        )
    finally:
        os.close(null)
        os.close(log)


def main() -> None:
    os.closerange(3, 4096)  # pipes of the shell that ran sbatch would otherwise never end
    from contextlib import suppress

    from course_lib.box.queue import store

    os.setsid()
    os.chdir(settings.state_home())
    store.belong()
    with suppress(store.HomeGone):
        while _keep() and _code_is_there():
            continue


def _code_is_there() -> bool:
    """Without it nothing can be started any more."""
    return os.path.exists(__file__)


def _keep() -> bool:
    """Until nothing is left to wait for; False where that is final."""
    with open(LOCK, "ab") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        _serving.append(LOCK)
        _serve()
        _serving.clear()
    # A job submitted between the last look and the unlocking saw this keeper as present.
    return _look() is not None


def _serve() -> None:
    import socket

    from course_lib.box.dispatch import upkeep
    from course_lib.box.queue import store
    from course_lib.box.scheduling import first_come

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        if os.path.exists(SOCKET):
            os.unlink(SOCKET)
        receiver.bind(SOCKET)
        while _code_is_there():
            try:
                upkeep.heal()
                first_come.run_pass()
                wait_s = _look()
            except store.HomeGone:
                raise
            except store.StateError:  # a full disk, a locked file: it may pass
                wait_s = LOOK_S
            if wait_s is None:
                return
            receiver.settimeout(wait_s)
            try:
                receiver.recv(64)
            except TimeoutError:
                continue


def _look() -> float | None:
    from course_lib.box.queue import rows

    with rows.snapshot() as db:
        return next_look_s(db)


def next_look_s(db: Connection) -> float | None:
    """Seconds until something may happen by itself; None if nothing ever will."""
    if db.execute("SELECT 1 FROM job WHERE state = 'RUNNING' OR completing = 1").fetchone():
        return LOOK_S
    begin = db.execute(
        "SELECT min(begin_s) FROM job WHERE state = 'PENDING' AND hold = ''"
        " AND reason != 'DependencyNeverSatisfied'"
    ).fetchone()[0]
    if begin is None:
        return None
    return min(max(float(begin) - time.time(), 0.1 if begin else LOOK_S), 5.0)
