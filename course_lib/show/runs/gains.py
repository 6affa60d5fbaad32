"""Speed-ups of successive changes, on several machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from course_lib.mistakes.errors import ArgumentError
from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.style import (
    BLUE,
    GREEN,
    HATCHES,
    ORANGE,
    PURPLE,
    legend_below,
    listed,
    sheet,
    shorten,
)
from course_lib.words import _

LOOKS: list[Any] = [
    {"color": paint, "hatch": HATCHES.get(paint)} for paint in (BLUE, ORANGE, GREEN, PURPLE)
]


def gains(table: pd.DataFrame, unit: str = "samples/s") -> Picture:
    """Draw the speed after each change (row) on each machine (column).

    Speeds are in `unit`; a missing value was not measured. A bar's length is the speed divided by
    the machine's first speed.
    """
    if not (isinstance(table, pd.DataFrame) and len(table) and 0 < len(table.columns) <= 4):
        raise ArgumentError(
            _(
                "show.gains needs a table with one row per change and one to four "
                "columns, one per machine"
            )
        )
    columns = {str(name): tables.numbers(table[name]) for name in table.columns}
    rows = [str(name) for name in table.index]
    with sheet(height_in=1.4 + 0.5 * max(len(rows), 2)) as page:
        axes = page.axes(_("speed relative to the first version"), "", _("Speed after each change"))
        said = [
            f"{name}: {_bars(axes, rows, values, (place, len(columns)), name, unit)}"
            for place, (name, values) in enumerate(columns.items())
        ]
        axes.set_yticks(range(len(rows)), [shorten(name) for name in rows])
        axes.margins(x=0.2)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.grid(axis="y", visible=False)
        legend_below(axes)
        return page.picture(_("Bars of the speed after each change. {said}.", said="; ".join(said)))


def _bars(
    axes: Axes, rows: list[str], values: Any, place: tuple[int, int], name: str, unit: str
) -> str:
    """Draw the speed-ups of one machine, each with its speed; return them as text."""
    number, of = place
    there = np.flatnonzero(np.isfinite(values) & (values > 0))
    height = 0.8 / of
    times = values[there] / values[there[0]] if len(there) else values[there]
    middles = there + height * (number - (of - 1) / 2)
    axes.barh(middles, times, 0.92 * height, label=name, **LOOKS[number])
    for middle, factor, speed in zip(middles, times, values[there], strict=True):
        text = f" {tables.quantity(speed, unit)}"
        axes.text(factor, middle, text, va="center", fontsize=9.5)
    return listed(
        _("{rows} {factor:.2f} times", rows=rows[row], factor=factor)
        for row, factor in zip(there, times, strict=True)
    )
