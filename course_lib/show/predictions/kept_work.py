"""Which share of the time is kept work, by the time between checkpoints: predicted and measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from course_lib.plan.kept_work import Failures, daly_interval_s, goodput
from course_lib.show.picture import Picture
from course_lib.show.style import SERIES, VERMILION, legend_below, plain_ticks, sheet

POINTS = 60


def goodput_curve(
    nodes: int, failures: Failures, measured: Mapping[float, Sequence[float]] | None = None
) -> Picture:
    """`measured`: seconds between checkpoints -> useful shares (parts of 1) of runs with it."""
    best = daly_interval_s(failures.checkpoint_s, failures.mtbf_s(nodes))
    ends = [best / 12, best * 8, *(measured or {})]
    x = np.geomspace(min(ends), max(ends), POINTS)
    y = [100 * goodput(nodes, failures, float(one)).useful for one in x]
    with sheet(height_in=3.6) as page:
        axes = page.axes("seconds of training between checkpoints", "kept work (%)",
                         "Save too often, or lose too much")  # fmt: skip
        axes.plot(x, y, color=SERIES[0], label="predicted")
        axes.axvline(best, color=VERMILION, linestyle=":", label=f"best by Daly: {best:.1f} s")
        for position, (seconds, shares) in enumerate((measured or {}).items()):
            dots = [100 * share for share in shares]
            axes.plot([seconds] * len(dots), dots, "o", color=SERIES[1],
                      label="measured" if not position else None)  # fmt: skip
        axes.set_xscale("log")
        plain_ticks(axes.xaxis)
        axes.set_ylim(0, 100)
        legend_below(axes)
        top = 100 * goodput(nodes, failures, best).useful
        return page.picture(
            f"Curve of the kept work over the time between checkpoints: at most {top:.0f} % at "
            f"{best:.1f} s."
        )
