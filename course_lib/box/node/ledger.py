"""Writes of a supervisor to the state file, which outlast a full disk or a locked file."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from course_lib.box.node.log import note
from course_lib.box.queue.store import StateError

PATIENCE_S = 60.0
AGAIN_S = 0.5

Result = TypeVar("Result")


def insist(action: Callable[[], Result]) -> Result | None:
    """The result; None if the state file could not be used for a minute (it is in the log)."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return action()
        except StateError as error:
            note(str(error))
            if time.monotonic() > deadline:
                return None
            time.sleep(AGAIN_S)
