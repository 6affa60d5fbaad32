"""The memory that a job asked for, watched once a second where the kernel does not do it."""

from __future__ import annotations

from collections.abc import Callable

from course_lib.box.supervisor import limits
from course_lib.box.supervisor.context import JobContext


class MemoryWatch:
    """Looks only at jobs with a limit, and closely only at those that may be over it."""

    def __init__(self, context: JobContext, on_exceeded: Callable[[], None]) -> None:
        self.guard = context.processes.guard
        self.on_exceeded = on_exceeded
        per_node = [
            limits.memory_limit_bytes(context.job, len(part.cpus), len(part.devices))
            for part in context.parts
        ]
        # One machine carries all nodes: what they may take together is what can be told
        self.most_bytes = None if None in per_node else sum(n for n in per_node if n)

    def look(self) -> None:
        most = self.most_bytes
        if most is None:
            return
        if limits.resident_bytes(self.guard) > most and limits.private_bytes(self.guard) > most:
            self.on_exceeded()
