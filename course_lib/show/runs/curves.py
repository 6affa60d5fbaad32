"""What happens over the iterations of one run or several: loss, throughput, loss scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from course_lib.mistakes.errors import ArgumentError
from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.style import DASHES, INK, SERIES, VERMILION, legend_below, plain_ticks, sheet

X_AXES = {
    "iteration": "iteration",
    "samples": "samples seen",
    "tokens": "tokens seen",
    "time": "time in iterations (s)",
}


def loss(*runs: Any, by: str = "iteration", log: bool = False, difference: bool = False) -> Picture:
    """Loss of one run or several; `by` is "iteration", "samples", "tokens" or "time".
    `difference` adds a panel: how far each run is from the first, where both have a line."""
    found = tables.named(runs, "iterations")
    said = []
    with sheet(height_in=5.4 if difference else 3.8) as page:
        panels = 2 if difference else 1
        axes, *below = page.panels(panels, 1, sharex=True, height_ratios=[3, 2][:panels])
        axes.set(ylabel="loss (nats per token)", title="Training loss")
        [axes, *below][-1].set_xlabel(_x_label(by))
        said += [_differences(panel, found, by) for panel in below]
        for position, (name, table) in enumerate(found.items()):
            tables.require(table, ["iteration", "lm_loss"], "loss")
            x, y = _x(table, by), tables.numbers(table["lm_loss"])
            _line(axes, x, y, name, position)
            _mark_skipped(axes, table, x, SERIES[position % len(SERIES)])
            said.append(_course(name, x, y))
        _validation(axes, runs, by)
        if log:
            axes.set_yscale("log")
            plain_ticks(axes.yaxis)
        _finish(axes)
        return page.picture(f"Line chart of the training loss by {by}. {'; '.join(said)}.")


def _differences(axes: Axes, found: dict[str, pd.DataFrame], by: str) -> str:
    """From the first run, on a logarithmic axis: rounding is many decades below the loss."""
    (name, first), *others = found.items()
    if not others:
        raise ArgumentError("difference=True compares runs: give two or more")
    said = []
    for position, (other, table) in enumerate(others, start=1):
        both = first.merge(table, on="iteration", suffixes=("", "_other"))
        apart = tables.numbers((both["lm_loss_other"] - both["lm_loss"]).abs())
        shown = np.where(apart > 0, apart, np.nan)
        _line(axes, _x(both, by), shown, f"|{other} − {name}|", position)
        said.append(f"{other} and {name} differ by at most {tables.quantity(np.nanmax(apart))}")
    # From the last digit of a log to what nobody would call rounding.
    axes.set(ylabel="difference", yscale="log", ylim=(1e-7, 1))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title("How far the curves are apart (0 is not drawn)", fontsize=11)
    return ", ".join(said)


def throughput(*runs: Any, unit: str = "samples") -> Picture:
    """Speed of every logged interval; `unit` is "samples", "tflops" or "ms"."""
    names = {
        "samples": ("samples per second", "Throughput"),
        "tflops": ("TFLOP/s per device", "Achieved arithmetic"),
        "ms": ("ms per iteration", "Time per iteration"),
    }
    if unit not in names:
        raise ArgumentError(f"show.throughput has no unit {unit!r}; use one of {', '.join(names)}")
    y_label, title = names[unit]
    said = []
    with sheet() as page:
        axes = page.axes("iteration", y_label, title)
        for position, (name, table) in enumerate(tables.named(runs, "iterations").items()):
            y = _speed(table, unit)
            x = tables.numbers(table["iteration"])
            _line(axes, x, y, name, position, markers=len(x) <= 60)
            median = float(np.nanmedian(y)) if np.isfinite(y).any() else float("nan")
            said.append(f"{name}: median {tables.quantity(median, y_label)}")
        axes.margins(y=0.08)
        axes.set_ylim(bottom=0)
        _finish(axes)
        return page.picture(
            f"Line chart with a line for each run, {title} by iteration: {'; '.join(said)}."
        )


def loss_scale(run: Any) -> Picture:
    """Loss scale over the iterations (powers of two), with the iterations that were skipped."""
    ((name, table),) = tables.named([run], "iterations").items()
    tables.require(table, ["iteration", "loss_scale"], "loss_scale")
    x, y = tables.numbers(table["iteration"]), tables.numbers(table["loss_scale"])
    with sheet(height_in=3.2) as page:
        axes = page.axes("iteration", "loss scale", f"Loss scale of {name}")
        axes.step(*tables.thin(x, y), where="post", color=SERIES[0], label="loss scale")
        if np.nanmax(y, initial=0) > 0:
            axes.set_yscale("log", base=2)
            plain_ticks(axes.yaxis)
        skipped = _mark_skipped(axes, table, x, VERMILION)
        _finish(axes)
        return page.picture(
            f"Step chart of the loss scale: {_course(name, x, y)}; "
            f"{skipped} iterations were skipped."
        )


def scaling(table: pd.DataFrame, speed: str = "samples_per_second") -> Picture:
    """Speed against devices, with the ideal line, and the efficiency beside it.

    Columns: `devices`, the speed, and `name` where several curves are compared.
    """
    tables.require(table, ["devices", speed], "scaling")
    groups = {"measured": table}
    if "name" in table:
        groups = {str(name): part for name, part in table.groupby("name", sort=False)}
    said = []
    with sheet(height_in=3.9) as page:
        left, right = page.panels(1, 2, width_ratios=[3, 2])
        for position, (name, part) in enumerate(groups.items()):
            said.append(_efficiency(left, right, part, speed, name, position))
        left.set(xlabel="devices", ylabel=speed.replace("_", " "), title="Speed (dotted: ideal)")
        right.set(xlabel="devices", ylabel="efficiency (%)", title="Efficiency")
        right.margins(y=0.12)
        right.set_ylim(0, max(112.0, right.get_ylim()[1]))
        for axes in (left, right):
            _device_axis(axes, tables.numbers(table["devices"]))
        left.set_yscale("log", base=2)
        plain_ticks(left.yaxis)
        legend_below(left)
        return page.picture(f"Scaling chart. {'; '.join(said)}.")


def _efficiency(
    left: Axes, right: Axes, part: pd.DataFrame, speed: str, name: str, position: int
) -> str:
    ordered = part.sort_values("devices")
    devices, values = tables.numbers(ordered["devices"]), tables.numbers(ordered[speed])
    ideal = values[0] * devices / devices[0]
    percent = 100 * values / ideal
    look: dict[str, Any] = {"color": SERIES[position % 8], "marker": "osD^vPX*"[position % 8]}
    left.plot(devices, ideal, color=INK, lw=1.2, ls=":")
    left.plot(devices, values, label=name, **look)
    right.plot(devices, percent, **look)
    return (
        f"{name} keeps {percent[-1]:.0f} % efficiency from {devices[0]:.0f} "
        f"to {devices[-1]:.0f} devices"
    )


def _device_axis(axes: Axes, devices: Any) -> None:
    axes.set_xscale("log", base=2)
    ticks = sorted(set(devices))
    axes.set_xticks(ticks, [f"{tick:.0f}" for tick in ticks])
    axes.minorticks_off()


def _x_label(by: str) -> str:
    if by not in X_AXES:
        raise ArgumentError(f"no axis {by!r}; use one of {', '.join(X_AXES)}")
    return X_AXES[by]


def _x(table: pd.DataFrame, by: str) -> np.ndarray[Any, Any]:
    """A log line gives the mean time of the iterations since the line before."""
    columns = {"samples": "consumed_samples", "tokens": "consumed_tokens", "time": "elapsed_ms"}
    column = columns.get(by, "iteration")
    tables.require(table, [column], "loss")
    if by != "time":
        return tables.numbers(table[column])
    iterations = np.diff(tables.numbers(table["iteration"]), prepend=0).clip(min=0)
    return np.nancumsum(tables.numbers(table["elapsed_ms"]) / 1000 * iterations)


def _speed(table: pd.DataFrame, unit: str) -> np.ndarray[Any, Any]:
    column = {"samples": "samples_per_second", "tflops": "tflops_per_device", "ms": "elapsed_ms"}
    tables.require(table, ["iteration"], "throughput")
    if column[unit] in table and table[column[unit]].notna().any():
        return tables.numbers(table[column[unit]])
    tables.require(table, ["elapsed_ms", "global_batch_size"], "throughput")
    if unit == "tflops":
        raise ArgumentError("this log prints no TFLOPs; use unit='samples' or unit='ms'")
    per_s = tables.numbers(table["global_batch_size"]) * 1000 / tables.numbers(table["elapsed_ms"])
    return np.asarray(per_s)


def _line(
    axes: Axes, x: Any, y: Any, name: str, position: int, *, markers: bool | None = None
) -> None:
    """Many noisy points become a pale band under their running mean."""
    look: dict[str, Any] = {  # so that curves on top of each other are both seen
        "color": SERIES[position % len(SERIES)], "ls": DASHES[position % len(DASHES)],
        "fillstyle": "none" if position % 2 else "full",
    }  # fmt: skip
    if len(y) > 300:
        axes.plot(*tables.thin(x, y), color=look["color"], lw=0.8, alpha=0.3)
        y = pd.Series(y).rolling(max(len(y) // 60, 5), min_periods=1, center=True).mean()
    show_points = len(y) <= 40 if markers is None else markers
    marker = "osD^vPX*"[position % 8] if show_points else ""
    axes.plot(*tables.thin(x, y), label=name, marker=marker, ms=5, **look)


def _mark_skipped(axes: Axes, table: pd.DataFrame, x: Any, colour: str) -> int:
    """The log counts what was skipped since the line before."""
    zero = np.zeros(len(table))
    skipped = tables.numbers(table["skipped_iterations"]) if "skipped_iterations" in table else zero
    nan = tables.numbers(table["nan_iterations"]) if "nan_iterations" in table else zero
    at = x[(np.nan_to_num(skipped) + np.nan_to_num(nan)) > 0]
    if len(at):
        axes.plot(
            at, np.full(len(at), 0.03), "x", color=colour, ms=6, mew=1.8, clip_on=False,
            transform=axes.get_xaxis_transform(), label="skipped or NaN",
        )  # fmt: skip
    return int(np.nansum(skipped))


def _validation(axes: Axes, runs: Any, by: str) -> None:
    if by != "iteration":
        return
    for position, run in enumerate(runs):
        holder = getattr(run, "log", run)
        table = getattr(holder, "evaluations", None)
        if isinstance(table, pd.DataFrame) and {"iteration", "lm_loss"} <= set(table.columns):
            points = table.dropna(subset=["iteration", "lm_loss"])
            if len(points):
                axes.plot(
                    tables.numbers(points["iteration"]), tables.numbers(points["lm_loss"]), "D",
                    color=SERIES[position % 8], mec=INK, ms=6, label="validation",
                )  # fmt: skip


def _course(name: str, x: Any, y: Any) -> str:
    good = np.isfinite(y) & np.isfinite(x)
    if not good.any():
        return f"{name} has no finite value"
    first, last = y[good][0], y[good][-1]
    begin, end = tables.quantity(first), tables.quantity(last)
    if last == first:
        return f"{name} stays at {end}"
    if last < first:
        return f"{name} falls from {begin} to {end}"
    return f"{name} rises from {begin} to {end}"


def _finish(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    names = axes.get_legend_handles_labels()[1]
    if len(names) > 1:
        legend_below(axes)
    elif names and names[0] != "run 1" and names[0] not in axes.get_title(loc="left"):
        axes.set_title(f"{axes.get_title(loc='left')} · {names[0]}")
