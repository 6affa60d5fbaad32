"""One column of a table over another, for figures that have no function of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from course_lib.mistakes.errors import ArgumentError
from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.style import (
    DASHES,
    INK,
    SERIES,
    legend_below,
    listed,
    plain_ticks,
    sheet,
)
from course_lib.words import spoken

LOGS = ("", "x", "y", "xy")
COUNTED = {"samples": "number of samples", "tokens": "number of tokens", "steps": "number of steps"}
"""Their names alone are units: `12 samples`."""
KNOWN = spoken(
    "consumed samples", "elapsed s", "epoch", "iteration", "lm loss", "loss", "noise scale",
    "steps per second", "times as fast", "train loss", "validation loss", "workers",
)  # fmt: skip
"""Other columns of lessons, as they stand at an axis."""


def lines(
    *sources: Any, x: str, y: str, title: str = "", log: str = "", points: Sequence[str] = (),
    level: float | None = None,
) -> Picture:  # fmt: skip
    """The column `y` over the column `x`, a line for each table, or points where its name is among
    `points`. `log` names the axes ("x", "y" or "xy") on which equal steps are equal factors;
    `level` draws a horizontal line."""
    found = tables.named(sources, "iterations")
    if log not in LOGS:
        raise ArgumentError(f"show.lines has no log={log!r}; use one of {', '.join(LOGS[1:])}")
    with sheet() as page:
        axes = page.axes(_words(x), _words(y), title)
        for position, (name, table) in enumerate(found.items()):
            tables.require(table, [x, y], "lines")
            _draw(axes, table[x], table[y], name, position, is_line=name not in points)
        if level is not None:
            axes.axhline(level, color=INK, lw=1.2, ls=":")
        _scale(axes, log)
        if len(found) > 1:
            legend_below(axes)
        said = listed(f"{name} {_course(table, x, y)}" for name, table in found.items())
        return page.picture(f"{title or 'Chart'}: {_words(y)} over {_words(x)}. {said}.")


def _draw(axes: Axes, x: Any, y: Any, name: str, position: int, *, is_line: bool) -> None:
    look: dict[str, Any] = {"marker": "osD^vPX*"[position % 8], "ls": "", "ms": 8}
    if is_line:
        few = len(x) <= 20
        look = {"ls": DASHES[position % len(DASHES)], "marker": look["marker"] if few else ""}
    axes.plot(*tables.thin(x, y), label=name, color=SERIES[position % len(SERIES)], **look)


def _scale(axes: Axes, log: str) -> None:
    for letter, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if letter in log:
            axes.set(**{f"{letter}scale": "log"})
            plain_ticks(axis)
        else:
            axis.set_major_locator(MaxNLocator(8, integer=letter == "x"))


def _words(column: str) -> str:
    return COUNTED.get(column, column.replace("_", " "))


def _course(table: Any, x: str, y: str) -> str:
    values = tables.numbers(table[y])
    good = values[np.isfinite(values) & np.isfinite(tables.numbers(table[x]))]
    if not len(good):
        return "has no finite value"
    return f"goes from {tables.quantity(good[0])} to {tables.quantity(good[-1])}"
