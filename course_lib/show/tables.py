"""Input of figures: tables, objects that contain them, and names for both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from course_lib.mistakes.errors import ArgumentError
from course_lib.mistakes.kinds import what_it_is
from course_lib.words import _, label

Named = dict[str, pd.DataFrame]


def table_of(source: Any, attribute: str) -> pd.DataFrame:
    """Return a table: the source itself, an attribute of a `read` result, or a part of a run."""
    if isinstance(source, pd.DataFrame):
        return source
    for part in ("", "log", "profile"):  # one by one, because reading a part may take long
        table = getattr(getattr(source, part, None) if part else source, attribute, None)
        if isinstance(table, pd.DataFrame):
            return table
    raise ArgumentError(
        _(
            "a figure needs a table, a run, or a result of read with a table "
            ".{attribute}; it was given {source}",
            source=what_it_is(source),
            attribute=attribute,
        )
    )


def named(sources: Iterable[Any], attribute: str) -> Named:
    """Name the tables by a mapping's keys, the runs' names, or "run 1", "run 2"…"""
    found: Named = {}
    for source in sources:
        if isinstance(source, Mapping):
            found.update(
                {label(str(key)): table_of(value, attribute) for key, value in source.items()}
            )
            continue
        name = str(getattr(source, "name", "") or _("run {found}", found=len(found) + 1))
        unique = name if name not in found else f"{name} ({len(found) + 1})"
        found[unique] = table_of(source, attribute)
    return found


def require(table: pd.DataFrame, columns: Iterable[str], figure: str) -> None:
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise ArgumentError(
            _(
                "show.{figure} needs the column{s} {missing}; this table has: {value2}",
                figure=figure,
                s="s" * (len(missing) > 1),
                missing=", ".join(missing),
                value2=", ".join(map(str, table.columns)) or "none",
            )
        )


def one_of(value: str, known: Collection[str], call: str, name: str) -> None:
    """Refuse a value that is not one of the known values."""
    if value not in known:
        text = ", ".join(filter(None, known))
        raise ArgumentError(
            _("{call} has no {name}={value!r}; use one of {text}", call=call, name=name,
              value=value, text=text)
        )  # fmt: skip


def numbers(values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a column as floats; missing values and non-numbers become NaN."""
    series = pd.to_numeric(pd.Series(values), errors="coerce")
    return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))


def thin(x: Any, y: Any, bins: int = 600) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Reduce to at most four points per bin: first, lowest, highest, last. Spikes remain."""
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
    """Format a value with three significant digits and its unit."""
    if not np.isfinite(value):
        text = _("not a number") if np.isnan(value) else "infinite"
    elif value != 0 and not 1e-3 <= abs(value) < 1e6:
        text = f"{value:.3g}"
    else:
        digits = 3 - len(str(int(abs(value)))) if abs(value) >= 1 else 3
        text = f"{value:,.{max(digits, 0)}f}"
    return f"{text} {label(unit)}".strip()


def time_scale(longest_us: float) -> tuple[float, str]:
    """Return divisor and unit for a time in microseconds."""
    for divisor, unit in ((1e6, "s"), (1e3, "ms")):
        if longest_us >= 2 * divisor:
            return divisor, unit
    return 1.0, "µs"


def byte_scale(most_bytes: float) -> tuple[float, str]:
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if most_bytes >= 1024**power:
            return float(1024**power), unit
    return 1.0, "bytes"
