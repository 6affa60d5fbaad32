"""Curves of one run or several: loss, throughput, loss scale, diaries, any two columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from course_lib.mistakes.errors import ArgumentError
from course_lib.show import tables
from course_lib.show.picture import Picture, shown
from course_lib.show.style import (
    DASHES,
    INK,
    SERIES,
    VERMILION,
    legend_below,
    listed,
    plain_ticks,
    raised,
    sheet,
)
from course_lib.words import N_, _, label


def loss(*runs: Any, difference: bool = False) -> Picture:
    """Draw the loss of one or more runs over the iterations; `lines` draws it over other columns.

    `difference` adds a panel with each run's difference from the first at common iterations.
    """
    found = tables.named(runs, "iterations")
    said = []
    with sheet(height_in=5.4 if difference else 3.8) as page:
        panels = 2 if difference else 1
        axes, *below = page.panels(panels, 1, sharex=True, height_ratios=[3, 2][:panels])
        axes.set(ylabel=_("loss (nats per token)"), title=_("Training loss"))
        [axes, *below][-1].set_xlabel(_("iteration"))
        said += [_differences(panel, found) for panel in below]
        for position, (name, table) in enumerate(found.items()):
            tables.require(table, ["iteration", "lm_loss"], "loss")
            x, y = (tables.numbers(table[name]) for name in ("iteration", "lm_loss"))
            _line(axes, x, y, name, position)
            _mark_skipped(axes, table, x, SERIES[position % len(SERIES)])
            said.append(course(name, x, y))
        _validation(axes, runs)
        _finish(axes)
        return page.picture(
            _("Line chart of the training loss by iteration. {said}.", said="; ".join(said))
        )


def _differences(axes: Axes, found: dict[str, pd.DataFrame]) -> str:
    """Draw differences from the first run on a logarithmic axis, to show rounding errors."""
    (name, first), *others = found.items()
    if not others:
        raise ArgumentError(_("difference=True compares runs; give two runs or more"))
    said = []
    for position, (other, table) in enumerate(others, start=1):
        both = first.merge(table, on="iteration", suffixes=("", "_other"))
        apart = tables.numbers((both["lm_loss_other"] - both["lm_loss"]).abs())
        drawn = np.where(apart > 0, apart, np.nan)
        _line(axes, tables.numbers(both["iteration"]), drawn, f"|{other} − {name}|", position)
        said.append(
            _(
                "{other} and {name} differ by at most {apart}",
                other=other,
                name=name,
                apart=tables.quantity(np.nanmax(apart)),
            )
        )
    # From the last printed digit of a log to differences too large for rounding.
    axes.set(ylabel=_("difference"), yscale="log", ylim=(1e-7, 1))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0e}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title(_("Difference of the curves (0 is not drawn)"), fontsize=11)
    return ", ".join(said)


def throughput(*runs: Any, unit: str = "samples") -> Picture:
    """Draw the speed of each logged interval; `unit` is "samples" or "ms"."""
    names = {
        "samples": (_("samples per second"), _("Throughput")),
        "ms": (_("ms per iteration"), _("Time per iteration")),
    }
    tables.one_of(unit, names, "show.throughput", "unit")
    y_label, title = names[unit]
    said = []
    with sheet() as page:
        axes = page.axes(_("iteration"), y_label, title)
        for position, (name, table) in enumerate(tables.named(runs, "iterations").items()):
            y = _speed(table, unit)
            x = tables.numbers(table["iteration"])
            _line(axes, x, y, name, position, markers=len(x) <= 60)
            median = float(np.nanmedian(y)) if np.isfinite(y).any() else float("nan")
            said.append(
                _("{name}: median {median}", name=name, median=tables.quantity(median, y_label))
            )
        axes.margins(y=0.08)
        axes.set_ylim(bottom=0)
        _finish(axes)
        return page.picture(
            _(
                "Line chart with a line for each run, {title} by iteration: {said}.",
                title=title,
                said="; ".join(said),
            )
        )


def loss_scale(run: Any) -> Picture:
    """Draw the loss scale over the iterations (powers of two), with skipped iterations marked."""
    ((name, table),) = tables.named([run], "iterations").items()
    tables.require(table, ["iteration", "loss_scale"], "loss_scale")
    x, y = tables.numbers(table["iteration"]), tables.numbers(table["loss_scale"])
    with sheet(height_in=3.2) as page:
        axes = page.axes(_("iteration"), _("loss scale"), _("Loss scale of {name}", name=name))
        axes.step(*tables.thin(x, y), where="post", color=SERIES[0], label=_("loss scale"))
        if np.nanmax(y, initial=0) > 0:
            axes.set_yscale("log", base=2)
            powers = FuncFormatter(lambda value, _place: raised(2, round(np.log2(value))))
            axes.yaxis.set_major_formatter(powers)
        skipped = _mark_skipped(axes, table, x, VERMILION)
        _finish(axes)
        return page.picture(
            _(
                "Step chart of the loss scale: {name}; {skipped} iterations were skipped.",
                name=course(name, x, y),
                skipped=skipped,
            )
        )


def scaling(table: pd.DataFrame, speed: str = "samples_per_second") -> Picture:
    """Draw speed against devices with the ideal line, and the efficiency beside it.

    Columns: `devices`, the speed, and `name` if several curves are compared.
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
        left.set(
            xlabel=_("devices"), ylabel=speed.replace("_", " "), title=_("Speed (dotted: ideal)")
        )
        right.set(xlabel=_("devices"), ylabel=_("efficiency (%)"), title=_("Efficiency"))
        right.margins(y=0.12)
        right.set_ylim(0, max(112.0, right.get_ylim()[1]))
        for axes in (left, right):
            _device_axis(axes, tables.numbers(table["devices"]))
        left.set_yscale("log", base=2)
        plain_ticks(left.yaxis)
        legend_below(left)
        return page.picture(_("Scaling chart. {said}.", said="; ".join(said)))


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
    return _(
        "{name} keeps {percent:.0f} % efficiency from {devices:.0f} to {devices2:.0f} devices",
        name=name,
        percent=percent[-1],
        devices=devices[0],
        devices2=devices[-1],
    )


def _device_axis(axes: Axes, devices: Any) -> None:
    axes.set_xscale("log", base=2)
    ticks = sorted(set(devices))
    axes.set_xticks(ticks, [f"{tick:.0f}" for tick in ticks])
    axes.minorticks_off()


def _speed(table: pd.DataFrame, unit: str) -> np.ndarray[Any, Any]:
    column = {"samples": "samples_per_second", "ms": "elapsed_ms"}
    tables.require(table, ["iteration"], "throughput")
    if column[unit] in table and table[column[unit]].notna().any():
        return tables.numbers(table[column[unit]])
    tables.require(table, ["elapsed_ms", "global_batch_size"], "throughput")
    per_s = tables.numbers(table["global_batch_size"]) * 1000 / tables.numbers(table["elapsed_ms"])
    return np.asarray(per_s)


def _line(
    axes: Axes, x: Any, y: Any, name: str, position: int, *, markers: bool | None = None
) -> None:
    """Draw a curve. Many noisy points become a pale band under their running mean."""
    look: dict[str, Any] = {  # keeps curves distinguishable that lie on top of each other
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
    """Mark log lines that report skipped iterations since the line before; return their count."""
    zero = np.zeros(len(table))
    skipped = tables.numbers(table["skipped_iterations"]) if "skipped_iterations" in table else zero
    nan = tables.numbers(table["nan_iterations"]) if "nan_iterations" in table else zero
    at = x[(np.nan_to_num(skipped) + np.nan_to_num(nan)) > 0]
    if len(at):
        axes.plot(
            at, np.full(len(at), 0.03), "x", color=colour, ms=6, mew=1.8, clip_on=False,
            transform=axes.get_xaxis_transform(), label=_("skipped or NaN"),
        )  # fmt: skip
    return int(np.nansum(skipped))


def _validation(axes: Axes, runs: Any) -> None:
    for position, run in enumerate(runs):
        holder = getattr(run, "log", run)
        table = getattr(holder, "evaluations", None)
        if isinstance(table, pd.DataFrame) and {"iteration", "lm_loss"} <= set(table.columns):
            points = table.dropna(subset=["iteration", "lm_loss"])
            if len(points):
                axes.plot(
                    tables.numbers(points["iteration"]), tables.numbers(points["lm_loss"]), "D",
                    color=SERIES[position % 8], mec=INK, ms=6, label=_("validation"),
                )  # fmt: skip


def course(name: str, x: Any, y: Any) -> str:
    good = np.isfinite(y) & np.isfinite(x)
    if not good.any():
        return _("{name} has no finite value", name=name)
    first, last = y[good][0], y[good][-1]
    begin, end = tables.quantity(first), tables.quantity(last)
    if last == first:
        return _("{name} stays at {end}", name=name, end=end)
    if last < first:
        return _("{name} falls from {begin} to {end}", name=name, begin=begin, end=end)
    return _("{name} rises from {begin} to {end}", name=name, begin=begin, end=end)


def _finish(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    names = axes.get_legend_handles_labels()[1]
    if len(names) > 1:
        legend_below(axes)
    elif names and names[0] != "run 1" and names[0] not in axes.get_title(loc="left"):
        axes.set_title(f"{axes.get_title(loc='left')} · {names[0]}")


LOGS = ("", "x", "y", "xy")
# Names that are units themselves: `12 samples`.
COUNTED = {
    "samples": N_("number of samples"),
    "tokens": N_("number of tokens"),
    "steps": N_("number of steps"),
}


def lines(
    *sources: Any, x: str, y: str, title: str = "", log: str = "", points: Sequence[str] = (),
    level: float | None = None,
) -> Picture:  # fmt: skip
    """Draw column `y` against column `x`, one line per table.

    Tables named in `points` are drawn as points. `log` names the logarithmic axes ("x", "y" or
    "xy"). `level` draws a horizontal line.
    """
    found = tables.named(sources, "iterations")
    tables.one_of(log, LOGS, "show.lines", "log")
    of_points = {label(name) for name in points}
    with sheet() as page:
        axes = page.axes(_words(x), _words(y), title)
        for position, (name, table) in enumerate(found.items()):
            tables.require(table, [x, y], "lines")
            _draw_column(axes, table[x], table[y], name, position, is_line=name not in of_points)
        if level is not None:
            axes.axhline(level, color=INK, lw=1.2, ls=":")
        _scale(axes, log)
        if len(found) > 1:
            legend_below(axes)
        said = listed(
            course(name, tables.numbers(table[x]), tables.numbers(table[y]))
            for name, table in found.items()
        )
        return page.picture(
            _(
                "{value}: {y} over {x}. {said}.",
                value=label(title) or _("Chart"),
                y=_words(y),
                x=_words(x),
                said=said,
            )
        )


def _draw_column(axes: Axes, x: Any, y: Any, name: str, position: int, *, is_line: bool) -> None:
    look: dict[str, Any] = {"marker": "osD^vPX*"[position % 8], "ls": "", "ms": 8}
    if is_line:
        few = len(x) <= 20
        look = {"ls": DASHES[position % len(DASHES)], "marker": look["marker"] if few else ""}
    axes.plot(*tables.thin(x, y), label=name, color=SERIES[position % len(SERIES)], **look)


def _scale(axes: Axes, log: str) -> None:
    for letter, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        if letter in log:
            axes.set(**{f"{letter}scale": "log"})
            plain_ticks(axis)
        else:
            axis.set_major_locator(MaxNLocator(8, integer=letter == "x"))


def _words(column: str) -> str:
    return str(COUNTED.get(column, shown(column.replace("_", " "))))


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
    y_label, title = TITLES[column]
    said = []
    with sheet(height_in=3.4) as page:
        axes = page.axes(_("iteration"), y_label, title)
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
