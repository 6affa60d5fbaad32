"""What happened when, of one rank: for drawings of schedules, and how busy its device was."""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.read.profiler_traces import step_times
from course_lib.read.profiler_traces.time_ranges import Ranges, Timeline
from course_lib.read.profiler_traces.worker import Worker


def utilisation(part: Worker) -> float | None:
    """As torch-tb-profiler has it: from the first step's beginning to the last one's end."""
    kernels, steps = part.kinds.kernel, part.steps.ranges
    if not kernels.any() or not len(steps.start):
        return None
    span = Ranges(steps.start[:1], steps.end[-1:])
    timeline = Timeline([span, step_times.ranges_of(part.trace, kernels)])
    length = float(span.end[0] - span.start[0])
    return float(timeline.sums(timeline.covered[1], span)[0]) / length if length > 0 else None


def spans_of(part: Worker, start: float) -> list[tuple[Any, ...]]:
    trace, rows = part.trace, []
    annotated = trace.of_category("user_annotation") | part.kinds.step
    kernels = part.kinds.kernel & trace.of_name(step_times.is_communication)
    steps = part.steps.ranges
    for row in np.flatnonzero(annotated | kernels | part.kinds.collective).tolist():
        begin, name = float(trace.start_us[row]), trace.names[trace.name[row]]
        if part.kinds.step[row]:
            category = "step"
        elif kernels[row] or part.kinds.collective[row]:
            category = "communication"
        else:
            category = "range"
        place = int(np.searchsorted(steps.start, begin, "right")) - 1
        inside = place >= 0 and begin < steps.end[place]
        step = int(part.steps.names[place]) if inside else None
        end = begin + float(trace.duration_us[row])
        rows.append((part.rank, step, name, begin - start, end - start, category))
    return rows
