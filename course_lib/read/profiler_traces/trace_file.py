"""A PyTorch profiler trace as columns of numbers, read piece by piece."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from course_lib.read.profiler_traces.trace_text import (
    MISSING,
    NOTHING,
    Arguments,
    Event,
    Surroundings,
    events_of,
    pieces,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
MOST_EVENTS = 50_000_000
LARGEST_ID = 2**62


@dataclass
class Trace:
    """Events with a duration, in the order of time. `category`, `name`, `process` and `thread` are
    numbers into the lists of texts (the last two into `places`)."""

    path: Path
    categories: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    category: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    name: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    process: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    thread: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    external: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    correlation: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    start_us: Floats = field(default_factory=lambda: np.zeros(0))
    duration_us: Floats = field(default_factory=lambda: np.zeros(0))
    memory: list[tuple[float, Arguments]] = field(default_factory=list)
    collectives: dict[int, Arguments] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def end_us(self) -> Floats:
        return np.asarray(self.start_us + self.duration_us, np.float64)

    @property
    def distributed(self) -> dict[str, Any]:
        found = self.properties.get("distributedInfo")
        return found if isinstance(found, dict) else {}

    @property
    def rank(self) -> int | None:
        found = self.distributed.get("rank")
        return found if type(found) is int else None

    @property
    def devices(self) -> list[dict[str, Any]]:
        found = self.properties.get("deviceProperties")
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []

    def of_category(self, *names: str) -> Bools:
        wanted = [code for code, text in enumerate(self.categories) if text.lower() in names]
        return np.isin(self.category, wanted)

    def of_name(self, matches: Callable[[str], bool]) -> Bools:
        known = np.array([matches(text) for text in self.names], np.bool_)
        return known[self.name] if len(known) else np.zeros(0, np.bool_)


class _Codes(dict[Hashable, int]):
    """Numbers texts in the order in which they come up."""

    def __missing__(self, text: Hashable) -> int:
        self[text] = number = len(self)
        return number


class _Columns:
    """Numbers of events as they come, and the texts that they refer to."""

    def __init__(self) -> None:
        self.start, self.duration = array("d"), array("d")
        self.category, self.name = array("i"), array("i")
        self.process, self.thread = array("i"), array("i")
        self.external, self.correlation = array("q"), array("q")
        self.categories, self.names, self.places = _Codes(), _Codes(), _Codes()

    def add(self, events: list[Event]) -> None:
        arguments = [event.args or NOTHING for event in events]
        self.category.extend([self.categories[event.cat] for event in events])
        self.name.extend([self.names[event.name] for event in events])
        self.process.extend([self.places[event.pid] for event in events])
        self.thread.extend([self.places[event.tid] for event in events])
        self.start.extend([event.ts for event in events])
        self.duration.extend([event.dur for event in events])
        self.external.extend([_external(item) for item in arguments])
        self.correlation.extend([_small(item.correlation) for item in arguments])


def _external(item: Arguments) -> int:
    return _small(item.external if item.external != MISSING else item.old_external)


def _small(number: int) -> int:
    return number if -LARGEST_ID < number < LARGEST_ID else MISSING


def read_trace(path: Path) -> Trace:
    trace, columns, around = Trace(path), _Columns(), Surroundings()
    for piece in pieces(path, around):
        found = events_of(piece)
        lasting = [event for event in found if event.ph == "X"]
        for number, event in enumerate(lasting, len(columns.start)):
            if event.args is not None and event.args.collective is not None:
                trace.collectives[number] = event.args
        columns.add(lasting)
        trace.memory += [
            (event.ts, event.args)
            for event in found
            if event.name == "[memory]" and event.args is not None and event.ts == event.ts
        ]
        if len(columns.start) > MOST_EVENTS:
            break
    trace.properties = around.read()
    return _sorted(trace, columns)


def _sorted(trace: Trace, columns: _Columns) -> Trace:
    """In the order of time; events without a time are left out."""
    start, duration = np.array(columns.start), np.array(columns.duration)
    order = np.argsort(start, kind="stable")
    order = order[np.isfinite(start + duration)[order]]
    trace.start_us, trace.duration_us = start[order], duration[order]
    for name in ("category", "name", "process", "thread", "external", "correlation"):
        setattr(trace, name, np.array(getattr(columns, name), np.int64)[order])
    trace.categories = [str(text) for text in columns.categories]
    trace.names = [str(text) for text in columns.names]
    trace.places = [str(text) for text in columns.places]
    if trace.collectives:
        place = {int(row): number for number, row in enumerate(order)}
        found = trace.collectives.items()
        trace.collectives = {place[row]: item for row, item in found if row in place}
    return trace
