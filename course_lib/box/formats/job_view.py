"""One job as the commands show it: what was asked for, what it holds, and when it is now."""

from __future__ import annotations

import os
import time

from course_lib.box import hostlist
from course_lib.box.queue.records import CANCELLED, PENDING, RUNNING, Allocation, Job, StepRecord
from course_lib.box.scheduling.job_placement import cpus_for, devices_wanted

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


class JobView:
    def __init__(self, job: Job, parts: list[Allocation], now_s: float | None = None) -> None:
        self.job = job
        self.parts = parts
        self.now_s = now_s or time.time()
        self.steps: list[StepRecord] = []
        self.dependency = job.dependency
        """What it still waits for, as Slurm words it; filled in by who has the state at hand."""

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
