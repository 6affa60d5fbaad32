"""Writes of a supervisor to the state file, which outlast a full disk or a locked file."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from course_lib.box.processes.log import note
from course_lib.box.queue.store import HomeGone, StateError

PATIENCE_S = 60.0
BRIEF_S = 3.0
"""For what is written once more later, while the end of a job must not wait for it."""
LASTING_S = 24 * 3600.0
"""For the end of a job, which nobody else knows."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0

Result = TypeVar("Result")


def insist(action: Callable[[], Result], patience_s: float = PATIENCE_S) -> Result | None:
    """Tries until it works; None if the state file could not be used for so long (it is in the
    log), or is gone with its folder."""
    deadline = time.monotonic() + patience_s
    wait_s = FIRST_WAIT_S
    said = ""
    while True:
        try:
            return action()
        except HomeGone:
            return None
        except StateError as error:
            if str(error) != said:
                said = str(error)
                note(said)
            if time.monotonic() > deadline:
                return None
            time.sleep(wait_s)
            wait_s = min(wait_s * 1.5, LONGEST_WAIT_S)
