"""One job as the commands show it: what was asked for, what it holds, and when it is now."""

from __future__ import annotations

import os
import time

from course_lib.box import hostlist, settings
from course_lib.box.queue import arrays
from course_lib.box.queue.records import CANCELLED, PENDING, RUNNING, Allocation, Job, StepRecord
from course_lib.box.scheduling.job_placement import cpus_for, devices_wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

BITSTR_LEN = 64
COMPACT = {
    "PENDING": "PD",
    "RUNNING": "R",
    "COMPLETING": "CG",
    "COMPLETED": "CD",
    "CANCELLED": "CA",
    "FAILED": "F",
    "TIMEOUT": "TO",
    "NODE_FAIL": "NF",
    "OUT_OF_MEMORY": "OOM",
    "SUSPENDED": "S",
    "CONFIGURING": "CF",
    "PREEMPTED": "PR",
    "BOOT_FAIL": "BF",
    "DEADLINE": "DL",
    "STOPPED": "ST",
    "REQUEUED": "RQ",
    "REQUEUE_HOLD": "RH",
    "RESIZING": "RS",
    "SIGNALING": "SI",
    "SPECIAL_EXIT": "SE",
    "STAGE_OUT": "SO",
    "REVOKED": "RV",
    "RESV_DEL_HOLD": "RD",
    "REQUEUE_FED": "RF",
}


def _shortened(text: str) -> str:
    """SLURM_BITSTR_LEN is how long a list of tasks may be; 0: as long as it is."""
    given = os.environ.get("SLURM_BITSTR_LEN", "")
    longest = int(given) if given.isdecimal() else BITSTR_LEN
    return f"{text[: longest - 4]}..." if 4 < longest <= len(text) else text


class JobView:
    def __init__(self, job: Job, parts: list[Allocation], now_s: float | None = None) -> None:
        self.job = job
        self.parts = parts
        self.now_s = now_s or time.time()
        self.steps: list[StepRecord] = []
        self.dependency = job.dependency
        """What it still waits for, as Slurm words it; filled in by who has the state at hand."""
        self.estimated_start_s = 0.0
        """0: nothing is known; filled in likewise."""

    @property
    def shown_id(self) -> str:
        """`12`, `12_3` of an array, `12_[3-5%2]` of its tasks that wait together."""
        job = self.job
        if not job.array_job_id:
            return str(job.id)
        if job.array_waiting:
            return f"{job.array_job_id}_[{self.task_text}]"
        return f"{job.array_job_id}_{job.array_task}" if job.array_task >= 0 else str(job.id)

    @property
    def task_text(self) -> str:
        """`3`, `3-5%2`; empty where there is no array."""
        job = self.job
        if not job.array_waiting:
            return str(job.array_task) if job.array_task >= 0 else ""
        listed = _shortened(arrays.displayed(job.array_waiting))
        return listed + (f"%{job.array_most}" if job.array_most else "")

    @property
    def in_order(self) -> tuple[int, float]:
        """By number; of an array by task, and those that wait together last."""
        job = self.job
        task = job.array_task if job.array_task >= 0 else float("inf")
        return job.array_job_id or job.id, task

    @property
    def state(self) -> str:
        return "COMPLETING" if self.job.completing else self.job.state

    @property
    def compact_state(self) -> str:
        return COMPACT[self.state]

    @property
    def priority(self) -> int:
        """0 while it is held; --nice makes it less."""
        job = self.job
        return 0 if job.hold and job.state == PENDING else max(job.priority - job.nice, 1)

    @property
    def eligible_s(self) -> float:
        """Not known while it is held or waits for another job, unless it has a begin time."""
        job = self.job
        if job.state == PENDING and job.begin_s > job.submit_s:
            return job.begin_s
        if job.state == PENDING and (job.hold or job.reason.startswith("Dependency")):
            return 0.0
        return job.eligible_s or max(job.submit_s, job.begin_s)

    @property
    def derived_exit_code(self) -> int:
        return max((step.exit_code for step in self.steps if step.step != "batch"), default=0)

    @property
    def nodes(self) -> str:
        return hostlist.compress_sorted([part.node for part in self.parts])

    @property
    def node_count(self) -> int:
        return len(self.parts) or self.job.nodes_shown

    @property
    def cpus(self) -> int:
        if self.parts:
            return sum(len(part.cpus) for part in self.parts)
        return max(cpus_for(self.job, self.job.tasks), self.job.nodes_min)

    @property
    def devices(self) -> int:
        if self.parts:
            return sum(len(part.devices) for part in self.parts)
        total, per_node, per_task = devices_wanted(self.job)
        return total or per_node * self.node_count or per_task * self.job.tasks

    @property
    def elapsed_s(self) -> float:
        job = self.job
        if job.state == PENDING or not job.start_s:
            return 0.0
        return (
            max((job.end_s if job.end_s and job.state != RUNNING else self.now_s), 0) - job.start_s
        )

    @property
    def end_s(self) -> float:
        """When it ended, or will at the latest."""
        job = self.job
        if job.state == RUNNING:
            return job.start_s + job.time_limit_min * 60 if job.time_limit_min >= 0 else 0.0
        return job.end_s

    @property
    def reason_or_nodes(self) -> str:
        if self.job.state == PENDING or (not self.parts and self.job.state == CANCELLED):
            return f"({self.job.reason})"
        if self.job.state in ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"):
            return f"({self.job.reason})"
        return self.nodes

    @property
    def command(self) -> str:
        """Script and its arguments; (null) where there is no file."""
        if not self.job.command:
            return "(null)"
        words = [self.job.command, *self.job.arguments()]
        return " ".join(os.fsdecode(word) for word in words)


def estimate_starts(views: list[JobView], db: Connection) -> None:
    """Only where a job waits for its turn: the reckoning needs the whole queue."""
    if not any(view.job.reason in ("Resources", "Priority") for view in views):
        return
    from course_lib.box.scheduling import estimates

    starts = estimates.starts(db, settings.load())
    for view in views:
        view.estimated_start_s = starts.get(view.job.id, 0.0)
