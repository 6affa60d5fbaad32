"""Last lines of tracebacks, and the words around them that call them harmless."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from course_lib.read import prefix
from course_lib.read.prefix import Prefix

WARNS = re.compile(
    rb"(?<!NCCL )\b(?:WARN(?:ING)?|[A-Z]\w*Warning)\b|warnings\.warn|\[W[\d ]|"
    rb"(?:^|[\]:] ?)(?:W\d{4} |[Ww]arning\b)",
    re.MULTILINE,
)
_IGNORED = re.compile(rb"Exception ignored in|--- Logging error ---")
_GOES_ON = re.compile(
    rb"(?i)ignoring|skipping|continuing|carrying on|falls? back|falling back|"
    rb"(?:not|non)[ -]fatal|will (?:be )?retr|retrying"
)
_CHAINED = (b"another exception occurred:", b"cause of the following exception:")
# With the rest of the line, because source and documentation continue after it.
_BEGINS = re.compile(
    rb"(?<![\"'])Traceback \(most(?: recent call last\)"
    rb"(?:\x1b\[[\d;]*m|[^\w\"'\\()\n])*$|[a-z ]*\)?\Z)",
    re.MULTILINE,
)
_SPAWNED = re.compile(rb"-- Process (\d{1,6}) terminated with the following error:")
_CLOCK = re.compile(rb"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
_NAMED_RANK = re.compile(rb"\[rank ?\d{1,6}\]")
_LONGEST_LINES = 300
_NEAR_BYTES = 2000


@dataclass(frozen=True)
class Traceback:
    """Last line of a traceback, from `start` to `end`, printed by `who`. The text around it may say
    that nothing was raised (`ignored`) or that the program went on (`warned`). If the log was
    `cut` off, the line with the exception is missing. `spawned` is the process number from torch's
    spawn."""

    start: int
    end: int
    who: Prefix
    cut: bool
    ignored: bool
    warned: bool
    spawned: int | None = None


def tracebacks(text: bytes, begin: int, end: int) -> Iterator[Traceback]:
    """Yield all tracebacks that begin between two positions."""
    ignored = warned = False
    for begins in _BEGINS.finditer(text, begin, end):
        at = begins.start()
        first = text.rfind(b"\n", 0, at) + 1
        head_of = _heads(text, first, at)
        if last := _last_line(text, at, head_of):
            start, stop, who, cut = last
            if cut and end < len(text):  # the rest may follow
                continue
            said, then = _neighbours(text, first, stop, head_of)
            head = text[first:at] + b"\n" + said
            if not said.endswith(_CHAINED):  # otherwise as the traceback before it
                ignored = bool(_IGNORED.search(head))
                warned = bool(WARNS.search(head) or _GOES_ON.search(said + b" " + then))
            spawned = _SPAWNED.search(said)
            number = int(spawned[1]) if spawned else None
            yield Traceback(start, stop, who, cut, ignored, warned, number)


# Prefix of a line of the same process; None for a line of another.
HeadOf = Callable[[bytes], Prefix | None]


def _heads(text: bytes, first: int, at: int) -> HeadOf:
    """Return a function that recognizes lines of the traceback's process: by their known prefix, or
    by the same unknown prefix if the following lines have it too."""
    head = prefix.without_colours(text[first:at])
    who = prefix.parse(head)
    if who.length < len(head):
        pattern = _like(head)
        following = text[at : at + _NEAR_BYTES].splitlines()[1:5]
        if any(pattern.match(prefix.without_colours(line)) for line in following):
            return lambda line: _unknown_head(pattern, line)

    def head_of(line: bytes) -> Prefix | None:
        found = prefix.parse(line)
        return found if found.printer == who.printer else None

    return head_of


def _like(head: bytes) -> re.Pattern[bytes]:
    """Return a pattern for a prefix that is equal except for the time."""
    parts = map(re.escape, _CLOCK.split(head))
    return re.compile(_CLOCK.pattern.join(parts))


def _unknown_head(pattern: re.Pattern[bytes], line: bytes) -> Prefix | None:
    match = pattern.match(line)
    if match is None:
        return None
    named = _NAMED_RANK.search(match[0])
    known = prefix.parse(match[0][named.start() :] if named else match[0])
    return Prefix(known.rank, known.task, known.local_rank, known.node, known.stamp, match.end())


def _neighbours(text: bytes, first: int, stop: int, head_of: HeadOf) -> tuple[bytes, bytes]:
    """Return the nearest lines of the same process before and after a traceback."""

    def nearest(lines: list[bytes]) -> bytes:
        own = (line for line in lines if line.strip() and head_of(prefix.without_colours(line)))
        return next(own, b"")

    earlier = text[max(0, first - _NEAR_BYTES) : first].splitlines()[::-1]
    return nearest(earlier), nearest(text[stop + 1 : stop + _NEAR_BYTES].splitlines())


def _last_line(text: bytes, at: int, head_of: HeadOf) -> tuple[int, int, Prefix, bool] | None:
    """Return the next line of the same process that is not indented. If the text ends before, it is
    cut off; return the process's last line."""
    start, last = text.rfind(b"\n", 0, at) + 1, None
    for number in range(_LONGEST_LINES):
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        line = prefix.without_colours(text[start : min(end, start + 400)])
        who = head_of(line)
        if who and line[who.length :].strip():
            last = start, end, who
            if number and not _indented(line, who):
                return *last, False
        if end == len(text):
            return (*last, True) if last else None
        start = end + 1
    return None


def _indented(line: bytes, who: Prefix) -> bool:
    head, rest = line[: who.length], line[who.length :]
    return not rest.strip() or rest[:1] == b" " or len(head) - len(head.rstrip(b" ")) >= 2
