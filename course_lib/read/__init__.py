"""Understand: text and traces in, tables out.

Entry points are resolved on first use, so that nobody pays for pandas who only asks for a cause.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_lib.read.advice import Recommendation
    from course_lib.read.first_cause import Failure, failure, failures
    from course_lib.read.hostlist import expand_hosts
    from course_lib.read.link_times import Links, links
    from course_lib.read.memory_timeline import Memory, MemoryTimeline
    from course_lib.read.memory_traces import memory
    from course_lib.read.monitoring import Monitor, monitor
    from course_lib.read.nccl_log import NcclReader, nccl
    from course_lib.read.nccl_result import NcclLog
    from course_lib.read.profile_result import Profile
    from course_lib.read.profiles import profile
    from course_lib.read.slurm_result import SlurmTable, SlurmText
    from course_lib.read.slurm_tables import slurm
    from course_lib.read.training import TrainingReader, training_log
    from course_lib.read.training_result import TrainingLog, World

_WHERE = {
    "Failure": "first_cause",
    "failure": "first_cause",
    "failures": "first_cause",
    "NcclLog": "nccl_result",
    "NcclReader": "nccl_log",
    "nccl": "nccl_log",
    "Memory": "memory_timeline",
    "MemoryTimeline": "memory_timeline",
    "memory": "memory_traces",
    "Profile": "profile_result",
    "Recommendation": "advice",
    "profile": "profiles",
    "Links": "link_times",
    "links": "link_times",
    "Monitor": "monitoring",
    "monitor": "monitoring",
    "SlurmTable": "slurm_result",
    "SlurmText": "slurm_result",
    "slurm": "slurm_tables",
    "expand_hosts": "hostlist",
    "training_log": "training",
    "TrainingReader": "training",
    "TrainingLog": "training_result",
    "World": "training_result",
}

__all__ = [
    "Failure",
    "Links",
    "Memory",
    "MemoryTimeline",
    "Monitor",
    "NcclLog",
    "NcclReader",
    "Profile",
    "Recommendation",
    "SlurmTable",
    "SlurmText",
    "TrainingLog",
    "TrainingReader",
    "World",
    "expand_hosts",
    "failure",
    "failures",
    "links",
    "memory",
    "monitor",
    "nccl",
    "profile",
    "slurm",
    "training_log",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"course_lib.read has no {name!r}; it offers: {', '.join(__all__)}")
    value = getattr(import_module(f"course_lib.read.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
