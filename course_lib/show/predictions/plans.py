"""Plans as figures: kept work by checkpoint interval, and layouts by time and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from course_lib.mistakes.errors import ArgumentError
from course_lib.plan.kept_work import Failures, daly_interval_s, goodput
from course_lib.show.picture import Picture
from course_lib.show.style import (
    BLUE,
    GREY,
    INK,
    SERIES,
    VERMILION,
    legend_below,
    plain_ticks,
    sheet,
)
from course_lib.words import _

if TYPE_CHECKING:
    import pandas as pd

    from course_lib.plan.layout_search import Found

POINTS = 60
# Limits of the axes, relative to the device's memory and to the shortest time.
MOST_MEMORY, MOST_TIME = 2.0, 3.0


def goodput_curve(
    nodes: int, failures: Failures, measured: Mapping[float, Sequence[float]] | None = None
) -> Picture:
    """Draw the kept work against the interval between checkpoints.

    `measured` maps seconds between checkpoints to the useful fractions (0 to 1) of runs.
    """
    best = daly_interval_s(failures.checkpoint_s, failures.mtbf_s(nodes))
    ends = [best / 12, best * 8, *(measured or {})]
    x = np.geomspace(min(ends), max(ends), POINTS)
    y = [100 * goodput(nodes, failures, float(one)).useful for one in x]
    with sheet(height_in=3.6) as page:
        axes = page.axes(_("seconds of training between checkpoints"), _("kept work (%)"),
                         _("Kept work against the time between checkpoints"))  # fmt: skip
        axes.plot(x, y, color=SERIES[0], label=_("predicted"))
        axes.axvline(
            best, color=VERMILION, linestyle=":", label=_("best by Daly: {best:.1f} s", best=best)
        )
        for position, (seconds, shares) in enumerate((measured or {}).items()):
            dots = [100 * share for share in shares]
            axes.plot([seconds] * len(dots), dots, "o", color=SERIES[1],
                      label=_("measured") if not position else None)  # fmt: skip
        axes.set_xscale("log")
        plain_ticks(axes.xaxis)
        axes.set_ylim(0, 100)
        legend_below(axes)
        top = 100 * goodput(nodes, failures, best).useful
        return page.picture(
            _(
                "Curve of the kept work over the time between checkpoints: at most "
                "{top:.0f} % at {best:.1f} s.",
                top=top,
                best=best,
            )
        )


def layouts(found: Found) -> Picture:
    """Draw each layout as a point. No layout beats one on the frontier in both time and memory."""
    points = found.points()
    if not len(points):
        raise ArgumentError(_("no layout divides the devices; found.refused gives the reasons"))
    capacity_gib = (found.fitting or found.overflowing)[0].capacity_gib
    near = points[points.device_gib <= MOST_MEMORY * capacity_gib]
    near = near[near.iteration_s <= MOST_TIME * points.iteration_s.min()]
    fitting, over = near[near.fits], near[~near.fits]
    frontier = near[near.frontier].sort_values("device_gib")
    with sheet(height_in=4.4) as page:
        axes = page.axes(
            _("memory of the fullest device (GiB)"), _("seconds per iteration"), _("Layouts")
        )
        axes.plot(over.device_gib, over.iteration_s, "x", color=GREY, ms=4, label=_("does not fit"))
        axes.plot(fitting.device_gib, fitting.iteration_s, "o", color=BLUE, ms=4, label=_("fits"))
        axes.plot(
            frontier.device_gib, frontier.iteration_s, "D-", color=VERMILION, ms=6,
            drawstyle="steps-post", label=_("frontier: no layout is both faster and smaller"),
        )  # fmt: skip
        axes.axvline(capacity_gib, color=INK, lw=1.2, ls=":", label=_("the device is full"))
        for row in frontier.tail(1).itertuples():
            memory_gib = float(row.device_gib)
            side = "right" if memory_gib > capacity_gib / 2 else "left"  # away from both lines
            axes.annotate(
                str(row.layout), (memory_gib, float(row.iteration_s)), fontsize=9,
                xytext=(0, -16), textcoords="offset points", ha=side,
            )  # fmt: skip
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        legend_below(axes)
        return page.picture(_alt_text(points, capacity_gib))


def _alt_text(points: pd.DataFrame, capacity_gib: float) -> str:
    fitting = points[points.fits]
    best = fitting.nsmallest(1, "iteration_s")
    ending = (
        _("no layout fits")
        if best.empty
        else _("the fastest layout is {iloc}", iloc=best.layout.iloc[0])
    )
    return _(
        "Scatter chart of {points} layouts, memory against time: {fitting} fit in "
        "{capacity_gib:.0f} GiB, {sum} of them are on the frontier; {ending}.",
        points=len(points),
        fitting=len(fitting),
        capacity_gib=capacity_gib,
        sum=int(points.frontier.sum()),
        ending=ending,
    )
