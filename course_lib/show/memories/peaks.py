"""Memory peaks, part by part, as bars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.style import HATCHES, INK, colour, legend_below, readable_on, sheet
from course_lib.words import _


def memory_parts(
    predicted: Mapping[str, float],
    measured: Mapping[str, float],
    limit_bytes: float | None = None,
) -> Picture:
    """Draw the parts of the peak in bytes, predicted beside measured."""
    return memory_kinds({"predicted": predicted, "measured": measured}, limit_bytes)


def memory_kinds(
    bars: Mapping[str, Mapping[str, float]],
    limit_bytes: float | None = None,
    at_peak: bool = True,
) -> Picture:
    """Draw the peaks of several runs, one bar per run; `bars` maps a name to bytes by part.

    With at_peak=False, the title says that the parts stay in memory for the whole run.
    """
    sums = [sum(parts.values()) for parts in bars.values()]
    scale, unit = tables.byte_scale(max(sums))
    parts = list(dict.fromkeys(part for bar in bars.values() for part in bar))
    with sheet(height_in=1.6 + 0.7 * len(bars)) as page:
        title = _("Memory at the peak") if at_peak else _("Memory that stays for the whole run")
        axes = page.axes(_("memory ({unit})", unit=unit), "", title)
        left = np.zeros(len(bars))
        for position, part in enumerate(parts):
            width = np.array([bar.get(part, 0.0) for bar in bars.values()]) / scale
            paint = colour(part, position)
            look: Any = {"color": paint, "hatch": HATCHES.get(paint)}
            drawn = axes.barh(list(bars), width, left=left, label=part, **look)
            _number_bars(axes, drawn, width, left, sums[0] / scale)
            left += width
        for row, total in enumerate(left):
            axes.text(total, row, f"  {tables.quantity(total, unit)}", va="center")
        if limit_bytes:
            limit = limit_bytes / scale
            axes.axvline(limit, label=_("limit of the device"), color=INK, lw=2.0, ls=(0, (4, 2)))
        axes.invert_yaxis()
        axes.margins(x=0.16)
        axes.grid(axis="y", visible=False)
        legend_below(axes)
        totals = [f"{n} {tables.quantity(v, unit)}" for n, v in zip(bars, left, strict=True)]
        made_of = (f"{part} {_against(bars.values(), part, scale, unit)}" for part in parts)
        return page.picture(
            _(
                "{title}: stacked bars of {totals}. {made_of}",
                title=title,
                totals=", ".join(totals),
                made_of="; ".join(made_of),
            )
        )


def _against(bars: Iterable[Mapping[str, float]], part: str, scale: float, unit: str) -> str:
    return " against ".join(tables.quantity(bar.get(part, 0.0) / scale, unit) for bar in bars)


def _number_bars(axes: Axes, bars: Any, width: Any, left: Any, whole: float) -> None:
    for row, bar in enumerate(bars):
        if width[row] > 0.07 * whole:
            paint = bar.get_facecolor()
            axes.text(
                left[row] + width[row] / 2, row, tables.quantity(width[row]), ha="center",
                va="center", fontsize=9.5, color=readable_on(paint),
                bbox={"facecolor": paint, "edgecolor": "none", "pad": 1.0},
            )  # fmt: skip
