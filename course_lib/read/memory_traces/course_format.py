"""Reader of the memory traces that the course's programs write (see docs/formats.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from course_lib.read import lines
from course_lib.read.memory_traces.timeline import (
    MemoryTimeline,
    PhaseRow,
    phase_table,
    steps_from_changes,
)
from course_lib.read.messages import _

FORMAT = "course-memory-1"
MOST_CATEGORIES = 64
# Limit per file, about 4 GB of memory; the timeline's note says what is left out.
MOST_EVENTS = 20_000_000
LARGEST, LATEST_NS = 2**60, 2**63


class _Events:
    """Changes and phases of one file."""

    def __init__(self, categories: int) -> None:
        self.categories = categories
        self.time: list[float] = []
        self.category: list[int] = []
        self.change: list[int] = []
        self.alive: dict[int, tuple[int, int]] = {}
        self.open: dict[tuple[str, int | None, int | None, int | None], float] = {}
        self.phases: list[PhaseRow] = []
        self.last = 0.0
        self.said = ""

    def add(self, row: list[Any]) -> None:
        """Add a row; rows of the wrong form are skipped."""
        kind, time, *rest = row
        if not _is_number(time):
            return
        self.last = max(self.last, float(time))
        if kind == "alloc" and len(rest) == 3 and all(map(_is_size, rest)):
            self._allocate(float(time), *rest)
        elif kind == "free" and len(rest) == 1 and _is_size(rest[0]):
            self._free(float(time), rest[0])
        elif kind in ("begin", "end") and len(rest) in (3, 4):
            self._phase(kind, float(time), *rest)

    def _allocate(self, time: float, block: int, size_bytes: int, category: int) -> None:
        if category < self.categories:
            self._free(time, block)
            self.alive[block] = size_bytes, category
            self._change(time, category, size_bytes)

    def _free(self, time: float, block: int) -> None:
        if (known := self.alive.pop(block, None)) is not None:
            size_bytes, category = known
            self._change(time, category, -size_bytes)

    def _change(self, time: float, category: int, size_bytes: int) -> None:
        self.time.append(time)
        self.category.append(category)
        self.change.append(size_bytes)

    def _phase(
        self,
        kind: str,
        time: float,
        name: object,
        step: object,
        micro_batch: object,
        chunk: object = None,
    ) -> None:
        key = (str(name)[:40], _maybe(step), _maybe(micro_batch), _maybe(chunk))
        if kind == "begin" and len(self.open) < 100_000:
            self.open[key] = time
        elif kind == "end" and (begun := self.open.pop(key, None)) is not None:
            self.phases.append((*key, begun, time))

    def close(self) -> None:
        """End phases that are open at the end of the file at its last event."""
        for key, begun in self.open.items():
            self.phases.append((*key, begun, self.last))


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) < LARGEST  # type: ignore[arg-type]


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < LARGEST


def _maybe(value: object) -> int | None:
    return value if type(value) is int and abs(value) < LARGEST else None


def _moment(value: object) -> int | None:
    """Return nanoseconds since 1970, which exceed any size of memory."""
    return value if type(value) is int and 0 <= value < LATEST_NS else None


def read_course_trace(path: Path) -> MemoryTimeline | None:
    """Return the timeline; None if the first line is not the header of this format."""
    rows = lines.json_rows(path)
    header = next(rows, None)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        return None
    given = header.get("categories")
    names = (
        tuple(str(name)[:60] for name in given[:MOST_CATEGORIES]) if isinstance(given, list) else ()
    )
    names = tuple(dict.fromkeys(names)) or ("allocated",)
    events = _Events(len(names))
    for number, row in enumerate(rows):
        if number == MOST_EVENTS:
            events.said = _("only the first {number:,} events are read", number=MOST_EVENTS)
            break
        if isinstance(row, list) and len(row) >= 3:
            events.add(row)
    events.close()
    return _timeline(path, header, names, events)


def _timeline(
    path: Path, header: dict[str, Any], names: tuple[str, ...], events: _Events
) -> MemoryTimeline:
    time, levels = steps_from_changes(events.time, events.category, events.change, len(names))
    layout = header.get("layout")
    sizes = layout.items() if isinstance(layout, dict) else ()
    return MemoryTimeline(
        rank=_maybe(header.get("rank")),
        node=str(header["node"]) if header.get("node") is not None else None,
        device=str(header.get("device", "")),
        source=str(path),
        categories=names,
        time_us=time,
        bytes_by_category=levels,
        phases=phase_table(events.phases, time, levels.sum(axis=1)),
        limit_bytes=_maybe(header.get("limit_bytes")),
        layout={str(name): size for name, size in sizes if type(size) is int},
        note="; ".join(filter(None, (str(header.get("note") or ""), events.said))),
        start_unix_ns=_moment(header.get("start_unix_ns")),
    )
