"""Which lines of a log are worth a closer look when it is about failures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from course_lib.read import lines, prefix
from course_lib.read.files import Source

WORDS = tuple(
    word.encode()
    for word in [
        "rror",
        "xception",
        "nterrupt",
        "CANCELLED",
        "ancelled",
        "emory",
        "oom",
        "OOM",
        "illed",
        "imed out",
        "imeout",
        "IGKILL",
        "IGTERM",
        "IGABRT",
        "IGSEGV",
        "IGBUS",
        "bort",
        "egmentation",
        "xit",
        "NaN",
        " nan",
        "EADDRINUSE",
        "lready in use",
        "by peer",
        "remote p",
        "ismatch",
        "DUE TO",
        "No s",
        "WARN",
        "not known",
        "found",
        "ail",
        "FAIL",
        "divisible",
        "multiple of",
        "verflow",
        "VERFLOW",
        "tale file",
        "ermission",
        "quota",
        "orld size",
        "nvalid",
        "violates",
        "equested",
        "closing signal",
        "已杀死",
        "StopIter",
        "o module",
        "AF_INET",
        "SOCKET_IFNAME",
        "uplicate",
        "bad_alloc",
        "core dumped",
        "GPUs",
        "atchdog",
        "ABORT",
        "NVIDIA driver",
        "NVRM: Xid",
        "barrier",
        "path prefix",
        "inline_container",
        "returned nan",
        "unbound var",
        "not set",
        "ration source",
        "in a collective",
        "lost rank",
        "did not come",
    ]
)
"""A line without any of these is not looked at."""
LONG_WORDS = (
    b"Traceback (most recent call last)", b"out of memory", b"CANCELLED AT", b"oom-kill event",
    b"oom_kill event", b"Watchdog caught collective", b"lready in use", b"Exited with exit code",
    b"slurmstepd: error", b"DUE TO", b"found NaN", b"Root Cause (first", b"terminate called",
)  # fmt: skip
"""Looked for in the middle of a very long log."""
EDGE_BYTES = 16 << 20
BACK_BYTES = 64 << 10
AHEAD_BYTES = 16 << 10
NEAR_BYTES = 2000
WARNS = re.compile(
    rb"(?<!NCCL )\b(?:WARN(?:ING)?|[A-Z]\w*Warning)\b|warnings\.warn|\[W[\d ]|"
    rb"(?:^|[\]:] ?)(?:W\d{4} |[Ww]arning\b)"
)
_GOES_ON = re.compile(
    rb"(?i)Exception ignored in|--- Logging error ---|ignoring|skipping|continuing|carrying on|"
    rb"falls? back|falling back|(?:not|non)[ -]fatal|will (?:be )?retr|retrying"
)
_TRACEBACK = b"Traceback (most"
_LONGEST_TRACEBACK_LINES = 300


@dataclass(frozen=True)
class Window:
    """Bytes around the lines from `begin` to `end`: more before, to look back, some after."""

    text: bytes
    begin: int
    end: int
    line: int
    words: tuple[bytes, ...]


def windows(source: Source) -> Iterator[Window]:
    size = 0 if lines.is_gzip(source.path) else source.path.stat().st_size
    text, begin, line, read_bytes = b"", 0, 1, 0
    for block in _then_nothing(lines.blocks(source.path)):
        text, read_bytes = text + block, read_bytes + len(block)
        end = len(text)
        if block:
            end = max(begin, text.rfind(b"\n", begin, max(begin, end - AHEAD_BYTES)) + 1)
        edge = read_bytes <= EDGE_BYTES or size == 0 or size - read_bytes <= EDGE_BYTES
        yield Window(text, begin, end, line, WORDS if edge else LONG_WORDS)
        line += text.count(b"\n", begin, end)
        cut = max(0, end - BACK_BYTES)
        text, begin = text[cut:], end - cut


def _then_nothing(blocks: Iterator[bytes]) -> Iterator[bytes]:
    yield from blocks
    yield b""


def candidates(window: Window) -> tuple[list[tuple[int, int]], dict[int, bool]]:
    """(start, end) of lines with a word of interest; the starts of those that end a traceback, and
    whether it only went with a warning."""
    text = window.text
    found: dict[int, int] = {}
    ends: dict[int, bool] = {}
    for word in window.words:
        at = text.find(word, window.begin, window.end)
        while at >= 0:
            start = max(text.rfind(b"\n", window.begin, at) + 1, window.begin)
            end = text.find(b"\n", at, window.end)
            found[start] = end = window.end if end < 0 else end
            at = text.find(word, end, window.end)
    warned = False
    at = text.find(_TRACEBACK, max(0, window.begin - AHEAD_BYTES), window.end)
    while at >= 0:
        last = _last_line(text, at)
        if last:
            warned = _only_warns(text, at, last[1], warned)
        if last and window.begin <= last[0] < window.end:
            found[last[0]] = last[1]
            ends[last[0]] = warned
        at = text.find(_TRACEBACK, at + 1, window.end)
    return sorted(found.items()), ends


def _only_warns(text: bytes, at: int, end: int, before: bool) -> bool:
    """Whether what stands around a traceback says that the program went on; one that happened
    while another was handled shares its fate (`before`)."""
    start = text.rfind(b"\n", 0, at) + 1
    printer = prefix.parse(prefix.without_colours(text[start:at])).printer
    earlier = text[max(0, start - NEAR_BYTES) : start].splitlines()[::-1]
    said = next((line for line in earlier if _is_of(printer, line)), b"")
    if said.endswith((b"another exception occurred:", b"cause of the following exception:")):
        return before
    later = text[end + 1 : end + NEAR_BYTES].splitlines()
    then = next((line for line in later if _is_of(printer, line)), b"")
    return bool(WARNS.search(text[start:at]) or WARNS.search(said) or _GOES_ON.search(said + then))


def _is_of(printer: tuple[object, ...], line: bytes) -> bool:
    return bool(line.strip()) and prefix.parse(prefix.without_colours(line)).printer == printer


def _last_line(text: bytes, at: int) -> tuple[int, int] | None:
    """Where the traceback that begins at `at` ends: the next line of the same process that is
    not indented."""
    start = text.rfind(b"\n", 0, at) + 1
    printer = prefix.parse(prefix.without_colours(text[start:at])).printer
    for _ in range(_LONGEST_TRACEBACK_LINES):
        start = text.find(b"\n", start) + 1
        if not start:
            return None
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        line = prefix.without_colours(text[start : min(end, start + 400)])
        who = prefix.parse(line)
        head = line[: who.length]
        if who.printer == printer and len(head) - len(head.rstrip(b" ")) < 2 and line.strip():
            return start, end
    return None
