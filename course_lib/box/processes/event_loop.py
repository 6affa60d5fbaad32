"""A loop that waits for sockets and timers. A supervisor does everything in one thread."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import select
import socket
import time
from collections.abc import Callable

Action = Callable[[], None]


class Loop:
    def __init__(self) -> None:
        self._poll = select.poll()
        self._readers: dict[int, Action] = {}
        self._timers: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()
        self._running = True

    def on_input(self, connection: socket.socket, action: Action) -> None:
        self._readers[connection.fileno()] = action
        self._poll.register(connection, select.POLLIN)

    def forget(self, connection: socket.socket) -> None:
        """Stop watching a connection. Call this before closing it."""
        if self._readers.pop(connection.fileno(), None):
            self._poll.unregister(connection)

    def after(self, seconds: float, action: Action) -> None:
        entry = (time.monotonic() + max(seconds, 0.0), next(self._numbers), action)
        heapq.heappush(self._timers, entry)

    def every(self, seconds: float, action: Action) -> None:
        def again() -> None:
            action()
            self.after(seconds, again)

        self.after(seconds, again)

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        while self._running:
            self._fire()
            for descriptor, _ in self._poll.poll(self._wait_ms()):
                if action := self._readers.get(descriptor):
                    action()
                else:  # closed before it was forgotten; it would be ready forever
                    with contextlib.suppress(KeyError):
                        self._poll.unregister(descriptor)
                if not self._running:
                    return

    def _fire(self) -> None:
        while self._timers and self._timers[0][0] <= time.monotonic() and self._running:
            heapq.heappop(self._timers)[2]()

    def _wait_ms(self) -> int | None:
        if not self._timers:
            return None
        return max(0, int((self._timers[0][0] - time.monotonic()) * 1000) + 1)
