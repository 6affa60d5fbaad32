"""Node lists in Slurm's notation: `node[1-2,4]`, `n[08-11]`."""

from __future__ import annotations

LONGEST = 65536


class HostListError(ValueError):
    """Error: the text is not a node list."""


def expand(text: str) -> list[str]:
    """Return every name, in the order written."""
    names: list[str] = []
    for part in _split(text):
        names += _expand_one(part)
        if len(names) > LONGEST:
            raise HostListError(text)
    return names


def _split(text: str) -> list[str]:
    """Split at commas and blanks outside brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]" and depth > 0)
        if depth > 1:
            raise HostListError(text)
        if letter in ", \t\n" and not depth:
            parts.append(text[start:place])
            start = place + 1
    if depth:
        raise HostListError(text)
    parts.append(text[start:])
    return [part for part in parts if part]


def _expand_one(text: str) -> list[str]:
    head, bracket, tail = text.partition("[")
    if not bracket:
        return [text]
    inside, _, rest = tail.partition("]")
    if rest:
        raise HostListError(text)  # Slurm allows nothing after the last bracket
    return [head + number for number in _numbers(inside, text)]


def _numbers(inside: str, text: str) -> list[str]:
    numbers: list[str] = []
    for piece in inside.split(","):
        low, dash, high = piece.partition("-")
        if not inside.isascii() or not low.isdigit() or (dash and not high.isdigit()):
            raise HostListError(text)
        if not dash:
            numbers.append(low)
            continue
        first, last = int(low), int(high)
        if last < first or last - first >= LONGEST:
            raise HostListError(text)
        numbers += [str(number).zfill(len(low)) for number in range(first, last + 1)]
    return numbers


def compress(names: list[str]) -> str:
    """Return the short form. Neighbours with the same stem and width are combined."""
    pieces: list[tuple[str, list[str]]] = []
    for name in names:
        stem = name.rstrip("0123456789")
        number = name[len(stem) :]
        if number and pieces and pieces[-1][0] == stem and pieces[-1][1][0]:
            pieces[-1][1].append(number)
        else:
            pieces.append((stem, [number]))
    return ",".join(_piece(stem, numbers) for stem, numbers in pieces)


def _piece(stem: str, numbers: list[str]) -> str:
    if len(numbers) == 1:
        return stem + numbers[0]
    ranges: list[tuple[str, str]] = []
    for number in numbers:
        if ranges and _follows(ranges[-1][1], number):
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    listed = ",".join(low if low == high else f"{low}-{high}" for low, high in ranges)
    return f"{stem}[{listed}]"


def _follows(before: str, number: str) -> bool:
    same_width = len(before) == len(number) or (before[0] != "0" and number[0] != "0")
    return same_width and int(number) == int(before) + 1


def compress_sorted(names: list[str]) -> str:
    """Return the short form of sorted names without repeats, as Slurm shows a job's nodes."""
    return compress(sorted(set(names), key=natural))


def natural(name: str) -> tuple[str, int, str]:
    stem = name.rstrip("0123456789")
    number = name[len(stem) :]
    return stem, int(number) if number else -1, name
