"""One rank's trace."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.read.profiler_traces.step_times import Kinds, Steps
from course_lib.read.profiler_traces.trace_file import Trace


@dataclass(frozen=True)
class Worker:
    """One trace, and what its events are."""

    name: str
    rank: int
    trace: Trace
    kinds: Kinds
    steps: Steps
