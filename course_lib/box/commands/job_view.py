"""One job as the commands show it: its request, its resources and its times."""

from __future__ import annotations

import os
import time

from course_lib.box import hostlist, settings
from course_lib.box.queue.records import CANCELLED, PENDING, RUNNING, Allocation, Job, StepRecord
from course_lib.box.scheduling.job_placement import cpus_for, per_node

# Every state with its short name, in the order of Slurm's numbers.
STATES = """
PENDING=PD RUNNING=R SUSPENDED=S COMPLETED=CD CANCELLED=CA FAILED=F TIMEOUT=TO NODE_FAIL=NF
PREEMPTED=PR BOOT_FAIL=BF DEADLINE=DL OUT_OF_MEMORY=OOM COMPLETING=CG CONFIGURING=CF RESIZING=RS
RESV_DEL_HOLD=RD REQUEUED=RQ REQUEUE_FED=RF REQUEUE_HOLD=RH REVOKED=RV SIGNALING=SI SPECIAL_EXIT=SE
STAGE_OUT=SO STOPPED=ST
"""
COMPACT = dict(pair.split("=") for pair in STATES.split())


def code_and_signal(ended: Job | StepRecord) -> tuple[int, int]:
    code = ended.exit_code - 128 if ended.exit_code > 128 else ended.exit_code
    return (0 if ended.exit_signal else code), ended.exit_signal


class JobView:
    def __init__(self, job: Job, parts: list[Allocation], now_s: float | None = None) -> None:
        self.job = job
        self.parts = parts
        self.now_s = now_s or time.time()
        # Open dependencies in Slurm's notation. The caller that reads the state file sets it.
        self.dependency = job.dependency

    @property
    def shown_id(self) -> str:
        """Return `12`, `12_3` for an array task, or `12_[3-5%2]` for tasks that wait together."""
        job = self.job
        if not job.array_job_id:
            return str(job.id)
        if job.array_waiting:
            return f"{job.array_job_id}_[{self.task_text}]"
        return f"{job.array_job_id}_{job.array_task}" if job.array_task >= 0 else str(job.id)

    @property
    def task_text(self) -> str:
        """Return `3` or `3-5%2`; empty if the job is not part of an array."""
        job = self.job
        if not job.array_waiting:
            return str(job.array_task) if job.array_task >= 0 else ""
        return job.array_waiting + (f"%{job.array_most}" if job.array_most else "")

    @property
    def in_order(self) -> tuple[int, float]:
        """Sort key: by number, then by task. Tasks that wait together come last."""
        job = self.job
        task = job.array_task if job.array_task >= 0 else float("inf")
        return job.array_job_id or job.id, task

    @property
    def state(self) -> str:
        return "COMPLETING" if self.job.completing else self.job.state

    @property
    def priority(self) -> int:
        """Return the priority; 0 while the job is held."""
        job = self.job
        return 0 if job.hold and job.state == PENDING else job.priority

    @property
    def eligible_s(self) -> float:
        """Return the eligible time; 0 for a job without begin time that is held or dependent."""
        job = self.job
        if job.state == PENDING and job.begin_s > job.submit_s:
            return job.begin_s
        if job.state == PENDING and (job.hold or job.reason.startswith("Dependency")):
            return 0.0
        return max(job.submit_s, job.begin_s)

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
        job = self.job
        return job.gpus or per_node(job) * self.node_count or job.gpus_per_task * job.tasks

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
        """Return the end time, or the latest possible end of a running job."""
        job = self.job
        if job.state == RUNNING:
            return job.start_s + job.time_limit_min * 60 if job.time_limit_min >= 0 else 0.0
        return job.end_s

    @property
    def reason_or_nodes(self) -> str:
        shows_reason = (PENDING, "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
        if self.job.state in shows_reason or (not self.parts and self.job.state == CANCELLED):
            return f"({self.job.reason})"
        return self.nodes

    @property
    def command(self) -> str:
        """Return the script and its arguments, or (null) if there is no file."""
        if not self.job.command:
            return "(null)"
        words = [self.job.command, *self.job.arguments()]
        return " ".join(os.fsdecode(word) for word in words)


def null(text: str) -> str:
    return text or "(null)"


def memory(view: JobView) -> str:
    """Return `2G` or `500M`, or `0` if no memory was requested."""
    text = view.job.memory or view.job.memory_per_cpu
    mib = int(text or 0)
    return units(mib) if mib else "0"


def units(mib: int) -> str:
    for size, unit in ((1024 * 1024, "T"), (1024, "G")):
        if mib >= size and mib % size == 0:
            return f"{mib // size}{unit}"
    return f"{mib}M"


def tres(view: JobView) -> str:
    """Return the job's resources or its request, by default with all memory of a node."""
    if view.parts:
        return held(view)
    job = view.job
    if job.memory_per_cpu:
        mib = int(job.memory_per_cpu) * view.cpus
    else:
        mib = (int(job.memory or 0) or settings.load().memory_per_node_mib) * job.nodes_min
    head, _, tail = held(view).partition(",")
    return f"{head},mem={units(mib)},{tail}"


def held(view: JobView) -> str:
    nodes = len(view.parts) or view.job.nodes_min
    found = f"cpu={view.cpus},node={nodes},billing={view.cpus}"
    return found + (f",gres/gpu={view.devices}" if view.devices else "")
