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
from course_lib.read.memory_traces.timeline import (
    Block,
    MemoryTimeline,
    alive_at,
    steps_from_changes,
)
from course_lib.read.messages import _

# Memory limit for a snapshot: this much, plus this multiple of its size on disk.
LEAST_BYTES, MOST_GROWTH = 1 << 30, 64
CATEGORIES = ("before the record", "recorded")
_OURS = ("torch/", "/torch/", "python3", "<frozen", "importlib")


class RefusedError(pickle.UnpicklingError):
    """Error: the file asks for the execution of a function."""


class PlainUnpickler(pickle.Unpickler):
    """Unpickler of plain types only; it refuses every name."""

    def find_class(self, module: str, name: str) -> Any:
        raise RefusedError(
            _(
                "the file asks to load {module}.{name}; a snapshot holds plain data",
                module=module,
                name=name,
            )
        )

    def persistent_load(self, pid: Any) -> Any:
        raise RefusedError(
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

    mine = [item for item in segments if _integer(item.get("device")) == device]
    held = sum(_integer(item.get("allocated_size")) for item in mine)
    events = [item for item in trace if isinstance(item, dict)]
    times = _times(events)
    changes, reserved, blocks = _changes(events, times)
    recorded = sum(change for _, change in changes)
    first = times[0] if times else 0.0
    base = max(held - recorded, 0)
    when = [first, *(time for time, _ in changes)]
    time, levels = steps_from_changes(
        when, [0] + [1] * len(changes), [base] + [change for _, change in changes], 2
    )
    total = levels.sum(axis=1)
    peak = float(time[int(total.argmax())])
    return MemoryTimeline(
        device=f"cuda:{device}",
        source=str(path),
        categories=CATEGORIES,
        time_us=time,
        bytes_by_category=levels,
        reserved=_reserved(reserved, mine, first),
        blocks=alive_at(peak, blocks),
        note="" if events else _("the snapshot has no history, because recording was off"),
    )


def _times(events: list[dict[str, Any]]) -> list[float]:
    """Return microseconds since the first event; without times, events are numbered."""
    stamps = [_integer(event.get("time_us")) for event in events]
    if not stamps or not any(stamps):
        return [float(number) for number in range(len(events))]
    start = min(stamp for stamp in stamps if stamp)
    since = [float(max(stamp - start, 0)) for stamp in stamps]
    return [float(time) for time in np.maximum.accumulate(since)]


Changes = list[tuple[float, int]]


def _changes(
    events: list[dict[str, Any]], times: list[float]
) -> tuple[Changes, Changes, list[Block]]:
    """Return changes of allocated and of reserved bytes, and the lifetime of each block."""
    changes: Changes = []
    reserved: Changes = []
    alive: dict[int, tuple[int, float, str | None]] = {}
    blocks: list[Block] = []
    for event, time in zip(events, times, strict=True):
        action, size = event.get("action"), _integer(event.get("size"))
        address = _integer(event.get("addr"))
        if action == "alloc":
            changes.append((time, size))
            alive[address] = size, time, where(event.get("frames"))
        elif action == "free_completed":
            changes.append((time, -size))
            if (known := alive.pop(address, None)) is not None:
                blocks.append((address, known[0], CATEGORIES[1], known[1], time, known[2]))
        elif action == "segment_alloc":
            reserved.append((time, size))
        elif action in ("segment_free", "segment_unmap"):
            reserved.append((time, -size))
        elif action == "segment_map":
            reserved.append((time, size))
    blocks += [
        (address, size, CATEGORIES[1], begun, np.inf, frame)
        for address, (size, begun, frame) in alive.items()
    ]
    return changes, reserved, blocks


def where(frames: Any) -> str | None:
    """Return the innermost frame of the user's own code, else the innermost Python frame."""
    python = None
    for frame in _list(frames)[:400]:
        if not isinstance(frame, dict):
            continue
        name, line = str(frame.get("filename", "")), _integer(frame.get("line"))
        if not name.endswith(".py"):
            continue
        text = f"{name}:{line} {frame.get('name', '')}"[:300]
        python = python or text
        if not any(part in name for part in _OURS):
            return text
    return python


def _reserved(changes: Changes, segments: list[Any], first: float) -> Any:
    import pandas as pd

    held = sum(_integer(item.get("total_size")) for item in segments)
    base = max(held - sum(size for _, size in changes), 0)
    when = [first, *(time for time, _ in changes)]
    sizes = [base, *(size for _, size in changes)]
    time, level = steps_from_changes(when, [0] * len(when), sizes, 1)
    return pd.DataFrame({"time_us": time, "reserved_bytes": level[:, 0]})
