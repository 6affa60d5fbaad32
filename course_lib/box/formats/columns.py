"""Reads -o and -O specifications and lays out lines; the same for squeue and sinfo."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

DEFAULT_LONG_WIDTH = 20


class FormatError(ValueError):
    """A field that does not exist; its text is the field."""


class Column:
    """Where a field goes: the text before it belongs to the column before."""

    def __init__(self, key: str, width: int, right: bool, suffix: str) -> None:
        self.key = key
        self.width = width
        self.right = right
        self.suffix = suffix

    def lay_out(self, text: str) -> str:
        if not self.width:
            return text + self.suffix
        cut = text[: self.width]
        return (cut.rjust(self.width) if self.right else cut.ljust(self.width)) + self.suffix


def parse_short(specification: str, letters: dict[str, str]) -> tuple[str, list[Column]]:
    """`%.18i %P…`: the text before the first field, and the columns."""
    prefix, *tokens = specification.split("%")
    columns = []
    for token in tokens:
        right = token.startswith(".")
        rest = token[1:] if right else token
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        rest = rest[len(digits) :]
        if not rest or rest[0] not in letters:
            raise FormatError(rest[:1])
        columns.append(Column(letters[rest[0]], int(digits or 0), right, rest[1:]))
    return prefix, columns


def parse_long(specification: str, names: dict[str, str]) -> list[Column]:
    """`JobID:10,Name:.8x`: name, then where wanted dot, width and suffix."""
    columns = []
    for token in specification.split(","):
        name, _, size = token.strip().partition(":")
        right = size.startswith(".")
        size = size.removeprefix(".")
        digits = size[: len(size) - len(size.lstrip("0123456789"))]
        key = names.get(name.lower())
        if key is None:
            raise FormatError(name)
        width = int(digits) if digits else DEFAULT_LONG_WIDTH
        columns.append(Column(key, width, right, size[len(digits) :]))
    return columns


def lines(
    prefix: str,
    columns: list[Column],
    fields: dict[str, tuple[str, Callable[[Any], str]]],
    views: Iterable[Any],
    header: bool,
) -> list[str]:
    """The header, unless it is not wanted, and one line per view."""
    found = []
    if header:
        found.append(prefix + "".join(c.lay_out(fields[c.key][0]) for c in columns))
    functions = [fields[column.key][1] for column in columns]
    for view in views:
        cells = zip(columns, functions, strict=True)
        found.append(prefix + "".join(c.lay_out(function(view)) for c, function in cells))
    return found
