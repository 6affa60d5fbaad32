"""srun's own standard input on its way to the tasks."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from course_lib.box.steps.streams import Input

OWN = 0


class Feed:
    """Works within the loop of a session: its readers, and what it polls."""

    def __init__(
        self, targets: list[int], readers: dict[int, Callable[[], None]], poll: select.poll
    ) -> None:
        self.pump = Input(OWN, targets)
        self.readers = readers
        self.poll = poll

    def begin(self) -> None:
        """Our standard input, if we have one; at its end the tasks' is closed."""
        if not self.pump.targets:
            return
        if not _readable(OWN):
            for target in self.pump.targets:
                self.pump.drop(target)
            return
        self._watch(OWN, select.POLLIN, self._read)

    def _watch(self, descriptor: int, events: int, action: Callable[[], None]) -> None:
        self.readers[descriptor] = action
        self.poll.register(descriptor, events)

    def _forget(self, descriptor: int) -> None:
        if self.readers.pop(descriptor, None):
            self.poll.unregister(descriptor)

    def _read(self) -> None:
        pump = self.pump
        if not pump.pump():
            self._forget(OWN)
            for target in list(pump.held):
                os.set_blocking(target, True)
                if not pump.held[target]:
                    pump.drop(target)
        elif not pump.wants_more():
            self._forget(OWN)
        for target in pump.waiting():
            self._write_to(target)

    def _write_to(self, target: int) -> None:
        def write() -> None:
            self.pump.flush(target)
            if target not in self.pump.held or not self.pump.held[target]:
                self._forget(target)
                if self.pump.wants_more() and OWN not in self.readers:
                    self._watch(OWN, select.POLLIN, self._read)

        if target not in self.readers:
            self._watch(target, select.POLLOUT, write)


def _readable(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
