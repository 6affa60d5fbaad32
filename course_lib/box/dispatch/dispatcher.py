"""Starts and asks the dispatcher, the one process that waits for what nobody announces.

It lives only while there is something to wait for, and whoever finds it absent starts it.
Inside a job, where a supervisor must not be started (it would end with the job), commands
ask it to run the pass instead.
"""

from __future__ import annotations

import fcntl
import os
import sys

from course_lib.box import settings
from course_lib.box.processes import disk

LOCK = "dispatcher.lock"
SOCKET = "dispatcher.sock"
LOG = "dispatcher.log"


def ask_for_pass() -> bool:
    """False if there is none."""
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


def ensure() -> None:
    """Starts it if there is none; returns at once. Never called by the dispatcher itself, which
    would give its own lock away by opening and closing the file here.

    Where that cannot be done now (a full disk, too many processes) the next command tries again.
    """
    try:
        if _is_absent():
            _start()
    except OSError:
        return


def _is_absent() -> bool:
    try:
        with open(os.path.join(settings.state_home(), LOCK), "ab") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _start() -> None:
    package_parent = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    code = (
        f"import sys; sys.path.insert(0, {package_parent!r});"
        "from course_lib.box.dispatch import dispatcher_process; dispatcher_process.main()"
    )
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = disk.log_file(os.path.join(settings.state_home(), LOG), flags)
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-X", "utf8", "-c", code],
        {**os.environ, "COURSE_BOX_HOME": settings.state_home()},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,  # from its first moment on: the command's terminal may hang up at once
    )
