"""States and reasons of jobs, in words. A state that nobody has heard of is still a state."""

from __future__ import annotations

import re
from dataclasses import dataclass

from course_lib.read.slurm_output.states_and_times import job_state

UNKNOWN = "UNKNOWN"
WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"})
ENDED_WELL = frozenset({"COMPLETED"})
ENDED_BADLY = frozenset(
    {
        "BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL",
        "OUT_OF_MEMORY", "PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT",
    }
)  # fmt: skip
ENDED = ENDED_WELL | ENDED_BADLY

STATES = {
    "PENDING": "waiting in the queue",
    "CONFIGURING": "its nodes are being made ready",
    "RUNNING": "running",
    "COMPLETING": "ending; its last processes are being cleared away",
    "SUSPENDED": "suspended by the cluster",
    "STOPPED": "stopped by a signal, its devices kept",
    "REQUEUED": "back in the queue",
    "COMPLETED": "completed",
    "FAILED": "failed: its script ended with an error",
    "CANCELLED": "cancelled",
    "TIMEOUT": "ended by its time limit",
    "DEADLINE": "ended by its deadline",
    "OUT_OF_MEMORY": "ended by the node: it used more memory than it was given",
    "NODE_FAIL": "lost: one of its nodes stopped answering",
    "BOOT_FAIL": "lost: its nodes did not start",
    "LAUNCH_FAILED": "its first process could not be started on the node",
    "PREEMPTED": "ended to make room for a job of higher priority",
    UNKNOWN: "not known to Slurm any more, and it left no exit code",
}

REASONS = {
    "Resources": "nodes or devices that it needs are in use; it is next when they are free",
    "Priority": "jobs before it in the queue come first",
    "Dependency": "it waits for another job to end",
    "DependencyNeverSatisfied": "the job it waits for did not end as asked; cancel it",
    "JobHeldUser": "it is held by its owner; `scontrol release` lets it go",
    "JobHeldAdmin": "it is held by an administrator; ask them",
    "BeginTime": "its start time has not come",
    "PartitionNodeLimit": "it asks for more nodes than its partition lends",
    "PartitionTimeLimit": "it asks for more time than its partition lends",
    "PartitionDown": "its partition takes no jobs at the moment",
    "PartitionInactive": "its partition starts no jobs at the moment",
    "ReqNodeNotAvail": "nodes that it needs are down, reserved or not there",
    "Reservation": "its reservation has not begun",
    "Licenses": "a licence that it needs is in use",
    "NodeDown": "a node that it needs is down",
    "BadConstraints": "no node has what it asks for; cancel it and ask for something else",
    "InvalidAccount": "its account does not exist or may not use this partition",
    "InvalidQOS": "its QOS does not exist or is not open to its account",
    "JobLaunchFailure": "its first process could not be started on the node",
    "NonZeroExitCode": "its script ended with an error",
    "TimeLimit": "its time limit was reached",
    "OutOfMemory": "it used more memory than it was given",
    "RaisedSignal": "it was ended by a signal",
    "Cleaning": "the remains of its last attempt are being cleared away",
}

FAMILIES = (
    (re.compile(r"Assoc.*(Minutes|RunMins|Mins)"), "its account has too few device-hours left"),
    (re.compile(r"QOS.*(Minutes|RunMins|Mins)"), "its QOS has too few device-hours left"),
    (re.compile(r"QOS.*(PerUser|PerAccount)"), "you have as much running as its QOS allows"),
    (re.compile(r"(QOS|Assoc).*(Limit|Grp|Max)"), "a limit of its account or QOS is reached"),
    (re.compile(r"Nodes required for job are DOWN"), "nodes that it needs are down or reserved"),
    (re.compile(r"JobArrayTaskLimit"), "as many of its array's tasks run as may run at once"),
)


@dataclass(frozen=True)
class Status:
    """Where a job stands, and who said so: squeue, sacct, its exit code file, or nobody."""

    state: str = UNKNOWN
    reason: str = ""
    exit_code: int | None = None
    elapsed_s: float | None = None
    nodes: str = ""
    source: str = ""

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def waiting(self) -> bool:
        return self.state in WAITING

    @property
    def words(self) -> str:
        """One clause for people: `waiting in the queue: jobs before it come first`."""
        state = STATES.get(self.state, f"in state {self.state}, which Slurm's manual explains")
        if self.state == "FAILED" and self.exit_code:
            return f"failed: its script ended with exit code {self.exit_code}"
        if not self.waiting:
            return state
        reason = explain(self.reason)
        return f"{state}: {reason}" if reason else state


def explain(reason: str) -> str:
    """A pending reason as a clause; one that is not in our list is passed on as Slurm said it."""
    name = reason.strip("() ").partition(",")[0].strip("() ")
    if name in ("", "None", "N/A"):
        return ""
    if name in REASONS:
        return REASONS[name]
    for pattern, words in FAMILIES:
        if pattern.search(name):
            return f"{words} ({name})"
    return f"Slurm gives the reason {name}"


def normal(state: str) -> str:
    """`CANCELLED by 1000` → CANCELLED, `CANCELLED+` → CANCELLED, `` → UNKNOWN."""
    return job_state(state) or UNKNOWN
