"""Which lines of a log are worth a closer look when it is about failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from course_lib.read import lines
from course_lib.read.files import Source
from course_lib.read.first_causes.tracebacks import Traceback, tracebacks

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
        "KILLED BY",
        "RUNNING AT",
        "Process name: [[",
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


@dataclass(frozen=True)
class Window:
    """Bytes around the lines from `begin` to `end`: more before, to look back, some after."""

    text: bytes
    begin: int
    end: int
    line: int
    words: tuple[bytes, ...]


def windows(source: Source) -> Iterator[Window]:
    size = source.path.stat().st_size if lines.is_plain(source.path) else 0
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


def candidates(window: Window) -> tuple[list[tuple[int, int]], dict[int, Traceback]]:
    """(start, end) of lines with a word of interest; by the start of its last line, each traceback
    that ends here."""
    text = window.text
    found: dict[int, int] = {}
    for word in window.words:
        at = text.find(word, window.begin, window.end)
        while at >= 0:
            start = max(text.rfind(b"\n", window.begin, at) + 1, window.begin)
            end = text.find(b"\n", at, window.end)
            found[start] = end = window.end if end < 0 else end
            at = text.find(word, end, window.end)
    ended = {
        one.start: one
        for one in tracebacks(text, max(0, window.begin - AHEAD_BYTES), window.end)
        if window.begin <= one.start < window.end
    }
    found |= {start: one.end for start, one in ended.items()}
    return sorted(found.items()), ended
