"""Takes pieces of a trace's text apart into events.

Whole pieces are decoded straight into typed columns, which skips what is of no interest and is
several times faster than the standard decoder. A piece that is no valid JSON (old versions write a
bare `N/A`, crashed runs stop in the middle) is decoded event by event, past what is broken.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from course_lib.read import lines

_PIECE_BYTES = 4 << 20
_LARGEST_HEAD = 16 << 20
_LARGEST_PIECE = 64 << 20
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_END = re.compile(rb"\}\s*\]")
_EVENT_START = re.compile(r'\{\s*"(?:ph|name|cat|ts|args)"\s*:')
_BARE = re.compile(r"(?<=[:\s])(N/A|-?nan|-?inf)(?=\s*[,}\]])")
_NEXT = re.compile(r"[,\s]*")
_DECODER: Any = json.JSONDecoder(strict=False)
MISSING = -1


class Arguments(msgspec.Struct, gc=False):
    """What is of interest among the arguments of an event."""

    external: int = msgspec.field(default=MISSING, name="External id")
    old_external: int = msgspec.field(default=MISSING, name="external id")
    correlation: int = MISSING
    device_type: int = msgspec.field(default=MISSING, name="Device Type")
    device: int = msgspec.field(default=MISSING, name="Device Id")
    address: int = msgspec.field(default=MISSING, name="Addr")
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


_EVENT_LIST = msgspec.json.Decoder(list[Event])
NOTHING = Arguments()


@dataclass
class Surroundings:
    """The bytes before and after the list of events."""

    head: bytes = b""
    tail: bytes = b""
    properties: dict[str, Any] = field(default_factory=dict)

    def read(self) -> dict[str, Any]:
        found = _loaded(self.head.rstrip().rstrip(b",") + b"}") if self.head else {}
        for end in _END.finditer(self.tail):
            found |= _loaded(b"{" + self.tail[end.end() :].lstrip().lstrip(b","))
        return found


def pieces(path: Path, around: Surroundings) -> Iterator[bytes]:
    """Text of whole events, without brackets."""
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
    with lines.open_any(path) as file:
        while True:
            try:
                data = file.read(_PIECE_BYTES)
            except (EOFError, OSError, zlib.error):
                return
            if not data:
                return
            yield data


def _begin(buffer: bytes, around: Surroundings) -> tuple[bool, bytes]:
    if buffer.lstrip().startswith(b"["):
        return True, buffer.lstrip()[1:]
    if match := _EVENTS.search(buffer):
        around.head = buffer[: match.start()]
        return True, buffer[match.end() :]
    return False, buffer


def _last_boundary(buffer: bytes) -> int:
    """Where the last but one event ends, or 0."""
    at = len(buffer)
    for _ in range(1000):
        at = buffer.rfind(b"}", 0, at)
        if at < 0:
            return 0
        if match := _BOUNDARY.match(buffer, at):
            return match.end()
    return 0


def events_of(text: bytes) -> list[Event]:
    body = text.rstrip().rstrip(b",")
    ends = [len(body), *(match.start() + 1 for match in _END.finditer(body[-100_000:]))]
    offset = max(0, len(body) - 100_000)
    for number, end in enumerate(ends):
        stop = end if number == 0 else end + offset
        try:
            return _EVENT_LIST.decode(b"[" + body[:stop] + b"]")
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            continue
    return list(_one_by_one(text.decode("utf-8", "replace")))


def _one_by_one(text: str) -> Iterator[Event]:
    """Slower, but past what is no JSON and whatever the types are."""
    at = 0
    while True:
        at = _NEXT.match(text, at).end()  # type: ignore[union-attr]
        if at >= len(text) or text[at] == "]":
            return
        try:
            found, at = _DECODER.scan_once(text, at)
        except (StopIteration, ValueError, RecursionError):
            following = _EVENT_START.search(text, at + 1)
            stop = following.start() if following else len(text)
            found = _loaded(text[at:stop].rstrip().rstrip(",").encode("utf-8", "replace"))
            at = stop
        if isinstance(found, dict) and found:
            yield _lenient(found)


def _loaded(text: bytes) -> dict[str, Any]:
    try:
        mended = _BARE.sub(r'"\1"', text.decode("utf-8", "replace"))
        found = json.loads(mended, strict=False)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _lenient(found: dict[str, Any]) -> Event:
    """What has the wrong type is left out; some exporters write numbers as text."""
    arguments = found.get("args")
    event = Event(ph=str(found.get("ph")), cat=str(found.get("cat")), name=str(found.get("name")))
    event.pid, event.tid = str(found.get("pid")), str(found.get("tid"))
    event.ts, event.dur = _float(found.get("ts")), _float(found.get("dur"))
    if isinstance(arguments, dict):
        event.args = Arguments()
        for item in msgspec.structs.fields(Arguments):
            value = arguments.get(item.encode_name)
            wanted = str if item.name in ("collective", "dtype") else int
            if type(value) is wanted and (isinstance(value, str) or abs(value) < 2**62):
                setattr(event.args, item.name, value)
    return event


def _float(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan
