"""Values of the fields that Slurm's commands print: times and host lists."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_HOSTS = 100_000
_TIME = re.compile(r"(?:(\d{1,6})-)?(\d{1,6}):(\d{1,2})(?::(\d{1,2}))?(?:\.\d+)?")
# A part of a host list: text without commas, also with `[1-3,7]` in it.
_PART = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_BRACKETS = re.compile(r"([^\[]*)\[([^\]]*)\](.*)", re.DOTALL)
_RANGE = re.compile(r"(\d{1,9})-(\d{1,9})")


def seconds(text: str) -> int | None:
    """Return the seconds of `1-02:03:04`, `02:03:04` or `03:04`; None for UNLIMITED, N/A etc."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[4] or match[1]:
        return (days * 24 + first) * 3600 + second * 60 + third
    return first * 60 + second


def expand_hosts(text: str) -> list[str]:
    """Return the names of a host list such as `node[1-3,7],gpu-[08-10]` in order."""
    if text.strip() in ("None assigned", "(null)"):
        return []
    names = (name for part in _PART.findall(text.strip()) for name in _expand(part))
    return [name for name, _place in zip(names, range(MOST_HOSTS), strict=False)]


def _expand(part: str) -> Iterator[str]:
    found = _BRACKETS.fullmatch(part)
    if found is None:
        yield part
        return
    for number in found[2].split(","):
        limits = _RANGE.fullmatch(number)
        first, last = limits.groups() if limits else (number, number)
        numbers = range(int(first), int(last) + 1) if limits else (first,)
        for one in numbers:
            for end in _expand(found[3]) if found[3] else ("",):
                yield f"{found[1]}{str(one).zfill(len(first))}{end}"
