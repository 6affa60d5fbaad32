"""What each rank wrote down, step by step: one line for each rank, and the odd one stands out."""

from __future__ import annotations

from typing import Any

import numpy as np

from course_lib.mistakes.errors import ArgumentError
from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.style import DASHES, SERIES, legend_below, sheet

TITLES = {
    "own_ms": ("own time of a step (ms)", "What each rank does between its messages"),
    "step_ms": ("time of a step (ms)", "Steps as each rank sees them"),
    "memory_mib": ("memory (MiB)", "What each rank holds"),
    "loss": ("loss of its own tokens (nats)", "Loss of each rank before anything is summed"),
    "grad_norm": ("norm of the gradient", "Norm of the summed gradient"),
}


def diary(of: Any, column: str = "own_ms") -> Picture:
    """One column of a run's diary, or of `run.diary`: a line for each rank."""
    if column not in TITLES:
        raise ArgumentError(f"show.diary has no column {column!r}; use {', '.join(TITLES)}")
    found = getattr(of, "diary", of)
    beside = found.beside(column)
    label, title = TITLES[column]
    said = []
    with sheet(height_in=3.4) as page:
        axes = page.axes("iteration", label, title)
        for position, rank in enumerate(beside.columns):
            y = tables.numbers(beside[rank])
            x = np.asarray(beside.index, dtype=float)
            line = DASHES[position % len(DASHES)]
            axes.plot(x, y, color=SERIES[position % len(SERIES)], linestyle=line, marker=".",
                      label=f"rank {rank}")  # fmt: skip
            last = y[np.isfinite(y)]
            said.append(f"rank {rank} ends at {tables.quantity(last[-1]) if len(last) else 'nan'}")
        axes.margins(y=0.1)
        if column.endswith("ms"):
            axes.set_ylim(bottom=0)
        legend_below(axes)
        return page.picture(f"Line chart with a line for each rank, {title}: {'; '.join(said)}.")
