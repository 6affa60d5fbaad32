"""The dispatcher: runs a pass at begin times and after a job has died unnoticed."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from course_lib.box import settings, state_folder
from course_lib.box.dispatch import upkeep
from course_lib.box.dispatch.upkeep import LOCK, SOCKET
from course_lib.box.queue import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket


def main() -> None:
    os.chdir(settings.state_home())
    store.stay_with_folder()
    with suppress(store.HomeGone):
        while _serve_alone() and _code_is_there():
            continue


def _code_is_there() -> bool:
    """Return True if the box's code still exists. Without it nothing can be started."""
    return os.path.exists(__file__)


def _serve_alone() -> bool:
    """Serve until there is nothing to wait for. Return False if the dispatcher should end."""
    with open(LOCK, "ab") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        _serve()
    # A job submitted between the last look and the unlock saw this dispatcher as present.
    try:
        return _look() is not None
    except store.HomeGone:
        raise
    except store.StateError:
        return True


def _serve() -> None:
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        bound = False
        while _code_is_there():
            try:
                bound = bound or _bind(receiver)
                upkeep.end_dead_jobs()
                upkeep.run_pass()
                wait_s = _look()
            except store.HomeGone:
                raise
            except (store.StateError, OSError):  # a full disk or locked file may be temporary
                wait_s = upkeep.LOOK_S
            if wait_s is None:
                return
            receiver.settimeout(wait_s)
            with suppress(TimeoutError):
                receiver.recv(64)


def _bind(receiver: socket.socket) -> bool:
    """Open the socket for requests. If the disk is full, the dispatcher works without requests."""
    with suppress(FileNotFoundError):
        os.unlink(SOCKET)
    try:
        receiver.bind(SOCKET)
    except OSError as error:
        if not state_folder.is_failing(error):
            raise
        return False
    return True


def _look() -> float | None:
    with store.snapshot() as db:
        return upkeep.next_look_s(db)
