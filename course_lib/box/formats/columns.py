"""Reads -o and -O specifications and lays out lines; the same for squeue and sinfo."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

DEFAULT_LONG_WIDTH = 20
LITERAL = ""
"""Key of a column that has no field: Slurm prints what it does not know as it stands."""


class Column:
    """A field with its place; with the text that stands up to the next field."""

    def __init__(self, key: str, width: int, right: bool, suffix: str) -> None:
        self.key = key
        self.width = width
        self.right = right
        self.suffix = suffix

    def lay_out(self, text: str) -> str:
        if not self.width:
            return text + self.suffix
        cut = text[: self.width]
        if self.key == "partition" and len(text) > self.width and text.endswith("*"):
            cut = text[: self.width - 1] + "*"  # the mark of the default partition stays
        return (cut.rjust(self.width) if self.right else cut.ljust(self.width)) + self.suffix


class Columns:
    """The columns of one listing, and the fields that were asked for and do not exist."""

    def __init__(self, prefix: str, columns: list[Column], unknown: list[str]) -> None:
        self.prefix = prefix
        self.columns = columns
        self.unknown = unknown

    def keys(self) -> set[str]:
        return {column.key for column in self.columns}

    def lines(
        self,
        fields: dict[str, tuple[str, Callable[[Any], str]]],
        views: Iterable[Any],
        header: bool,
    ) -> list[str]:
        """The header, unless it is not wanted, and one line per view."""
        found = []
        if header:
            cells = [c.lay_out(fields[c.key][0] if c.key else "") for c in self.columns]
            found.append(self.prefix + "".join(cells))
        pairs = [(c.lay_out, fields[c.key][1] if c.key else _nothing) for c in self.columns]
        for view in views:
            found.append(self.prefix + "".join([put(function(view)) for put, function in pairs]))
        return found


def _nothing(_: object) -> str:
    return ""


def parse_short(specification: str, letters: dict[str, str]) -> Columns:
    """`%.18i %P…`; `%all` is every letter with a bar between."""
    prefix, *tokens = specification.split("%")
    columns: list[Column] = []
    unknown: list[str] = []
    for token in tokens:
        if token.startswith("all"):
            columns += [Column(key, 0, False, "|") for key in letters.values()]
            columns[-1].suffix = token[3:]
            continue
        right = token.startswith(".")
        rest = token.removeprefix(".")
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        rest = rest[len(digits) :]
        if not rest:
            continue
        if rest[0] in letters:
            columns.append(Column(letters[rest[0]], int(digits or 0), right, rest[1:]))
        else:
            unknown.append(rest[0])
            columns.append(Column(LITERAL, 0, False, f"%{token}"))
    return Columns(prefix, columns, unknown)


def parse_long(specification: str, names: Iterable[str]) -> Columns:
    """`JobID:10,Name:.8x`: name, then where wanted dot, width and suffix."""
    columns: list[Column] = []
    unknown: list[str] = []
    known = set(names)
    for token in specification.split(","):
        name, _, size = token.partition(":")
        right = size.startswith(".")
        shape = size.removeprefix(".")
        digits = shape[: len(shape) - len(shape.lstrip("0123456789"))]
        if name.lower() in known:
            width = int(digits or 0) if size else DEFAULT_LONG_WIDTH
            columns.append(Column(name.lower(), width, right, shape[len(digits) :]))
        elif name:
            unknown.append(name)
    return Columns("", columns, unknown)
