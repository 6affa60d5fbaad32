"""What a search for layouts found: memory against time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib.mistakes.errors import ArgumentError
from course_lib.show.style import BLUE, GREY, INK, VERMILION, legend_below, sheet

if TYPE_CHECKING:
    import pandas as pd

    from course_lib.plan.layout_search import Found
    from course_lib.show.picture import Picture

# What is drawn: memory up to twice that of the device, time up to three times the fastest.
MOST_MEMORY, MOST_TIME = 2.0, 3.0


def layouts(found: Found) -> Picture:
    """Every layout as a point; on the frontier none is both faster and smaller."""
    points = found.points()
    if not len(points):
        raise ArgumentError("the search found no layout that divides; found.refused says why")
    capacity_gib = (found.fitting or found.overflowing)[0].capacity_gib
    near = points[points.device_gib <= MOST_MEMORY * capacity_gib]
    near = near[near.iteration_s <= MOST_TIME * points.iteration_s.min()]
    fitting, over = near[near.fits], near[~near.fits]
    frontier = near[near.frontier].sort_values("device_gib")
    with sheet(height_in=4.4) as page:
        axes = page.axes("memory of the fullest device (GiB)", "seconds per iteration", "Layouts")
        axes.plot(over.device_gib, over.iteration_s, "x", color=GREY, ms=4, label="does not fit")
        axes.plot(fitting.device_gib, fitting.iteration_s, "o", color=BLUE, ms=4, label="fits")
        axes.plot(
            frontier.device_gib, frontier.iteration_s, "D-", color=VERMILION, ms=6,
            drawstyle="steps-post", label="frontier: none is both faster and smaller",
        )  # fmt: skip
        axes.axvline(capacity_gib, color=INK, lw=1.2, ls=":", label="the device is full")
        for row in frontier.tail(1).itertuples():
            memory_gib = float(row.device_gib)
            side = "right" if memory_gib > capacity_gib / 2 else "left"  # clear of both lines
            axes.annotate(
                str(row.layout), (memory_gib, float(row.iteration_s)), fontsize=9,
                xytext=(0, -16), textcoords="offset points", ha=side,
            )  # fmt: skip
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        legend_below(axes)
        return page.picture(_said(points, capacity_gib))


def _said(points: pd.DataFrame, capacity_gib: float) -> str:
    fitting = points[points.fits]
    best = fitting.nsmallest(1, "iteration_s")
    ending = "none of them fits" if best.empty else f"the fastest is {best.layout.iloc[0]}"
    return (
        f"Scatter chart of {len(points)} layouts, memory against time: {len(fitting)} fit in "
        f"{capacity_gib:.0f} GiB, {int(points.frontier.sum())} of them are on the frontier; "
        f"{ending}."
    )
