"""Memory peaks, part by part, as bars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.runs.bars import stack
from course_lib.show.style import INK, legend_below, sheet
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
        values = np.array([[bar.get(part, 0.0) / scale for part in parts] for bar in bars.values()])
        stack(axes, list(bars), parts, values, [[*map(tables.quantity, row)] for row in values])
        totals = [tables.quantity(total / scale, unit) for total in sums]
        for row, words in enumerate(totals):
            axes.text(sums[row] / scale, row, f"  {words}", va="center")
        if limit_bytes:
            limit = limit_bytes / scale
            axes.axvline(limit, label=_("limit of the device"), color=INK, lw=2.0, ls=(0, (4, 2)))
        axes.margins(x=0.16)
        legend_below(axes)
        made_of = (f"{part} {_against(bars.values(), part, scale, unit)}" for part in parts)
        return page.picture(
            _(
                "{title}: stacked bars of {totals}. {made_of}",
                title=title,
                totals=", ".join(map(" ".join, zip(bars, totals, strict=True))),
                made_of="; ".join(made_of),
            )
        )


def _against(bars: Iterable[Mapping[str, float]], part: str, scale: float, unit: str) -> str:
    return " against ".join(tables.quantity(bar.get(part, 0.0) / scale, unit) for bar in bars)
