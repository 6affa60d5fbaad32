"""What a figure may be given: tables, things that hold them, and names for both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from course_lib.mistakes.errors import ArgumentError
from course_lib.mistakes.kinds import what_it_is

Named = dict[str, pd.DataFrame]


def table_of(source: Any, attribute: str) -> pd.DataFrame:
    """A table, a result of `read` with such a table, or a run whose log has it."""
    if isinstance(source, pd.DataFrame):
        return source
    for part in ("", "log", "profile"):  # one after the other: reading a part may be costly
        table = getattr(getattr(source, part, None) if part else source, attribute, None)
        if isinstance(table, pd.DataFrame):
            return table
    raise ArgumentError(
        f"a figure was given {what_it_is(source)}; it takes a table, "
        f"or something with a table named .{attribute} (a run, or what read returned)"
    )


def named(sources: Iterable[Any], attribute: str) -> Named:
    """Names for the tables: those of a mapping, else the runs' own, else "run 1", "run 2"…"""
    found: Named = {}
    for source in sources:
        if isinstance(source, Mapping):
            found.update({str(key): table_of(value, attribute) for key, value in source.items()})
            continue
        name = str(getattr(source, "name", "") or f"run {len(found) + 1}")
        unique = name if name not in found else f"{name} ({len(found) + 1})"
        found[unique] = table_of(source, attribute)
    return found


def require(table: pd.DataFrame, columns: Iterable[str], figure: str) -> None:
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise ArgumentError(
            f"show.{figure} needs the column{'s' * (len(missing) > 1)} {', '.join(missing)}; "
            f"this table has: {', '.join(map(str, table.columns)) or 'none'}"
        )


def numbers(values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Any column as floats; what is missing or no number becomes NaN."""
    series = pd.to_numeric(pd.Series(values), errors="coerce")
    return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))


def thin(x: Any, y: Any, bins: int = 600) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """At most four points a bin: first, lowest, highest, last, so that no spike is lost."""
    x, y = numbers(x), numbers(y)
    if len(x) <= 4 * bins:
        return x, y
    chosen: set[int] = set()
    for part in np.array_split(np.arange(len(x)), bins):
        chosen |= {int(part[0]), int(part[-1])}
        if np.isfinite(y[part]).any():
            chosen |= {int(part[np.nanargmin(y[part])]), int(part[np.nanargmax(y[part])])}
    keep = np.array(sorted(chosen))
    return x[keep], y[keep]


def quantity(value: float, unit: str = "") -> str:
    """Three significant digits, as a person would write them."""
    if not np.isfinite(value):
        text = "not a number" if np.isnan(value) else "infinite"
    elif value != 0 and not 1e-3 <= abs(value) < 1e6:
        text = f"{value:.3g}"
    else:
        digits = 3 - len(str(int(abs(value)))) if abs(value) >= 1 else 3
        text = f"{value:,.{max(digits, 0)}f}"
    return f"{text} {unit}".strip()


def time_scale(longest_us: float) -> tuple[float, str]:
    """Divisor and unit in which a span of microseconds is easiest to read."""
    for divisor, unit in ((1e6, "s"), (1e3, "ms")):
        if longest_us >= 2 * divisor:
            return divisor, unit
    return 1.0, "µs"


def in_bytes(size_bytes: float) -> tuple[float, str]:
    """A size in the unit in which it is easiest to read."""
    scale, unit = byte_scale(size_bytes)
    return size_bytes / scale, unit


def byte_scale(most_bytes: float) -> tuple[float, str]:
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if most_bytes >= 1024**power:
            return float(1024**power), unit
    return 1.0, "bytes"
