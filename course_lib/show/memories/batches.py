"""Memory and speed as the micro-batch grows, up to the memory limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.style import BLUE, DASHES, INK, SERIES, VERMILION, legend_below, sheet
from course_lib.words import _

COLUMNS = ("micro_batch", "peak_mib", "samples_per_second")


def batches(
    table: pd.DataFrame,
    limit_mib: float | None = None,
    lines: Mapping[str, tuple[float, float]] | None = None,
) -> Picture:
    """Draw peak memory and speed against the micro-batch; a failed run has no peak (NaN).

    `lines` maps a name to (MiB at batch 0, MiB per sample). Each line is drawn through the points.
    """
    tables.require(table, COLUMNS, "batches")
    micro_batch, peak_mib, speed = (tables.numbers(table[name]) for name in COLUMNS)
    broke = np.isnan(peak_mib)
    lines = lines or {}
    with sheet(height_in=4.2) as page:
        left, right = page.panels(1, 2, width_ratios=[3, 2])
        _memory(left, micro_batch, peak_mib, limit_mib, lines)
        _throughput(right, micro_batch[~broke], speed[~broke])
        right.set_xlim(left.get_xlim())
        for axes in (left, right):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        legend_below(left)
        said = [
            _("micro-batch {b:g}: ran out of memory", b=b)
            if gone
            else _(
                "micro-batch {b:g}: {m}, {s} samples/s",
                b=b,
                m=tables.quantity(m, "MiB"),
                s=tables.quantity(s),
            )
            for b, m, s, gone in zip(micro_batch, peak_mib, speed, broke, strict=True)
        ]
        ends = [f"{name} {_end(line, limit_mib)}" for name, line in lines.items()]
        return page.picture(
            _(
                "Peak memory and throughput against the micro-batch. {value}.",
                value="; ".join([*said, *ends]),
            )
        )


def _throughput(axes: Axes, micro_batch: np.ndarray[Any, Any], speed: np.ndarray[Any, Any]) -> None:
    axes.plot(micro_batch, speed, "o-", color=BLUE, ms=7)
    axes.set(xlabel=_("micro-batch"), ylabel=_("samples per second"), title=_("Throughput"))
    axes.set_ylim(0, 1.15 * np.nanmax(speed, initial=0.0) or 1.0)


def _memory(
    axes: Axes,
    micro_batch: np.ndarray[Any, Any],
    peak_mib: np.ndarray[Any, Any],
    limit_mib: float | None,
    lines: Mapping[str, tuple[float, float]],
) -> None:
    broke = np.isnan(peak_mib)
    axes.plot(
        micro_batch[~broke], peak_mib[~broke], "o", color=BLUE, ms=8, label=_("measured peak")
    )
    right = 1.1 * micro_batch.max(initial=1)
    for position, (name, (fixed, per_sample)) in enumerate(lines.items()):
        look = {"color": SERIES[1 + position % 7], "ls": DASHES[position % len(DASHES)]}
        axes.plot([0, right], [fixed, fixed + per_sample * right], label=name, lw=1.6, **look)
    if limit_mib:
        axes.axhline(limit_mib, color=INK, lw=2.0, ls=(0, (4, 2)), label=_("memory of the device"))
    if broke.any():
        height = limit_mib or np.nanmax(peak_mib, initial=1)
        axes.plot(
            micro_batch[broke], np.full(broke.sum(), height), "X", color=VERMILION, mec=INK, ms=11,
            label=_("ran out of memory"), ls="none",
        )  # fmt: skip
    axes.set(xlabel=_("micro-batch"), ylabel=_("peak memory (MiB)"), title=_("Memory of a device"))
    axes.set_xlim(0, right)
    top = max([*peak_mib[~broke], limit_mib or 0, 1])
    axes.set_ylim(0, 1.3 * top)


def _end(line: tuple[float, float], limit_mib: float | None) -> str:
    fixed, per_sample = line
    text = _(
        "is {fixed} plus {per_sample} a sample",
        fixed=tables.quantity(fixed, "MiB"),
        per_sample=tables.quantity(per_sample, "MiB"),
    )
    if limit_mib and per_sample > 0:
        text += _(
            " and reaches the limit at {limit_mib:.1f}", limit_mib=(limit_mib - fixed) / per_sample
        )
    return text
