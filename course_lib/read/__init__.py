"""Understand: text and traces in, tables out.

Entry points are resolved on first use, so that nobody pays for pandas who only asks for a cause.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from course_lib.late_names import late_names

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
    from course_lib.read.rank_files.attempts import Attempts, attempts
    from course_lib.read.rank_files.diary import Diary, diary
    from course_lib.read.rank_files.findings import DiaryFinding
    from course_lib.read.rank_files.flight import Flight, flight
    from course_lib.read.rank_files.stacks import Stacks, stacks
    from course_lib.read.slurm_output.hostlist import expand_hosts
    from course_lib.read.slurm_output.reader import slurm
    from course_lib.read.slurm_output.result import SlurmTable, SlurmText
    from course_lib.read.training_logs.reader import TrainingReader, training_log
    from course_lib.read.training_logs.result import TrainingLog, World

_LATE = {
    "first_causes.result": "Failure",
    "first_causes.reader": "failure failures",
    "nccl_logs.result": "NcclLog",
    "nccl_logs.reader": "NcclReader nccl",
    "memory_traces.timeline": "Memory MemoryTimeline",
    "memory_traces.reader": "memory",
    "profiler_traces.result": "Profile",
    "profiler_traces.recommendations": "Recommendation",
    "profiler_traces.reader": "profile",
    "measurements.link_times": "Links links",
    "measurements.node_load": "Monitor monitor",
    "rank_files.attempts": "Attempts attempts",
    "rank_files.diary": "Diary diary",
    "rank_files.findings": "DiaryFinding",
    "rank_files.flight": "Flight flight",
    "rank_files.stacks": "Stacks stacks",
    "slurm_output.result": "SlurmTable SlurmText",
    "slurm_output.reader": "slurm",
    "slurm_output.hostlist": "expand_hosts",
    "training_logs.reader": "TrainingReader training_log",
    "training_logs.result": "TrainingLog World",
}

__all__ = [
    "Attempts",
    "Diary",
    "DiaryFinding",
    "Failure",
    "Flight",
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
    "Stacks",
    "TrainingLog",
    "TrainingReader",
    "World",
    "attempts",
    "diary",
    "expand_hosts",
    "failure",
    "failures",
    "flight",
    "links",
    "memory",
    "monitor",
    "nccl",
    "profile",
    "slurm",
    "stacks",
    "training_log",
]


__getattr__, __dir__ = late_names(sys.modules[__name__], _LATE, whatever=True)
