"""Slurm's way of writing many host names as one: `node[1-3,7],gpu-[08-10]`."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_HOSTS, MOST_BRACKETS = 1_000_000, 20
MOST_LETTERS = 20_000_000
"""A few bytes can stand for more names than fit the memory."""
_NO_NODE = re.compile(r"None(?: a\w*\+?)?|\(null\)")
"""`None assigned`, whole or as far as the column was wide."""
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


def expand_hosts(text: str, most_letters: int = MOST_LETTERS) -> list[str]:
    """The names in their order. What is no host list is returned as it is; a list that was cut
    short by the printing command (`…` or `...`) gives the names that are whole. One that is too
    long ends early."""
    if _NO_NODE.fullmatch(text.strip()):
        return []
    names: list[str] = []
    for part in _split(text.strip()):
        for name in _expand(part) if part.count("[") <= MOST_BRACKETS else (part,):
            most_letters -= len(name)
            if len(names) >= MOST_HOSTS or most_letters < 0:
                return names
            names.append(name)
    return names


def _split(text: str) -> Iterator[str]:
    """At commas outside of brackets."""
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]" and depth > 0)
        if letter == "," and not depth:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def _expand(text: str) -> Iterator[str]:
    if not text or (text.endswith(("...", "…")) and "[" not in text):
        return
    head, bracket, rest = text.partition("[")
    if not bracket:
        yield text
        return
    inside, closing, tail = rest.partition("]")
    cut = not closing
    for number in _numbers(inside, cut):
        if cut:
            yield head + number
            continue
        for end in _expand(tail) if tail else ("",):
            yield head + number + end


def _numbers(text: str, cut: bool) -> Iterator[str]:
    parts = text.split(",")
    for part in parts[:-1] if cut else parts:
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            if part:
                yield part
            continue
        first, last = int(match[1]), int(match[2] or match[1])
        for number in range(first, min(last, first + MOST_HOSTS) + 1):
            yield str(number).zfill(len(match[1]))
