"""One table column against another, for figures without a function of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from course_lib.show import tables
from course_lib.show.picture import Picture, shown
from course_lib.show.style import DASHES, INK, SERIES, legend_below, listed, plain_ticks, sheet
from course_lib.words import N_, _, label

LOGS = ("", "x", "y", "xy")
# Names that are units themselves: `12 samples`.
COUNTED = {
    "samples": N_("number of samples"),
    "tokens": N_("number of tokens"),
    "steps": N_("number of steps"),
}


def lines(
    *sources: Any, x: str, y: str, title: str = "", log: str = "", points: Sequence[str] = (),
    level: float | None = None,
) -> Picture:  # fmt: skip
    """Draw column `y` against column `x`, one line per table.

    Tables named in `points` are drawn as points. `log` names the logarithmic axes ("x", "y" or
    "xy"). `level` draws a horizontal line.
    """
    found = tables.named(sources, "iterations")
    tables.one_of(log, LOGS, "show.lines", "log")
    of_points = {label(name) for name in points}
    with sheet() as page:
        axes = page.axes(_words(x), _words(y), title)
        for position, (name, table) in enumerate(found.items()):
            tables.require(table, [x, y], "lines")
            _draw(axes, table[x], table[y], name, position, is_line=name not in of_points)
        if level is not None:
            axes.axhline(level, color=INK, lw=1.2, ls=":")
        _scale(axes, log)
        if len(found) > 1:
            legend_below(axes)
        said = listed(f"{name} {_course(table, x, y)}" for name, table in found.items())
        return page.picture(
            _(
                "{value}: {y} over {x}. {said}.",
                value=label(title) or _("Chart"),
                y=_words(y),
                x=_words(x),
                said=said,
            )
        )


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
    return str(COUNTED.get(column, shown(column.replace("_", " "))))


def _course(table: Any, x: str, y: str) -> str:
    values = tables.numbers(table[y])
    good = values[np.isfinite(values) & np.isfinite(tables.numbers(table[x]))]
    if not len(good):
        return _("has no finite value")
    return _(
        "goes from {good} to {good2}",
        good=tables.quantity(good[0]),
        good2=tables.quantity(good[-1]),
    )
