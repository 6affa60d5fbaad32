"""Bars: the parts of a step's time, the operators that take it, and speed-ups of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from course_lib.mistakes.errors import ArgumentError
from course_lib.read.profiler_traces.step_times import PACE
from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.style import (
    BLUE,
    GREEN,
    HATCHES,
    ORANGE,
    PURPLE,
    SKY,
    WAITS,
    colour,
    legend_below,
    listed,
    readable_on,
    sheet,
    shorten,
)
from course_lib.words import _

_STEP_PARTS = (
    *("kernel", "compute", WAITS, "memcpy", "memset"),
    *("communication", "exposed_communication", "overlapped"),
    *("runtime", "data", "dataloader", "cpu", "other", "idle"),
)


def step_time(*profiles: Any) -> Picture:
    """Draw the parts of a step's time, one bar per rank: the mean of the recorded steps.

    Takes `profile.step_time` (the profiler tab's categories) or `profile.overlap`.
    """
    rows = _step_rows(tables.named(profiles, "step_time"))
    if "pace_us" in rows:  # a part of compute
        rows["compute_us"] -= rows["pace_us"]
        rows[f"{WAITS}_us"] = rows["pace_us"]
    parts = [part for part in _STEP_PARTS if f"{part}_us" in rows and rows[f"{part}_us"].any()]
    if "overlapped_us" in rows:  # overlapped time is already in computation and communication
        parts = [part for part in parts if part not in {"overlapped", "communication"}]
    values = rows[[f"{part}_us" for part in parts]].fillna(0.0).to_numpy(dtype=float)
    divisor, unit = tables.time_scale(float(values.sum(axis=1).max(initial=0.0)))
    with sheet(height_in=1.7 + 0.34 * max(len(rows), 2)) as page:
        axes = page.axes(
            _("time of a step ({unit})", unit=unit), "", _("Where the time of a step goes")
        )
        shares = 100 * values / np.maximum(values.sum(axis=1, keepdims=True), 1e-12)
        words = [[f"{share:.0f} %" for share in row] for row in shares]
        stack(axes, list(rows.index), parts, values / divisor, words)
        axes.set_xlim(left=0)
        legend_below(axes)
        return page.picture(
            _(
                "Stacked bars of the time of a step for {index}. {index2}",
                index=listed(rows.index),
                index2=_shares(list(rows.index), parts, values),
            )
        )


def stack(
    axes: Axes, names: Sequence[str], parts: Sequence[str], values: Any,
    words: Sequence[Sequence[str]],
) -> None:  # fmt: skip
    """Draw horizontal stacked bars. Larger parts show their words."""
    left = np.zeros(len(names))
    most = max(float(values.sum(axis=1).max(initial=0.0)), 1e-12)
    for position, part in enumerate(parts):
        width = values[:, position]
        paint = colour(part, position)
        axes.barh(
            names, width, left=left, color=paint, hatch=HATCHES.get(paint), height=0.72,
            label=part.replace("_", " "),
        )  # fmt: skip
        for row in np.flatnonzero(width / most > 0.06).tolist():
            box = {"facecolor": paint, "edgecolor": "none", "pad": 1.0}
            axes.text(
                left[row] + width[row] / 2, row, words[row][position], ha="center", va="center",
                fontsize=9.5, color=readable_on(paint), bbox=box,
            )  # fmt: skip
        left += width
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)


def operators(profile: Any, top: int = 12) -> Picture:
    """Draw the operators (or kernels) that take the most time; mark those on Tensor Cores."""
    table = tables.table_of(profile, "operators")
    column = _column_of_time(table)
    grouped = table.assign(**{column: tables.numbers(table[column])}).groupby("name")[column].sum()
    best = grouped.sort_values(ascending=False).head(top)
    divisor, unit = tables.time_scale(float(best.max()) if len(best) else 0.0)
    marked = _on_tensor_cores(table)
    with sheet(height_in=1.4 + 0.3 * max(len(best), 3)) as page:
        what = column.removesuffix("_us").replace("_", " ")
        axes = page.axes(
            _("{what} time ({unit})", what=what, unit=unit),
            "",
            _("The {best} most expensive operations", best=len(best)),
        )
        names = [shorten(name, 44, end=22) for name in best.index]
        colours = [GREEN if name in marked else BLUE for name in best.index]
        hatches = [HATCHES.get(paint) for paint in colours]
        bars = axes.barh(range(len(best)), best.to_numpy() / divisor, color=colours, hatch=hatches)
        for row in np.flatnonzero(best.index == PACE):
            bars[row].set(facecolor=SKY, hatch=HATCHES[SKY])
            names[row] = f"{_(WAITS)} ({PACE})"
        axes.set_yticks(range(len(best)), names, fontsize=9.5)
        axes.bar_label(bars, [f" {100 * v / grouped.sum():.1f} %" for v in best], fontsize=9.5)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.1)
        if marked & set(best.index):
            axes.text(
                0.98, 0.03, _("dotted: on Tensor Cores"), ha="right", transform=axes.transAxes
            )
        said = ", ".join(
            f"{name} {tables.quantity(best[name] / divisor, unit)}" for name in best.index
        )
        return page.picture(_("Bars of the most expensive operators: {said}.", said=said))


def _column_of_time(table: pd.DataFrame) -> str:
    """Return the first column that contains any time."""
    candidates = ("device_self_us", "total_us", "host_self_us")
    there = [name for name in candidates if name in table]
    usable = [name for name in there if tables.numbers(table[name]).any()]
    column = (usable or there or [candidates[-1]])[0]
    tables.require(table, ["name", column], "operators")
    if not usable and not tables.numbers(table[column]).any():
        raise ArgumentError(
            _("this table has no times, because a CPU run has no kernels; use the operators")
        )
    return column


def _step_rows(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    parts = []
    for name, table in found.items():
        tables.require(table, ["step"], "step_time")
        key = "rank" if "rank" in table and table["rank"].notna().any() else "worker"
        key = key if key in table else "step"
        mean = table.groupby(key).mean(numeric_only=True)
        before = f"{name}, " if len(found) > 1 else ""
        mean.index = pd.Index([f"{before}{key} {shorten(value, 20)}" for value in mean.index])
        parts.append(mean)
    rows = pd.concat(parts)
    if rows.empty:
        raise ArgumentError(_("this profile has no step"))
    return rows.head(32)


def _shares(names: Sequence[str], parts: Sequence[str], values: Any) -> str:
    said = []
    for name, row in list(zip(names, values, strict=True))[:8]:
        whole = max(row.sum(), 1e-12)
        shares = [f"{part} {100 * x / whole:.0f} %" for part, x in zip(parts, row, strict=True)]
        said.append(f"{name}: {', '.join(shares)}")
    return "; ".join(said) + "."


def _on_tensor_cores(table: pd.DataFrame) -> set[str]:
    if "tensor_core" in table:
        flag = table["tensor_core"].fillna(False).astype(bool)
    elif "tensor_core_us" in table:
        flag = pd.Series(tables.numbers(table["tensor_core_us"]) > 0, index=table.index)
    else:
        return set()
    return set(table.loc[flag, "name"].astype(str))


LOOKS: list[Any] = [
    {"color": paint, "hatch": HATCHES.get(paint)} for paint in (BLUE, ORANGE, GREEN, PURPLE)
]


def gains(table: pd.DataFrame, unit: str = "samples/s") -> Picture:
    """Draw the speed after each change (row) on each machine (column).

    Speeds are in `unit`; a missing value was not measured. A bar's length is the speed divided by
    the machine's first speed.
    """
    if not (isinstance(table, pd.DataFrame) and len(table) and 0 < len(table.columns) <= 4):
        raise ArgumentError(
            _(
                "show.gains needs a table with one row per change and one to four "
                "columns, one per machine"
            )
        )
    columns = {str(name): tables.numbers(table[name]) for name in table.columns}
    rows = [str(name) for name in table.index]
    with sheet(height_in=1.4 + 0.5 * max(len(rows), 2)) as page:
        axes = page.axes(_("speed relative to the first version"), "", _("Speed after each change"))
        said = [
            f"{name}: {_bars(axes, rows, values, (place, len(columns)), name, unit)}"
            for place, (name, values) in enumerate(columns.items())
        ]
        axes.set_yticks(range(len(rows)), [shorten(name) for name in rows])
        axes.margins(x=0.2)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.grid(axis="y", visible=False)
        legend_below(axes)
        return page.picture(_("Bars of the speed after each change. {said}.", said="; ".join(said)))


def _bars(
    axes: Axes, rows: list[str], values: Any, place: tuple[int, int], name: str, unit: str
) -> str:
    """Draw the speed-ups of one machine, each with its speed; return them as text."""
    number, of = place
    there = np.flatnonzero(np.isfinite(values) & (values > 0))
    height = 0.8 / of
    times = values[there] / values[there[0]] if len(there) else values[there]
    middles = there + height * (number - (of - 1) / 2)
    axes.barh(middles, times, 0.92 * height, label=name, **LOOKS[number])
    for middle, factor, speed in zip(middles, times, values[there], strict=True):
        text = f" {tables.quantity(speed, unit)}"
        axes.text(factor, middle, text, va="center", fontsize=9.5)
    return listed(
        _("{rows} {factor:.2f} times", rows=rows[row], factor=factor)
        for row, factor in zip(there, times, strict=True)
    )
