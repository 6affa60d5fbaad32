"""CUDA memory snapshots (`torch.cuda.memory._dump_snapshot`), read without running their
content.

While a pickle is loaded, it may call any function by name. Snapshots contain only dictionaries,
lists, texts and numbers, so an unpickler without any names can read them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from course_lib.read import lines
from course_lib.read.memory_traces.timeline import Floats, Ints, MemoryTimeline, steps_from_changes
from course_lib.read.messages import _

# Memory limit for a snapshot: this much, plus this multiple of its size on disk.
LEAST_BYTES, MOST_GROWTH = 1 << 30, 64
CATEGORIES = ("before the record", "recorded")
# Action -> the sign of its change of allocated or of reserved bytes.
_ALLOCATED = {"alloc": 1, "free_completed": -1}
_RESERVED = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


class PlainUnpickler(pickle.Unpickler):
    """Unpickler of plain types only; it refuses every name."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(
            _(
                "the file asks to load {module}.{name}; a snapshot holds plain data",
                module=module,
                name=name,
            )
        )

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(
            _("the file refers to objects outside the file; a snapshot holds plain data")
        )


def load_plain(path: Path) -> Any:
    with _bounded(LEAST_BYTES + MOST_GROWTH * path.stat().st_size), lines.open_any(path) as file:
        return PlainUnpickler(file).load()


@contextmanager
def _bounded(more_bytes: int) -> Iterator[None]:
    """Limit this process's additional memory, if the system allows it (Linux).

    A pickle of ten bytes can request the last of four billion elements of a list."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[5])
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    except (ImportError, OSError):
        yield
        return
    limit = pages * resource.getpagesize() + more_bytes
    known = [item for item in (soft, hard) if item != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([limit, *known]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def read_snapshot(path: Path) -> list[MemoryTimeline]:
    """Return one timeline for each device with a record."""
    data = load_plain(path)
    if not isinstance(data, dict):
        return []
    segments = [item for item in _list(data.get("segments")) if isinstance(item, dict)]
    traces = _list(data.get("device_traces"))
    devices = {_integer(item.get("device")) for item in segments}
    devices |= {number for number, trace in enumerate(traces) if _list(trace)}
    return [
        _timeline(path, device, segments, _list(traces[device]) if device < len(traces) else [])
        for device in sorted(devices)
    ]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _integer(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**62 else 0


def _timeline(path: Path, device: int, segments: list[Any], trace: list[Any]) -> MemoryTimeline:
    import pandas as pd

    mine = [item for item in segments if _integer(item.get("device")) == device]
    events = [item for item in trace if isinstance(item, dict)]
    time, levels = _levels(events, mine, "allocated_size", _ALLOCATED)
    when, reserved = _levels(events, mine, "total_size", _RESERVED)
    return MemoryTimeline(
        device=f"cuda:{device}",
        source=str(path),
        categories=CATEGORIES,
        time_us=time,
        bytes_by_category=levels,
        reserved=pd.DataFrame({"time_us": when, "reserved_bytes": reserved.sum(axis=1)}),
        note="" if events else _("the snapshot has no history, because recording was off"),
    )


def _levels(
    events: list[dict[str, Any]], segments: list[Any], size: str, signs: dict[str, int]
) -> tuple[Floats, Ints]:
    """Return the bytes over time by category. The segments have the bytes at the end."""
    times = _times(events)
    changes = [
        (time, signs[action] * _integer(event.get("size")))
        for event, time in zip(events, times, strict=True)
        if (action := str(event.get("action"))) in signs
    ]
    held = sum(_integer(item.get(size)) for item in segments)
    before = max(held - sum(change for _, change in changes), 0)
    when = [*(times[:1] or [0.0]), *(time for time, _ in changes)]
    sizes = [before, *(change for _, change in changes)]
    return steps_from_changes(when, [0] + [1] * len(changes), sizes, len(CATEGORIES))


def _times(events: list[dict[str, Any]]) -> list[float]:
    """Return microseconds since the first event; without times, events are numbered."""
    stamps = [_integer(event.get("time_us")) for event in events]
    if not stamps or not any(stamps):
        return [float(number) for number in range(len(events))]
    start = min(stamp for stamp in stamps if stamp)
    since = [float(max(stamp - start, 0)) for stamp in stamps]
    return [float(time) for time in np.maximum.accumulate(since)]
