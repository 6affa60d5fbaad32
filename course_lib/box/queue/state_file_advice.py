"""Why the state file cannot be used, and what to do about it."""

from __future__ import annotations

import os

from course_lib.box import settings
from course_lib.box.queue.store import BUSY_S, NotOurs, StateError, path

LEAST_FREE_BYTES = 64 * 1024
"""What a transaction and its journal need."""


def explain(error: StateError) -> str:
    home = settings.state_home()
    if isinstance(error, NotOurs):
        return str(error)
    if is_full(error):
        return (
            f"the disk that holds {home} is full: free some space."
            " Jobs that run go on, and their ends are not lost"
        )
    if "locked" in str(error):
        return (
            f"another process holds {path()} since {BUSY_S:.0f} s: let it go on, or end it"
            f" (`fuser {path()}` names it)"
        )
    if _is_read_only(home):
        return f"{home} cannot be written: allow it, or name another folder with COURSE_BOX_HOME"
    return f"the box cannot use its state file: {error}"


def is_full(error: StateError) -> bool:
    if isinstance(error, NotOurs):
        return False
    if "is full" in str(error) or "No space left" in str(error):
        return True
    try:
        disk = os.statvfs(settings.state_home())
    except OSError:
        return False
    no_files = bool(disk.f_files) and disk.f_favail == 0
    return disk.f_bavail * disk.f_frsize < LEAST_FREE_BYTES or no_files


def _is_read_only(home: str) -> bool:
    existing = [name for name in (home, path()) if os.path.exists(name)]
    if not existing:
        return not os.access(os.path.dirname(home), os.W_OK)
    return not all(os.access(name, os.W_OK) for name in existing)
