"""Rows that a reader collects, with a limit, so that a malicious log cannot fill the memory."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 2_000_000


class Rows:
    """List of dictionaries that becomes a table with fixed first columns."""

    def __init__(
        self,
        columns: Iterable[str],
        integers: Iterable[str] = (),
        rows: list[dict[str, Any]] | None = None,
        most: int = MOST_ROWS,
    ) -> None:
        self.columns = tuple(columns)
        self.integers = tuple(integers)
        self.rows: list[dict[str, Any]] = [] if rows is None else rows
        self.most = most

    def add(self, **values: Any) -> None:
        if len(self.rows) < self.most:
            self.rows.append(values)

    def table(self) -> pd.DataFrame:
        if not self.rows:
            return _empty(self.columns, self.integers).copy()
        return _table(self.rows, self.columns, self.integers)


def _table(
    rows: list[dict[str, Any]], columns: tuple[str, ...], integers: tuple[str, ...]
) -> pd.DataFrame:
    import pandas as pd

    table = pd.DataFrame.from_records(rows)
    extra = [name for name in table.columns if name not in columns]
    table = table.reindex(columns=[*columns, *extra])
    for name in table.columns:
        if name in integers:
            table[name] = as_integers(table[name])
        elif table[name].dtype == object and _numeric(table[name]):
            table[name] = as_numbers(table[name])
    return table


@cache
def _empty(columns: tuple[str, ...], integers: tuple[str, ...]) -> pd.DataFrame:
    """Return an empty table from a cache: most tables are empty, and typing columns takes time."""
    return _table([], columns, integers)


def _numeric(column: pd.Series[Any]) -> bool:
    """Tell whether a column has numbers and unknowns only."""
    return bool(column.map(lambda value: value is None or isinstance(value, int | float)).all())


def as_numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return numbers; other texts, and numbers too large for a float, become unknown."""
    import pandas as pd

    try:
        return pd.to_numeric(column, errors="coerce")
    except OverflowError:
        held = column.map(lambda value: str(value) if isinstance(value, int) else value)
        return pd.to_numeric(held, errors="coerce")


def as_integers(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return nullable integers; other values, and too large ones, become unknown."""
    import pandas as pd

    numbers = as_numbers(column)
    if numbers.dtype.kind == "f":
        numbers = numbers.where(numbers.abs() < 2**62).round()
    try:
        return numbers.astype("Int64")
    except (TypeError, ValueError, OverflowError):
        return pd.Series(pd.NA, index=column.index, dtype="Int64")
