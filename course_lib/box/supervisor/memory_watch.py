"""The memory that a job asked for, watched once a second where the kernel does not do it."""

from __future__ import annotations

import resource
from collections.abc import Callable

from course_lib.box.processes import finding
from course_lib.box.queue.records import Job
from course_lib.box.supervisor.context import JobContext


class MemoryWatch:
    """Looks only at jobs with a limit, and closely only at those that may be over it."""

    def __init__(self, context: JobContext, on_exceeded: Callable[[], None]) -> None:
        self.guard = context.processes.guard
        self.on_exceeded = on_exceeded
        per_node = [
            memory_limit_bytes(context.job, len(part.cpus), len(part.devices))
            for part in context.parts
        ]
        # One machine carries all nodes: what they may take together is what can be told
        self.most_bytes = None if None in per_node else sum(n for n in per_node if n)

    def look(self) -> None:
        most = self.most_bytes
        if most is None:
            return
        if resident_bytes(self.guard) > most and private_bytes(self.guard) > most:
            self.on_exceeded()


def memory_limit_bytes(job: Job, cpus_on_node: int, devices_on_node: int) -> int | None:
    """What --mem, --mem-per-cpu or --mem-per-gpu allow the job on one node; None: no limit."""
    for text, times in (
        (job.memory, 1),
        (job.memory_per_cpu, cpus_on_node),
        (job.memory_per_gpu, devices_on_node),
    ):
        if text and text != "0":
            return _mebibytes(text) * times * 2**20
    return None


def _mebibytes(text: str) -> int:
    units = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}
    unit = text[-1].upper()
    return int(float(text[:-1]) * units[unit]) if unit in units else int(text)


def resident_bytes(root: int) -> int:
    """Of all descendants of a process, shared pages counted again for each; quick."""
    return sum(_resident(pid) for pid in finding.descendants(root))


def private_bytes(root: int) -> int:
    """The same without what they share, such as the pages of the warm process; slow."""
    return sum(_private(pid) for pid in finding.descendants(root))


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


def _private(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            kib = [int(line.split()[1]) for line in file if line.startswith("Private_")]
    except (OSError, ValueError):
        return 0
    return sum(kib) * 1024
