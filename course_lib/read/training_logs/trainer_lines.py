"""Rules for lines of training programs besides iteration lines, from `trainer_lines.toml`.

The programs are Megatron-LM and Megatron-DeepSpeed, DeepSpeed, Hugging Face, NeMo and epoch-based
examples. Some of them print iterations in their own form."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.read import prefix
from course_lib.read.training_logs.iteration_lines import NUMBER, column_of

_TEXTS = {"name", "what", "precision", "split"}
_LONGEST_NEXT_LINE = 300


@dataclass(frozen=True)
class LineRule:
    """Rule for one form of a line; `trainer_lines.toml` explains the fields."""

    name: str
    words: tuple[bytes, ...]
    example: str
    counter_example: str
    table: str = "notes"
    pattern: re.Pattern[bytes] = re.compile(rb".+")
    each: re.Pattern[bytes] | None = None
    fields: re.Pattern[bytes] | None = None
    value: str = ""
    suffix: str = ""
    until: bytes = b""
    set: dict[str, Any] = field(default_factory=dict)
    units: dict[str, float] = field(default_factory=dict)
    rename: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    joins: bool = False
    short: bool = False

    def rows(self, text: bytes, following: bytes = b"") -> Iterator[dict[str, Any]]:
        """Yield the rows of a line; several processes may have written into it."""
        if not any(word in text for word in self.words):
            return
        for match in self.pattern.finditer(text):
            groups = match.groupdict()
            rest = groups.pop("rest", None) or b""
            if self.until and match.end() == len(text.rstrip()) and self.until not in rest:
                rest = text[match.start("rest") :] + _next_part(following)
            unit = (groups.pop("unit", None) or b"").decode()
            row = dict(self.set)
            if "value" in groups:
                self._measure(row, self.value, groups.pop("value"), unit)
            row |= {k: v for k, v in _values(groups).items() if v is not None or k not in row}
            if self.each is not None:
                yield from (row | _values(one.groupdict()) for one in self.each.finditer(rest))
                continue
            if self.fields is not None:
                self._fill(row, rest, unit)
            if any(name in row for name in self.needs or row) or not (self.needs or self.fields):
                yield row

    def _fill(self, row: dict[str, Any], rest: bytes, unit: str) -> None:
        """Add the fields in the rest of a line; the first of each name counts."""
        for one in self.fields.finditer(rest) if self.fields else ():
            name, value, *own_unit = one.groups()
            column, factor = column_of(name + b" ms" if own_unit == [b"ms"] else name)
            column = self.rename.get(column, column) + self.suffix
            if column and column not in row:
                self._measure(row, column, value, unit, factor)

    def _measure(
        self, row: dict[str, Any], column: str, text: bytes, unit: str, factor: float = 1.0
    ) -> None:
        value = number(text.replace(b",", b""))
        if value is not None:
            row[column] = value * factor * self.units.get(unit, 1.0)


def _values(groups: dict[str, bytes | None]) -> dict[str, Any]:
    return {
        name: text.decode("utf-8", "replace").strip() if name in _TEXTS and text else number(text)
        for name, text in groups.items()
    }


def number(text: bytes | None) -> float | None:
    return float(text) if text and NUMBER.fullmatch(text) else None


def _next_part(following: bytes) -> bytes:
    """Return the rest of a line that a launcher has split over two lines."""
    return following[prefix.label_length(following) :][:_LONGEST_NEXT_LINE]


def _rule(name: str, entry: dict[str, Any]) -> LineRule:
    for key in ("pattern", "each", "fields"):
        if key in entry:
            entry[key] = re.compile(entry[key].encode())
    entry["words"] = tuple(word.encode() for word in entry["words"])
    return LineRule(name, until=entry.pop("until", "").encode(), **entry)


_FILE = Path(__file__).with_suffix(".toml")
RULES = tuple(_rule(*each) for each in tomllib.loads(_FILE.read_text(encoding="utf-8")).items())
# Note about a line that states a loss in a form that neither a rule nor an iteration line has.
UNREAD_LOSS = LineRule("unread", (), "", "")
