"""Measured speed of the links between devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from course_lib.mistakes.errors import ArgumentError
from course_lib.show import tables
from course_lib.show.picture import Picture, shown
from course_lib.show.style import (
    FAINT,
    SERIES,
    legend_below,
    plain_ticks,
    readable_on,
    sheet,
    shorten,
)
from course_lib.words import _

HEAT_LABELLED = 16


def link_heat(matrix: pd.DataFrame) -> Picture:
    """Draw the bandwidth of each pair of ranks, with the source down and the destination across."""
    values = matrix.apply(tables.numbers).to_numpy(dtype=float).copy()
    if values.shape[0] == values.shape[1]:
        np.fill_diagonal(values, np.nan)
    finite = values[np.isfinite(values)]
    if not finite.size:
        raise ArgumentError(_("this link matrix has no number; check that measure_links.py ended"))
    with sheet(height_in=5.2, width_in=6.6) as page:
        axes = page.axes(_("destination rank"), _("source rank"), _("Bandwidth between ranks"))
        shade = axes.imshow(values, cmap="cividis_r")
        axes.set_facecolor(FAINT)
        axes.grid(False)
        _label(axes.set_xticks, matrix.columns)
        _label(axes.set_yticks, matrix.index)
        if max(values.shape) <= 12:
            _number_cells(axes, values, shade)
        page.figure.colorbar(shade, ax=axes, label="GB/s", shrink=0.85)
        low, high = (tables.quantity(float(f(finite)), "GB/s") for f in (np.min, np.max))
        return page.picture(
            _(
                "Heat map of {unit} between {shape} ranks: lowest {low}, highest "
                "{high}, with a ratio of {max:.1f}.",
                unit="GB/s",
                shape=values.shape[0],
                low=low,
                high=high,
                max=finite.max() / max(finite.min(), 1e-12),
            )
        )


def _label(set_ticks: Callable[..., Any], ranks: pd.Index) -> None:
    every = max(1, -(-len(ranks) // HEAT_LABELLED))
    set_ticks(range(0, len(ranks), every), [shorten(rank, 8) for rank in ranks[::every]])


def _number_cells(axes: Axes, values: Any, shade: Any) -> None:
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            paint = readable_on(shade.cmap(shade.norm(value))[:3])
            text = tables.quantity(float(value))
            axes.text(column, row, text, ha="center", va="center", color=paint, fontsize=9.5)


def link_curve(links: Any, pairs: Mapping[str, tuple[int, int]]) -> Picture:
    """Draw the time of single transfers against their size, with the fitted line.

    The fitted line is time = α + size / bandwidth. A vertical line leads down to the fastest
    transfer of each size. `pairs` names the pairs to draw.
    """
    samples, fits = links.samples, links.fits
    tables.require(
        samples, ["kind", "source", "destination", "size_bytes", "time_us"], "link_curve"
    )
    single = samples[samples["kind"] == "point_to_point"]
    said = []
    with sheet(height_in=4.0) as page:
        axes = page.axes(_("size of the message"), _("time (µs)"), _("Time = α + size / bandwidth"))
        for position, (name, (source, destination)) in enumerate(pairs.items()):
            mine = single[(single["source"] == source) & (single["destination"] == destination)]
            if mine.empty:
                raise ArgumentError(
                    _(
                        "no measurement from rank {source} to rank {destination}",
                        source=source,
                        destination=destination,
                    )
                )
            paint = SERIES[position % len(SERIES)]
            x, y = tables.numbers(mine["size_bytes"]), tables.numbers(mine["time_us"])
            axes.plot(x, y, "os^Dv"[position % 5], color=paint, ms=5, alpha=0.7)
            if "fastest_us" in mine:  # alpha is fitted to these times
                quickest = tables.numbers(mine["fastest_us"].fillna(mine["time_us"]))
                axes.vlines(x, quickest, y, paint, linewidth=1.0)
            said.append(_fitted(axes, fits, (source, destination), x, name=name, colour=paint))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        plain_ticks(axes.yaxis)
        _size_ticks(axes, tables.numbers(single["size_bytes"]))
        legend_below(axes)
        return page.picture(_("Transfer time against message size. {said}.", said="; ".join(said)))


def _fitted(
    axes: Axes, fits: pd.DataFrame, pair: tuple[int, int], x: Any, *, name: str, colour: str
) -> str:
    row = fits[
        (fits["kind"] == "point_to_point")
        & (fits["source"] == pair[0])
        & (fits["destination"] == pair[1])
    ]
    if row.empty:
        axes.plot([], [], color=colour, label=name)
        return _("{name} has no fitted line", name=name)
    alpha_us, bandwidth_gb_s = float(row["alpha_us"].iloc[0]), float(row["bandwidth_gb_s"].iloc[0])
    sizes = np.geomspace(x.min(), x.max(), 60)
    words = f"α {tables.quantity(alpha_us, 'µs')}, {tables.quantity(bandwidth_gb_s, 'GB/s')}"
    label = f"{shown(name)}: {words}"
    axes.plot(sizes, alpha_us + sizes / (bandwidth_gb_s * 1e3), color=colour, label=label)
    return _("{name} has {words}", name=name, words=words)


def _size_ticks(axes: Axes, sizes: Any) -> None:
    powers = range(int(np.log2(max(sizes.min(), 1))), int(np.log2(sizes.max())) + 1, 2)
    names = []
    for power in powers:
        scale, unit = tables.byte_scale(2.0**power)
        names.append(f"{2**power / scale:.0f} {unit}")
    axes.set_xticks([2.0**power for power in powers], names, fontsize=9)
    axes.minorticks_off()
