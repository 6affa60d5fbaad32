"""Diaries of the ranks: one line per rank over the steps, so that a deviating rank is visible."""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.style import DASHES, SERIES, legend_below, sheet
from course_lib.words import N_, _

TITLES = {
    "own_ms": (N_("own time of a step (ms)"), N_("Time of each rank between its messages")),
    "step_ms": (N_("time of a step (ms)"), N_("Time of a step on each rank")),
    "memory_mib": (N_("memory (MiB)"), N_("Memory of each rank")),
    "loss": (N_("loss of its own tokens (nats)"), N_("Loss of each rank before the sum")),
    "grad_norm": (N_("norm of the gradient"), N_("Norm of the summed gradient")),
}


def diary(of: Any, column: str = "own_ms") -> Picture:
    """Draw one column of a run's diary, or of `run.diary`, with one line per rank."""
    tables.one_of(column, TITLES, "show.diary", "column")
    found = getattr(of, "diary", of)
    beside = found.beside(column)
    label, title = TITLES[column]
    said = []
    with sheet(height_in=3.4) as page:
        axes = page.axes(_("iteration"), label, title)
        for position, rank in enumerate(beside.columns):
            y = tables.numbers(beside[rank])
            x = np.asarray(beside.index, dtype=float)
            line = DASHES[position % len(DASHES)]
            axes.plot(x, y, color=SERIES[position % len(SERIES)], linestyle=line, marker=".",
                      label=_("rank {rank}", rank=rank))  # fmt: skip
            last = y[np.isfinite(y)]
            said.append(
                _(
                    "rank {rank} ends at {value}",
                    rank=rank,
                    value=tables.quantity(last[-1]) if len(last) else "nan",
                )
            )
        axes.margins(y=0.1)
        if column.endswith("ms"):
            axes.set_ylim(bottom=0)
        legend_below(axes)
        return page.picture(
            _(
                "Line chart with a line for each rank, {title}: {said}.",
                title=title,
                said="; ".join(said),
            )
        )
