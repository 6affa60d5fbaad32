"""What the running tasks of a job use now, read from /proc; for sstat."""

from __future__ import annotations

import contextlib
import os

from course_lib.box import settings
from course_lib.box.processes import finding, job_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class TaskUsage:
    """Of the processes of one task together."""

    def __init__(self, task: int, node: str) -> None:
        self.task = task
        self.node = node
        self.rss_kib = 0
        self.virtual_kib = 0
        self.cpu_s = 0.0
        self.pids: list[int] = []

    def add(self, pid: int) -> None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            self.cpu_s += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
            self.virtual_kib += int(fields[20]) // 1024
            self.rss_kib += int(fields[21]) * PAGE_BYTES // 1024
            self.pids.append(pid)


def of_job(job_id: int) -> dict[str, list[TaskUsage]]:
    """Step -> its tasks, in order. What a step's own processes began with tells where they are."""
    found: dict[str, dict[int, TaskUsage]] = {}
    for pid in finding.marked(job_mark.marker(job_id, settings.state_home())):
        variables = _variables(pid)
        step = variables.get("SLURM_STEP_ID", "batch")
        number = int(variables.get("SLURM_PROCID", "0") or 0)
        tasks = found.setdefault(step, {})
        if number not in tasks:
            tasks[number] = TaskUsage(number, variables.get("SLURMD_NODENAME", ""))
        tasks[number].add(pid)
    return {step: [tasks[number] for number in sorted(tasks)] for step, tasks in found.items()}


def _variables(pid: int) -> dict[str, str]:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        items = (item.partition(b"=") for item in file.read().split(b"\0"))
        return {os.fsdecode(name): os.fsdecode(text) for name, _, text in items}
    return {}


def most(tasks: list[TaskUsage], value: Callable[[TaskUsage], float]) -> TaskUsage | None:
    return max(tasks, key=value, default=None)


def mean(tasks: list[TaskUsage], value: Callable[[TaskUsage], float]) -> float:
    return sum(map(value, tasks)) / len(tasks) if tasks else 0.0
