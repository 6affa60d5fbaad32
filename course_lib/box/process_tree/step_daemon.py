"""The supervisor's end of the line to a step daemon."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple

from course_lib.box.process_tree.task import Order
from course_lib.box.processes import messages
from course_lib.box.processes.event_loop import Loop


class Usage(NamedTuple):
    """Of a process that has ended, or of all of a step together."""

    user_s: float = 0.0
    system_s: float = 0.0
    max_rss_kib: int = 0

    def plus(self, other: Usage) -> Usage:
        most_kib = max(self.max_rss_kib, other.max_rss_kib)
        return Usage(self.user_s + other.user_s, self.system_s + other.system_s, most_kib)


class StepDaemon:
    """`on_exit(key, wait status, usage)` for each process; `on_gone()` when the daemon is."""

    def __init__(
        self,
        loop: Loop,
        first: socket.socket,
        step: str,
        on_exit: Callable[[str, int, Usage], None],
        on_gone: Callable[[], None],
    ) -> None:
        self.loop = loop
        self.on_exit = on_exit
        self.on_gone = on_gone
        self.line, theirs = socket.socketpair()
        self.line.settimeout(messages.OWN_PATIENCE_S)
        messages.send(first, {"do": "daemon", "step": step}, [theirs.fileno()])
        theirs.close()
        loop.on_input(self.line, self._hear)

    def spawn(self, key: str, order: Order, files: Sequence[int]) -> None:
        self._say({"do": "spawn", "key": key, "order": vars(order)}, files)

    def signal(self, number: int, key: str | None = None, alone: bool = False) -> None:
        """To the process group of one child, to the child alone, or to the whole step."""
        self._say({"do": "signal", "signal": int(number), "key": key, "alone": alone})

    def end(self) -> None:
        """Kills whatever is left of the step; `on_gone` follows."""
        self._say({"do": "end"})

    def _say(self, message: messages.Message, files: Sequence[int] = ()) -> None:
        with contextlib.suppress(messages.Gone):
            messages.send(self.line, message, files)

    def _hear(self) -> None:
        try:
            message, _ = messages.receive(self.line)
        except messages.Gone:
            message = {"ended": True}
        if "exited" in message:
            self.on_exit(message["exited"], message["status"], Usage(*message["used"]))
        elif "ended" in message:
            self.loop.forget(self.line)
            self.line.close()
            self.on_gone()
