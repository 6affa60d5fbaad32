"""Columns that grow block by block without ever being held twice: a log has a million rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from course_lib.read.training_logs.iteration_lines.names_and_values import (
    MOST_EXTRA_COLUMNS,
    Floats,
)


class Column:
    """Numbers in one piece of memory, which the operating system extends in place."""

    def __init__(self, kind: str) -> None:
        self._kind = np.dtype(kind)
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self._bytes) // self._kind.itemsize

    def extend(self, values: npt.NDArray[Any]) -> None:
        self._bytes += np.ascontiguousarray(values, self._kind).view(np.uint8).data

    def values(self, last: bool) -> npt.NDArray[Any]:
        """A copy, or the memory itself if this is the `last` that is asked of the column."""
        values = np.frombuffer(self._bytes, self._kind)
        return values if last else values.copy()


@dataclass
class Columns:
    """A column that appears late is NaN before, one that ends early is NaN afterwards."""

    rows: int = 0
    parts: dict[str, Column] = field(default_factory=dict)

    def add(self, table: dict[str, Floats], rows: int) -> None:
        for name, values in table.items():
            if name in self.parts or len(self.parts) < MOST_EXTRA_COLUMNS:
                column = self.parts.setdefault(name, Column("f8"))
                _fill(column, self.rows)
                column.extend(values)
        self.rows += rows

    def take(self, name: str, last: bool) -> Floats:
        """`last`: the column is given away."""
        column = self.parts.pop(name) if last else self.parts[name]
        _fill(column, self.rows)
        return column.values(last)


def _fill(column: Column, rows: int) -> None:
    if (gap := rows - len(column)) > 0:
        column.extend(np.full(gap, np.nan))
