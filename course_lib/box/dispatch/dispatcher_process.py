"""The dispatcher: runs a pass when a begin time comes and when a job died with nobody looking."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from course_lib.box import settings
from course_lib.box.dispatch import passes, upkeep
from course_lib.box.dispatch.dispatcher import LOCK, SOCKET
from course_lib.box.processes import disk
from course_lib.box.queue import rows, store

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket


def main() -> None:
    os.closerange(3, 4096)  # pipes of the shell that ran sbatch would otherwise never end
    os.chdir(settings.state_home())
    store.stay_with_folder()
    with suppress(store.HomeGone):
        while _serve_alone() and _code_is_there():
            continue


def _code_is_there() -> bool:
    """Without it nothing can be started any more."""
    return os.path.exists(__file__)


def _serve_alone() -> bool:
    """Until nothing is left to wait for; False where that is final."""
    with open(LOCK, "ab") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        _serve()
    # A job submitted between the last look and the unlocking saw this dispatcher as present.
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
                passes.run_pass()
                wait_s = _look()
            except store.HomeGone:
                raise
            except (store.StateError, OSError):  # a full disk, a locked file: it may pass
                wait_s = passes.LOOK_S
            if wait_s is None:
                return
            receiver.settimeout(wait_s)
            with suppress(TimeoutError):
                receiver.recv(64)


def _bind(receiver: socket.socket) -> bool:
    """Nobody can ask where the disk has no room for a socket; it looks by itself all the same."""
    with suppress(FileNotFoundError):
        os.unlink(SOCKET)
    try:
        receiver.bind(SOCKET)
    except OSError as error:
        if not disk.is_failing(error):
            raise
        return False
    return True


def _look() -> float | None:
    with rows.snapshot() as db:
        return passes.next_look_s(db)
