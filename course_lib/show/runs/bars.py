"""Times as bars; and what was guessed, computed and measured, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from course_lib.plan.numbers import real
from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.style import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    QUIET,
    VERMILION,
    colour,
    legend_below,
    listed,
    readable_on,
    sheet,
    shorten,
)

_HATCH = {"communication": "//", "exposed_communication": "//", "idle": "..", "data": "xx"}
_STEP_PARTS = (
    *("kernel", "compute", "memcpy", "memset"),
    *("communication", "exposed_communication", "overlapped"),
    *("runtime", "data", "dataloader", "cpu", "other", "idle"),
)


def step_time(*profiles: Any, step: int | None = None) -> Picture:
    """Where the time of a step goes, one bar a rank (mean of the steps, or one step).

    Takes `profile.step_time` (the profiler tab's categories) or `profile.overlap`.
    """
    rows = _step_rows(tables.named(profiles, "step_time"), step)
    parts = [part for part in _STEP_PARTS if f"{part}_us" in rows and rows[f"{part}_us"].any()]
    if "overlapped_us" in rows:  # it is inside both of its neighbours
        parts = [part for part in parts if part not in {"overlapped", "communication"}]
    values = rows[[f"{part}_us" for part in parts]].fillna(0.0).to_numpy(dtype=float)
    divisor, unit = tables.time_scale(float(values.sum(axis=1).max(initial=0.0)))
    with sheet(height_in=1.7 + 0.34 * max(len(rows), 2)) as page:
        axes = page.axes(f"time of a step ({unit})", "", "Where the time of a step goes")
        stack(axes, list(rows.index), parts, values / divisor)
        return page.picture(
            f"Stacked bars of the time of a step for {listed(rows.index)}. "
            + _shares(list(rows.index), parts, values)
        )


def stack(axes: Axes, names: Sequence[str], parts: Sequence[str], values: Any) -> None:
    """Horizontal stacked bars, their larger pieces numbered with their share."""
    left = np.zeros(len(names))
    whole = np.maximum(values.sum(axis=1), 1e-12)
    for position, part in enumerate(parts):
        width = values[:, position]
        paint = colour(part, position)
        axes.barh(
            names, width, left=left, color=paint, hatch=_HATCH.get(part), height=0.72,
            label=part.replace("_", " "),
        )  # fmt: skip
        for row in np.flatnonzero(width / whole.max() > 0.06).tolist():
            share = f"{100 * width[row] / whole[row]:.0f} %"
            box = {"facecolor": paint, "edgecolor": "none", "pad": 1.0}
            axes.text(
                left[row] + width[row] / 2, row, share, ha="center", va="center",
                fontsize=9.5, color=readable_on(paint), bbox=box,
            )  # fmt: skip
        left += width
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlim(left=0)
    legend_below(axes)


def operators(profile: Any, top: int = 12, column: str = "") -> Picture:
    """The operators (or kernels) that take the most time; those on Tensor Cores marked."""
    table = tables.table_of(profile, "operators")
    candidates = ("device_self_us", "total_us", "host_self_us")
    usable = [name for name in candidates if name in table and tables.numbers(table[name]).any()]
    there = [name for name in candidates if name in table]
    column = column or (usable or there or [candidates[-1]])[0]
    tables.require(table, ["name", column], "operators")
    if not usable and not tables.numbers(table[column]).any():
        raise ValueError("this table holds no time (a CPU run has no kernels); use the operators")
    grouped = table.assign(**{column: tables.numbers(table[column])}).groupby("name")[column].sum()
    best = grouped.sort_values(ascending=False).head(top)
    divisor, unit = tables.time_scale(float(best.max()) if len(best) else 0.0)
    marked = _on_tensor_cores(table)
    with sheet(height_in=1.4 + 0.3 * max(len(best), 3)) as page:
        what = column.removesuffix("_us").replace("_", " ")
        axes = page.axes(f"{what} time ({unit})", "", f"The {len(best)} most expensive")
        names = [shorten(name, 44) for name in best.index]
        colours = [GREEN if name in marked else BLUE for name in best.index]
        bars = axes.barh(range(len(best)), best.to_numpy() / divisor, color=colours)
        axes.set_yticks(range(len(best)), names, fontsize=9.5)
        axes.bar_label(bars, [f" {100 * v / grouped.sum():.1f} %" for v in best], fontsize=9.5)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.1)
        if marked & set(best.index):
            axes.text(0.98, 0.03, "green: on Tensor Cores", ha="right", transform=axes.transAxes)
        said = ", ".join(
            f"{name} {tables.quantity(best[name] / divisor, unit)}" for name in best.index
        )
        return page.picture(f"Bars of the most expensive operators: {said}.")


def predicted(
    predicted: Mapping[str, float],
    measured: Mapping[str, float],
    unit: str = "ms",
    what: str = "time",
) -> Picture:
    """Predicted beside measured for several things, with the ratio of the two."""
    names = [name for name in predicted if name in measured]
    if not names:
        raise ValueError(
            f"nothing is both predicted ({listed(predicted)}) and measured ({listed(measured)})"
        )
    first = np.array([float(predicted[name]) for name in names])
    second = np.array([float(measured[name]) for name in names])
    place = np.arange(len(names))
    with sheet(height_in=1.5 + 0.62 * max(len(names), 2)) as page:
        axes = page.axes(f"{what} ({unit})", "", "Predicted and measured")
        axes.barh(place - 0.19, first, 0.36, color=ORANGE, hatch="//", label="predicted")
        axes.barh(place + 0.19, second, 0.36, color=BLUE, label="measured")
        for row in range(len(names)):
            ratio = second[row] / first[row] if first[row] else float("nan")
            tip = max(first[row], second[row])
            axes.text(tip, row, f"  measured = {ratio:.2f} × predicted", va="center", fontsize=9.5)
        axes.set_yticks(place, [shorten(name) for name in names])
        axes.invert_yaxis()
        axes.margins(x=0.32)
        axes.set_xlim(left=0)
        axes.grid(axis="y", visible=False)
        legend_below(axes)
        pairs = zip(names, first, second, strict=True)
        said = [
            f"{n} {tables.quantity(a, unit)} against {tables.quantity(b, unit)}"
            for n, a, b in pairs
        ]
        return page.picture(f"Bars, predicted against measured {what}: {'; '.join(said)}.")


def guess(
    guess: float | None,
    measured: float | Sequence[float],
    prediction: float | None = None,
    unit: str = "",
    what: str = "",
) -> Picture:
    """A reader's guess, the formula's answer and every measurement on one axis. Judges nothing."""
    points = np.atleast_1d(tables.numbers(np.atleast_1d(np.asarray(measured, dtype=float))))
    middle = float(np.median(points)) if len(points) else float("nan")
    said = [f"measured {tables.quantity(middle, unit)} (median of {len(points)})"]
    with sheet(height_in=2.5) as page:
        axes = page.axes(f"{what or 'measured'} ({unit})")
        spread = np.linspace(-0.16, 0.16, len(points)) if len(points) > 1 else np.zeros(1)
        axes.plot(points, spread, "o", color=BLUE, ms=8, mec="white", alpha=0.85)
        rows = [("you measured", 0.0)]
        for name, value, height, sign, paint in (
            ("the formula says", prediction, 1.0, "D", GREEN),
            ("you guessed", guess, 2.0, "s", VERMILION),
        ):
            if (value := real(value)) is not None:
                axes.plot([value], [height], sign, color=paint, ms=11)
                axes.plot([value, value], [-0.5, height], color=paint, lw=1.0, ls=":")
                axes.annotate(
                    tables.quantity(value, unit), (value, height), xytext=(11, 0),
                    textcoords="offset points", va="center",
                )  # fmt: skip
                rows.append((name, height))
                said.insert(0, f"{name.split()[-1]} {tables.quantity(value, unit)}")
        axes.annotate(
            tables.quantity(middle, unit), (points.max(initial=middle), 0), xytext=(11, 0),
            textcoords="offset points", va="center", fontweight="bold", color=INK,
        )  # fmt: skip
        axes.set_yticks([height for _, height in rows], [name for name, _ in rows])
        axes.set_ylim(-0.5, max(height for _, height in rows) + 0.5)
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.18)
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        axes.tick_params(axis="y", length=0, labelcolor=QUIET)
        return page.picture(f"Points on one axis: {'; '.join(said)}.")


def _step_rows(found: Mapping[str, pd.DataFrame], step: int | None) -> pd.DataFrame:
    parts = []
    for name, table in found.items():
        tables.require(table, ["step"], "step_time")
        chosen = table if step is None else table[table["step"] == step]
        key = "rank" if "rank" in chosen and chosen["rank"].notna().any() else "worker"
        key = key if key in chosen else "step"
        mean = chosen.groupby(key).mean(numeric_only=True)
        before = f"{name} " if len(found) > 1 else ""
        mean.index = pd.Index([f"{before}{key} {shorten(value, 20)}" for value in mean.index])
        parts.append(mean)
    rows = pd.concat(parts)
    if rows.empty:
        raise ValueError(f"this profile holds no step{f' {step}' if step is not None else ''}")
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
