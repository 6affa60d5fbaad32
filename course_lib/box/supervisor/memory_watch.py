"""The memory that a job asked for, watched once a second where the kernel does not do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib.box.supervisor import limits

if TYPE_CHECKING:
    from course_lib.box.supervisor.supervisor import Supervisor


class MemoryWatch:
    """Looks only at jobs with a limit, and closely only at those that may be over it."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.of = supervisor
        per_node = [
            limits.memory_limit_bytes(supervisor.job, len(part.cpus), len(part.devices))
            for part in supervisor.parts
        ]
        # One machine carries all nodes: what they may take together is what can be told
        self.most_bytes = None if None in per_node else sum(n for n in per_node if n)

    def look(self) -> None:
        if self.most_bytes is None:
            return
        guard = self.of.guard
        most = self.most_bytes
        if limits.resident_bytes(guard) > most and limits.private_bytes(guard) > most:
            self.of.ending.exceeded_memory()
