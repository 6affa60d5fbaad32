"""The signals that srun itself gets."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from course_lib.box.steps.task_ends import say

FORWARDED = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGQUIT)
TWICE_S = 1.0


class SrunSignals:
    """`tell(message)` goes to the supervisor, `print_status()` to the user."""

    def __init__(
        self, step_id: str, tell: Callable[[dict[str, Any]], None], print_status: Callable[[], None]
    ) -> None:
        self.step_id = step_id
        self.tell = tell
        self.print_status = print_status
        self.descriptor, self.writing = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self.writing, False)
        self.last_interrupt_s = -TWICE_S

    def install(self) -> None:
        signal.set_wakeup_fd(self.writing, warn_on_full_buffer=False)
        own = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT)
        for number in (*own, *FORWARDED):
            signal.signal(number, lambda *_: None)

    def handle(self) -> None:
        try:
            numbers = os.read(self.descriptor, 64)
        except BlockingIOError:
            return
        for number in numbers:
            if number == signal.SIGINT:
                self._interrupt()
            elif number == signal.SIGCONT:
                say("got SIGCONT")
            elif number in (signal.SIGTERM, signal.SIGHUP):
                say("forcing job termination")
                self.tell({"do": "kill"})
            elif number in FORWARDED:
                self.tell({"do": "signal", "signal": number})

    def _interrupt(self) -> None:
        """Ctrl-C: the first tells how it stands, the second within a second ends the step."""
        now_s = time.monotonic()
        if now_s - self.last_interrupt_s >= TWICE_S:
            self.last_interrupt_s = now_s
            say("interrupt (one more within 1 sec to abort)")
            self.print_status()
            return
        say(f"sending Ctrl-C to StepId={self.step_id}")
        self.tell({"do": "signal", "signal": int(signal.SIGINT)})
