"""Writes of a supervisor to the state folder, which outlast a full disk or a locked file."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from course_lib.box.processes import disk
from course_lib.box.processes.event_loop import Loop
from course_lib.box.processes.log import note
from course_lib.box.queue import state
from course_lib.box.queue.records import StepRecord
from course_lib.box.queue.store import HomeGone, StateError

PATIENCE_S = 60.0
BRIEF_S = 3.0
"""For what somebody waits for, and can be done without."""
LASTING_S = 24 * 3600.0
"""For what nobody else knows, and what a job cannot begin without."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0

Result = TypeVar("Result")


def insist(action: Callable[[], Result], patience_s: float = PATIENCE_S) -> Result | None:
    """Tries until it works; None if the disk or the state file could not be used for so long (it
    is in the log), or is gone with its folder."""
    deadline = time.monotonic() + patience_s
    wait_s = FIRST_WAIT_S
    said = ""
    while True:
        try:
            return action()
        except HomeGone:
            return None
        except (StateError, OSError) as error:
            if not isinstance(error, StateError) and not disk.is_failing(error):
                raise
            if str(error) != said:
                said = str(error)
                note(said)
            if time.monotonic() > deadline:
                return None
            time.sleep(wait_s)
            wait_s = min(wait_s * 1.5, LONGEST_WAIT_S)


class LaterWrites:
    """What happened in a job, written in its order and as soon as that can be done.

    The job does not wait for it: on a full disk its steps begin and end, and are in the queue
    once there is room.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.waiting: deque[Callable[[], object]] = deque()
        self.next_step = 0

    def post(self, action: Callable[[], object]) -> None:
        self.waiting.append(action)
        if len(self.waiting) == 1:
            self._write()

    def _write(self) -> None:
        try:
            while self.waiting:
                self.waiting[0]()
                self.waiting.popleft()
        except HomeGone:
            self.waiting.clear()
        except StateError as error:
            note(str(error))
            if "constraint" in str(error):  # it is there: an earlier try did more than it told
                self.waiting.popleft()
            self.loop.after(LONGEST_WAIT_S, self._write)

    def begin_step(self, values: dict[str, object]) -> StepRecord | None:
        """With the next number; None if the queue has ended the job."""
        values = {**values, "step": str(self.next_step), "start_s": time.time()}
        record: StepRecord | None = StepRecord(**values)
        try:
            if self.waiting:
                self.post(lambda: state.add_step(values))
            else:
                record = state.add_step(values)
        except HomeGone:
            return None
        except StateError:
            self.post(lambda: state.add_step(values))
        self.next_step += record is not None
        return record

    def drain(self) -> None:
        """At the end of the job, when there is all the time there is."""
        while self.waiting:
            insist(self.waiting[0], LASTING_S)
            self.waiting.popleft()
