"""Where tracebacks end, and whether the words around them say that they did no harm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from course_lib.read import prefix
from course_lib.read.prefix import Prefix

WARNS = re.compile(
    rb"(?<!NCCL )\b(?:WARN(?:ING)?|[A-Z]\w*Warning)\b|warnings\.warn|\[W[\d ]|"
    rb"(?:^|[\]:] ?)(?:W\d{4} |[Ww]arning\b)"
)
_HARMLESS = re.compile(rb"Exception ignored in|--- Logging error ---")
_GOES_ON = re.compile(
    rb"(?i)ignoring|skipping|continuing|carrying on|falls? back|falling back|"
    rb"(?:not|non)[ -]fatal|will (?:be )?retr|retrying"
)
_CHAINED = (b"another exception occurred:", b"cause of the following exception:")
_BEGINS = b"Traceback (most"
_SPAWNED = re.compile(rb"-- Process (\d{1,6}) terminated with the following error:")
_CLOCK = re.compile(rb"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
_NAMED_RANK = re.compile(rb"\[rank ?\d{1,6}\]")
_LONGEST_LINES = 300
_NEAR_BYTES = 2000


class Harm(Enum):
    """`WARNED`: words around it say that it did none, which holds only if the process went on."""

    NONE = "none"
    WARNED = "warned"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Traceback:
    """It begins with the line at `begin` and ends with that from `start` to `end`, which `who`
    printed; `spawned` is the number that torch's spawn gave the process."""

    begin: int
    start: int
    end: int
    who: Prefix
    harm: Harm
    spawned: int | None = None


def tracebacks(text: bytes, begin: int, end: int) -> Iterator[Traceback]:
    """All that begin between two places, where they end in the text."""
    harm = Harm.UNKNOWN
    at = text.find(_BEGINS, begin, end)
    while at >= 0:
        first = text.rfind(b"\n", 0, at) + 1
        head_of = _heads(text, first, at)
        if last := _last_line(text, at, head_of):
            start, stop, who = last
            said, then = _neighbours(text, first, stop, head_of)
            harm = _harm(text[first:at], said, then, harm)
            spawned = _SPAWNED.search(said)
            number = int(spawned[1]) if spawned else None
            yield Traceback(first, start, stop, who, harm, number)
        at = text.find(_BEGINS, at + 1, end)


HeadOf = Callable[[bytes], Prefix | None]
"""What stands before a line of the same process; None for lines of others."""


def _heads(text: bytes, first: int, at: int) -> HeadOf:
    """How to tell lines of the process whose traceback begins at `at`: by who printed them, or,
    where that is unknown but stands before the next line too, by the same letters."""
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
    """Letters that are the same but for the time of day."""
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
    """The nearest lines of the same process before and after a traceback."""

    def nearest(lines: list[bytes]) -> bytes:
        own = (line for line in lines if line.strip() and head_of(prefix.without_colours(line)))
        return next(own, b"")

    earlier = text[max(0, first - _NEAR_BYTES) : first].splitlines()[::-1]
    return nearest(earlier), nearest(text[stop + 1 : stop + _NEAR_BYTES].splitlines())


def _harm(head: bytes, said: bytes, then: bytes, before: Harm) -> Harm:
    """One that happened while another was handled shares the fate of that one (`before`)."""
    if said.endswith(_CHAINED):
        return before
    if _HARMLESS.search(head) or _HARMLESS.search(said):
        return Harm.NONE
    warned = WARNS.search(head) or WARNS.search(said) or _GOES_ON.search(said + b" " + then)
    return Harm.WARNED if warned else Harm.UNKNOWN


def _last_line(text: bytes, at: int, head_of: HeadOf) -> tuple[int, int, Prefix] | None:
    """The next line of the same process that is not indented."""
    start = at
    for _ in range(_LONGEST_LINES):
        start = text.find(b"\n", start) + 1
        if not start:
            return None
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        line = prefix.without_colours(text[start : min(end, start + 400)])
        who = head_of(line)
        if who and line.strip() and not _indented(line, who):
            return start, end, who
    return None


def unended(text: bytes) -> tuple[int, Prefix] | None:
    """Of a traceback whose end is not in the text: where its last line begins, and of whom."""
    at = text.rfind(_BEGINS)
    if at < 0:
        return None
    head_of = _heads(text, text.rfind(b"\n", 0, at) + 1, at)
    if _last_line(text, at, head_of):
        return None
    start = len(text)
    while start > at:
        end, start = start, text.rfind(b"\n", 0, max(0, start - 1)) + 1
        line = prefix.without_colours(text[start:end])
        if (who := head_of(line)) and line[who.length :].strip():
            return start, who
    return None


def _indented(line: bytes, who: Prefix) -> bool:
    head, rest = line[: who.length], line[who.length :]
    return not rest.strip() or rest[:1] == b" " or len(head) - len(head.rstrip(b" ")) >= 2
