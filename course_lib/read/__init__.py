"""Understand: text and traces in, tables out.

Entry points are resolved on first use, so that nobody pays for pandas who only asks for a cause.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_lib.read.first_causes.reader import failure, failures
    from course_lib.read.first_causes.result import Failure
    from course_lib.read.measurements.link_times import Links, links
    from course_lib.read.measurements.node_load import Monitor, monitor
    from course_lib.read.memory_traces.reader import memory
    from course_lib.read.memory_traces.timeline import Memory, MemoryTimeline
    from course_lib.read.nccl_logs.reader import NcclReader, nccl
    from course_lib.read.nccl_logs.result import NcclLog
    from course_lib.read.profiler_traces.reader import profile
    from course_lib.read.profiler_traces.recommendations import Recommendation
    from course_lib.read.profiler_traces.result import Profile
    from course_lib.read.slurm_output.hostlist import expand_hosts
    from course_lib.read.slurm_output.reader import slurm
    from course_lib.read.slurm_output.result import SlurmTable, SlurmText
    from course_lib.read.training_logs.reader import TrainingReader, training_log
    from course_lib.read.training_logs.result import TrainingLog, World

_WHERE = {
    "Failure": "first_causes.result",
    "failure": "first_causes.reader",
    "failures": "first_causes.reader",
    "NcclLog": "nccl_logs.result",
    "NcclReader": "nccl_logs.reader",
    "nccl": "nccl_logs.reader",
    "Memory": "memory_traces.timeline",
    "MemoryTimeline": "memory_traces.timeline",
    "memory": "memory_traces.reader",
    "Profile": "profiler_traces.result",
    "Recommendation": "profiler_traces.recommendations",
    "profile": "profiler_traces.reader",
    "Links": "measurements.link_times",
    "links": "measurements.link_times",
    "Monitor": "measurements.node_load",
    "monitor": "measurements.node_load",
    "SlurmTable": "slurm_output.result",
    "SlurmText": "slurm_output.result",
    "slurm": "slurm_output.reader",
    "expand_hosts": "slurm_output.hostlist",
    "training_log": "training_logs.reader",
    "TrainingReader": "training_logs.reader",
    "TrainingLog": "training_logs.result",
    "World": "training_logs.result",
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
