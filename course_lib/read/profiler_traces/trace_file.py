"""PyTorch profiler trace as columns of numbers, read piece by piece.

Valid pieces are decoded directly into typed columns. A piece of invalid JSON (old versions write a
bare `N/A`, crashed runs stop in the middle) is decoded event by event."""

from __future__ import annotations

import contextlib
import json
import math
import re
from array import array
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from course_lib.read import lines

_PIECE_BYTES = 4 << 20
_LARGEST_HEAD = 16 << 20
_LARGEST_PIECE = 64 << 20
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_END = re.compile(rb"\}\s*\]")
# Position before an event.
_PARTS = re.compile(rb'(?=\{\s*"(?:ph|name|cat|ts)"\s*:)')
_BARE = re.compile(rb"(?<=[:\s])(N/A|-?nan|-?inf)(?=\s*[,}\]])")
_NOT_DECODED = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
MISSING = -1


class Arguments(msgspec.Struct, gc=False):
    """Arguments of an event that a table uses."""

    external: int = msgspec.field(default=MISSING, name="External id")
    old_external: int = msgspec.field(default=MISSING, name="external id")
    correlation: int = MISSING
    device_type: int = msgspec.field(default=MISSING, name="Device Type")
    device: int = msgspec.field(default=MISSING, name="Device Id")
    size_bytes: int = msgspec.field(default=0, name="Bytes")
    allocated: int = msgspec.field(default=MISSING, name="Total Allocated")
    reserved: int = msgspec.field(default=MISSING, name="Total Reserved")
    collective: str | None = msgspec.field(default=None, name="Collective name")
    elements: int | None = msgspec.field(default=None, name="In msg nelems")
    dtype: str | None = None


class Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float = math.nan
    dur: float = math.nan
    args: Arguments | None = None


_EVENT_LIST = msgspec.json.Decoder(list[Event], strict=False)
_EVENT = msgspec.json.Decoder(Event, strict=False)
NOTHING = Arguments()


@dataclass
class Surroundings:
    """Bytes before and after the list of events."""

    head: bytes = b""
    tail: bytes = b""

    def read(self) -> dict[str, Any]:
        found = _loaded(self.head.rstrip().rstrip(b",") + b"}") if self.head else {}
        for end in _END.finditer(self.tail):
            found |= _loaded(b"{" + self.tail[end.end() :].lstrip().lstrip(b","))
        return found


def pieces(path: Path, around: Surroundings) -> Iterator[bytes]:
    """Yield the text of whole events, without brackets."""
    buffer, inside = b"", False
    for chunk in _chunks(path):
        buffer += chunk
        if not inside:
            inside, buffer = _begin(buffer, around)
            if not inside and len(buffer) > _LARGEST_HEAD:
                return
        if inside and (cut := _last_boundary(buffer)):
            yield buffer[:cut]
            buffer = buffer[cut:]
        elif len(buffer) > _LARGEST_PIECE:
            buffer = b""
    if inside:
        around.tail = buffer[-100_000:]
        yield buffer


def _chunks(path: Path) -> Iterator[bytes]:
    with lines.open_any(path) as file, contextlib.suppress(OSError):
        while data := file.read(_PIECE_BYTES):
            yield data


def _begin(buffer: bytes, around: Surroundings) -> tuple[bool, bytes]:
    if buffer.lstrip().startswith(b"["):
        return True, buffer.lstrip()[1:]
    if match := _EVENTS.search(buffer):
        around.head = buffer[: match.start()]
        return True, buffer[match.end() :]
    return False, buffer


def _last_boundary(buffer: bytes) -> int:
    """Return the end of the second to last event, or 0."""
    at = len(buffer)
    for _ in range(1000):
        at = buffer.rfind(b"}", 0, at)
        if at < 0:
            return 0
        if match := _BOUNDARY.match(buffer, at):
            return match.end()
    return 0


def events_of(text: bytes) -> list[Event]:
    """Return the events of a piece; of a broken piece, the events that can be decoded alone. After
    the last piece there may be other text."""
    body = text.rstrip().rstrip(b",")
    offset = max(0, len(body) - 100_000)
    for end in (len(body), *(found.start() + 1 for found in _END.finditer(body, offset))):
        try:
            return _EVENT_LIST.decode(b"[" + body[:end] + b"]")
        except _NOT_DECODED:
            continue
    return [event for part in _PARTS.split(_BARE.sub(rb'"\1"', body)) for event in _event(part)]


def _event(text: bytes) -> list[Event]:
    for end in (len(text), *(match.start() + 1 for match in _END.finditer(text))):
        try:
            return [_EVENT.decode(text[:end].rstrip().rstrip(b","))]
        except _NOT_DECODED:
            continue
    return []


def _loaded(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(_BARE.sub(rb'"\1"', text).decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
MOST_EVENTS = 50_000_000
LARGEST_ID = 2**62


@dataclass(frozen=True)
class Trace:
    """Events with a duration, in order of time. `category` and `name` are indices into lists of
    texts; `thread` is a number of a process and thread."""

    path: Path
    categories: list[str]
    names: list[str]
    category: Ints
    name: Ints
    thread: Ints
    external: Ints
    correlation: Ints
    start_us: Floats
    duration_us: Floats
    memory: list[tuple[float, Arguments]]
    collectives: dict[int, Arguments]
    properties: dict[str, Any]

    @property
    def end_us(self) -> Floats:
        return np.asarray(self.start_us + self.duration_us, np.float64)

    @property
    def rank(self) -> int | None:
        known = self.properties.get("distributedInfo")
        found = known.get("rank") if isinstance(known, dict) else None
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
    """Numbers for texts, in order of appearance."""

    def __missing__(self, text: Hashable) -> int:
        self[text] = number = len(self)
        return number


class _Columns:
    """Columns of numbers of events in order of arrival, and the texts for them."""

    def __init__(self) -> None:
        self.start, self.duration = array("d"), array("d")
        self.category, self.name, self.thread = array("i"), array("i"), array("i")
        self.external, self.correlation = array("q"), array("q")
        self.categories, self.names, self.threads = _Codes(), _Codes(), _Codes()

    def add(self, events: list[Event]) -> None:
        arguments = [event.args or NOTHING for event in events]
        self.category.extend([self.categories[event.cat] for event in events])
        self.name.extend([self.names[event.name] for event in events])
        self.thread.extend([self.threads[event.pid, event.tid] for event in events])
        self.start.extend([event.ts for event in events])
        self.duration.extend([event.dur for event in events])
        self.external.extend([_external(item) for item in arguments])
        self.correlation.extend([_small(item.correlation) for item in arguments])


def _external(item: Arguments) -> int:
    return _small(item.external if item.external != MISSING else item.old_external)


def _small(number: int) -> int:
    return number if -LARGEST_ID < number < LARGEST_ID else MISSING


def read_trace(path: Path) -> Trace:
    columns, around = _Columns(), Surroundings()
    memory: list[tuple[float, Arguments]] = []
    collectives: dict[int, Arguments] = {}
    for piece in pieces(path, around):
        found = events_of(piece)
        lasting = [event for event in found if event.ph == "X"]
        for number, event in enumerate(lasting, len(columns.start)):
            if event.args is not None and event.args.collective is not None:
                collectives[number] = event.args
        columns.add(lasting)
        memory += [
            (event.ts, event.args)
            for event in found
            if event.name == "[memory]" and event.args is not None and event.ts == event.ts
        ]
        if len(columns.start) > MOST_EVENTS:
            break
    # In order of time; events without a time are left out.
    start, duration = np.array(columns.start), np.array(columns.duration)
    order = np.argsort(start, kind="stable")
    order = order[np.isfinite(start + duration)[order]]
    place = {int(row): number for number, row in enumerate(order)} if collectives else {}
    numbers = {
        name: np.array(getattr(columns, name), np.int64)[order]
        for name in ("category", "name", "thread", "external", "correlation")
    }
    return Trace(
        path,
        categories=[str(text) for text in columns.categories],
        names=[str(text) for text in columns.names],
        **numbers,
        start_us=start[order],
        duration_us=duration[order],
        memory=memory,
        collectives={place[row]: item for row, item in collectives.items() if row in place},
        properties=around.read(),
    )
