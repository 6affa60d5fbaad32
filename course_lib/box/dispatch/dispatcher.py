"""The dispatcher: runs a pass at begin times and after a job has died unnoticed."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress

from course_lib.box import settings
from course_lib.box.dispatch import upkeep
from course_lib.box.dispatch.upkeep import LOCK
from course_lib.box.queue import store


def main() -> None:
    os.chdir(settings.state_home())
    store.stay_with_folder()
    with suppress(store.HomeGone):
        while _serve_alone() and _code_is_there():
            continue


def _code_is_there() -> bool:
    """Return True if the box's code still exists. Without the code, no job can start."""
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
    while _code_is_there():
        try:
            upkeep.end_dead_jobs()
            upkeep.run_pass()
            wait_s = _look()
        except store.HomeGone:
            raise
        except (store.StateError, OSError):  # a full disk or locked file may be temporary
            wait_s = upkeep.LOOK_S
        if wait_s is None:
            return
        time.sleep(wait_s)


def _look() -> float | None:
    with store.snapshot() as db:
        return upkeep.next_look_s(db)
