"""Memory from PyTorch's profiler: traces with `[memory]` events, and raw timelines."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from course_lib.read import lines
from course_lib.read.memory_traces.timeline import (
    MemoryTimeline,
    PhaseRow,
    phase_table,
    steps_from_changes,
)
from course_lib.read.messages import _
from course_lib.read.profiler_traces.step_times import step_number
from course_lib.read.profiler_traces.trace_file import Arguments, Trace

RAW_CATEGORIES = (
    "parameters",
    "optimizer",
    "inputs",
    "temporary",
    "activations",
    "gradients",
    "autograd",
    "unknown",
)
LARGEST_RAW_BYTES = 128 << 20


def from_trace(trace: Trace) -> list[MemoryTimeline]:
    """Return one timeline for each device in the trace."""
    by_device: dict[tuple[int, int], list[tuple[float, Arguments]]] = defaultdict(list)
    for time, item in trace.memory:
        by_device[item.device_type, item.device].append((time, item))
    return [_device_timeline(trace, key, rows) for key, rows in sorted(by_device.items())]


def _device_timeline(
    trace: Trace, key: tuple[int, int], rows: list[tuple[float, Arguments]]
) -> MemoryTimeline:
    import pandas as pd

    rows.sort(key=lambda row: row[0])
    start = float(trace.start_us.min()) if len(trace.start_us) else rows[0][0]
    start = min(start, rows[0][0])
    time = np.array([row[0] - start for row in rows])
    level = np.array([_level(item) for _, item in rows], np.int64)
    if (level < 0).any():
        level = np.cumsum([item.size_bytes for _, item in rows]).astype(np.int64)
        level -= min(int(level.min()), 0)
    reserved = [(when, item.reserved) for when, (_, item) in zip(time, rows, strict=True)]
    reserved = [row for row in reserved if row[1] >= 0]
    before = level[0] - rows[0][1].size_bytes
    time, level = np.concatenate(([0.0], time)), np.concatenate(([max(before, 0)], level))
    phases = phases_of(trace, start)
    return MemoryTimeline(
        rank=trace.rank,
        device=f"{'cpu' if key[0] == 0 else 'cuda'}:{max(key[1], 0)}",
        source=str(trace.path),
        categories=("allocated",),
        time_us=time,
        bytes_by_category=level.reshape(-1, 1),
        phases=phase_table(phases, time, level),
        reserved=pd.DataFrame(reserved, columns=["time_us", "reserved_bytes"]),
        limit_bytes=_limit(trace, key),
    )


def _level(item: Arguments) -> int:
    return item.allocated if item.allocated < 2**62 else -1


def _limit(trace: Trace, key: tuple[int, int]) -> int | None:
    if key[0] == 0 or not 0 <= key[1] < len(trace.devices):
        return None
    found = trace.devices[key[1]].get("totalGlobalMem")
    return found if type(found) is int else None


def phases_of(trace: Trace, start: float) -> list[PhaseRow]:
    """Return steps and optimizer steps from annotations, and backward from autograd's operators."""
    found: list[PhaseRow] = []
    steps: list[tuple[int, float, float]] = []
    host = trace.of_category("user_annotation", "cpu_op", "operator", "python")
    named = host & trace.of_name(lambda name: step_number(name) is not None)
    for row in np.flatnonzero(named).tolist():
        number = step_number(trace.names[trace.name[row]])
        begin = float(trace.start_us[row]) - start
        end = begin + float(trace.duration_us[row])
        steps.append((number or 0, begin, end))
        found.append(("step", number, None, None, begin, end))
    optimizer = host & trace.of_name(lambda name: name.startswith("Optimizer.step"))
    backward = host & trace.of_name(lambda name: name.startswith("autograd::engine::evaluate_"))
    for name, chosen in (("optimizer", optimizer), ("backward", backward)):
        begins, ends = trace.start_us[chosen] - start, trace.end_us[chosen] - start
        for number, first, last in steps:
            inside = (begins >= first) & (begins <= last)
            if inside.any():
                begin, end = float(begins[inside].min()), float(ends[inside].max())
                found.append((name, number, None, None, begin, end))
    return found


def read_raw(path: Path) -> MemoryTimeline | None:
    """Read the raw text of `export_memory_timeline`; return None for any other content."""
    data = _loaded(path)
    if not isinstance(data, list):
        return None
    rows = [row for row in data if _is_row(row)]
    if not rows:
        return None
    times = [row[0] for row in rows if row[0] >= 0]
    start = min(times, default=0)
    when = [max(row[0] - start, 0) / 1000 for row in rows]
    category = [row[3] if 0 <= row[3] < len(RAW_CATEGORIES) else 7 for row in rows]
    time, levels = steps_from_changes(when, category, [row[2] for row in rows], len(RAW_CATEGORIES))
    return MemoryTimeline(
        device="",
        source=str(path),
        categories=RAW_CATEGORIES,
        time_us=time,
        bytes_by_category=levels,
        start_unix_ns=start or None,
    )


def _loaded(path: Path) -> Any:
    try:
        with lines.open_any(path) as file:
            content = file.read(LARGEST_RAW_BYTES + 1)
    except OSError:
        return None
    if len(content) > LARGEST_RAW_BYTES:
        text = _("it has more than {limit} MiB, the limit for a raw timeline; record fewer steps",
                 limit=LARGEST_RAW_BYTES >> 20)  # fmt: skip
        raise lines.UnreadableError(text)
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _is_row(row: Any) -> bool:
    whole = isinstance(row, list) and len(row) == 4 and all(type(part) is int for part in row)
    return whole and all(abs(part) < 2**62 for part in row)
