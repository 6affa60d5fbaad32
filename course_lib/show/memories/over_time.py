"""Memory over time: one rank in detail, ranks side by side, or several runs in one panel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.mistakes.errors import ArgumentError
from course_lib.mistakes.kinds import what_it_is
from course_lib.show import tables
from course_lib.show.picture import Picture, shown
from course_lib.show.style import (
    DASHES,
    HATCHES,
    INK,
    PAPER,
    PHASE_TINT,
    SERIES,
    TINT_EDGE,
    WAITS,
    colour,
    legend_below,
    sheet,
)
from course_lib.words import N_, _

# Points of a curve that are drawn.
POINTS = 1200


def memory(timeline: Any) -> Picture:
    """Draw the memory in use of one rank, by category, over the phases of its steps."""
    line = timeline_of(timeline)
    limit = line.limit_bytes
    with sheet(height_in=4.2) as page:
        axes = page.axes()
        scale, unit = _stack(axes, line)
        _tint(axes, line, named=True)
        named = {text.get_text() for text in axes.texts}
        if _near(line, limit):
            _limit(axes, limit, scale)
        elif limit:
            _far_limit(axes, limit, pad=24)
        _peak(axes, line, scale, unit)
        axes.set_title(_("Memory of {line}", line=whose(line, device=True)), pad=24)
        axes.set_ylim(0, _top(line, limit) / scale)
        legend_below(axes, _phase_key([line], named))
        return page.picture(_("Stacked area chart of memory over time. {line}", line=peak_of(line)))


def memory_ranks(memory: Any, ranks: Sequence[int] | None = None) -> Picture:
    """Draw ranks side by side on one scale, to show uneven use."""
    lines = [line for line in timelines_of(memory) if ranks is None or line.rank in ranks]
    if not lines:
        raise ArgumentError(_("no rank of {ranks} is in this memory trace", ranks=ranks))
    drawn = lines[:8]
    several = len({line.rank for line in lines}) < len(lines)
    columns = min(len(drawn), 4)
    rows = -(-len(drawn) // columns)
    top = max(_top(line, line.limit_bytes) for line in drawn)
    with sheet(height_in=2.6 * rows + 0.9) as page:
        panels = page.panels(rows, columns, sharey=True)
        for place, (axes, line) in enumerate(zip(panels, drawn, strict=False)):
            _compared_run(axes, line, top, whose(line, several), names_limit=place == 0)
            if place % columns:
                axes.set_ylabel("")
        for axes in panels[len(drawn) :]:
            axes.set_visible(False)
        legend_below(panels[0], _phase_key(drawn))
        rest = (
            _(" {lines} more ranks are not drawn.", lines=len(lines) - 8) if len(lines) > 8 else ""
        )
        return page.picture(
            _(
                "Memory over time of several ranks side by side. {value}{rest}",
                value=" ".join(peak_of(line) for line in drawn),
                rest=rest,
            )
        )


def _compared_run(axes: Axes, line: Any, top_bytes: float, name: str, names_limit: bool) -> None:
    scale, _unused = _stack(axes, line, unit_for_bytes=top_bytes)
    _tint(axes, line, named=False)
    if _near(line, line.limit_bytes):
        _limit(axes, line.limit_bytes, scale, named=names_limit)
    own_scale, own_unit = tables.byte_scale(line.peak_bytes)
    axes.set_title(f"{name}: {tables.quantity(line.peak_bytes / own_scale, own_unit)}")
    axes.set_ylim(0, top_bytes / scale)


def memory_compare(runs: Mapping[str, Any], rank: int = 0, by: str = "time") -> Picture:
    """Draw several runs in one panel, each from its own start.

    by="share" stretches all runs to the same width. by="event" gives each allocation and release
    the same width, so that short events are visible.
    """
    tables.one_of(by, X_LABELS, "show.memory_compare", "by")
    lines = {name: timeline_of(source, rank) for name, source in runs.items()}
    scale, unit = tables.byte_scale(max(line.peak_bytes for line in lines.values()))
    longest, time_unit = tables.time_scale(max(span_us(line) for line in lines.values()))
    x_label = X_LABELS[by].format(unit=time_unit)
    with sheet(height_in=3.9) as page:
        y_label = _y_label(next(iter(lines.values())), unit)
        axes = page.axes(x_label, y_label, _("Memory of rank {rank}", rank=rank))
        for position, (name, line) in enumerate(lines.items()):
            look = {"color": SERIES[position % 8], "ls": DASHES[position % len(DASHES)]}
            x, total_bytes = _course(line, by, longest)
            axes.step(x, total_bytes / scale, where="post", label=name, **look)
            axes.axhline(line.peak_bytes / scale, color=look["color"], lw=0.9, ls=":")
        limit = min((line.limit_bytes for line in lines.values() if line.limit_bytes), default=None)
        if any(_near(line, limit) for line in lines.values()):
            _limit(axes, limit, scale)
        elif limit:
            _far_limit(axes, limit)
        axes.set_ylim(bottom=0)
        legend_below(axes)
        return page.picture(
            _(
                "Memory over time of several runs. {value}",
                value=" ".join((f"{name}: {peak_of(line)}" for name, line in lines.items())),
            )
        )


X_LABELS = {
    "time": N_("time ({unit})"),
    "share": N_("share of the recorded memory (%)"),
    "event": N_("allocations and frees, in order"),
}


def _course(line: Any, by: str, longest: float) -> tuple[Any, Any]:
    if by == "event":
        total_bytes = np.asarray(line.bytes_by_category, dtype=float).sum(axis=1)
        return tables.thin(np.arange(len(total_bytes)), total_bytes)
    time_us, by_category = points_of(line)
    divisor = longest if by == "time" else max(span_us(line), 1e-9) / 100
    return (time_us - zero_us(line)) / divisor, by_category.sum(axis=1)


def _stack(axes: Axes, line: Any, unit_for_bytes: float | None = None) -> tuple[float, str]:
    time_us, by_category = points_of(line)
    scale, unit = tables.byte_scale(unit_for_bytes or line.peak_bytes)
    divisor, time_unit = tables.time_scale(span_us(line))
    used = [i for i in range(len(line.categories)) if by_category.size and by_category[:, i].any()]
    paints = [colour(line.categories[i], i) for i in used]
    axes.stackplot(
        (time_us - zero_us(line)) / divisor,
        *[by_category[:, i] / scale for i in used],
        labels=[line.categories[i] for i in used],
        colors=paints, hatch=[HATCHES.get(paint, "") for paint in paints], ec=PAPER,
        step="post", lw=0,
    )  # fmt: skip
    axes.set(xlabel=_("time ({time_unit})", time_unit=time_unit), ylabel=_y_label(line, unit))
    axes.margins(x=0)
    return scale, unit


def _y_label(line: Any, unit: str) -> str:
    """Return the axis label: the category if `only` left a single one, else memory in use."""
    one = len(line.categories) == 1
    return (
        f"{shown(line.categories[0])} ({unit})" if one else _("memory in use ({unit})", unit=unit)
    )


def _limit(axes: Axes, limit: float | None, scale: float, named: bool = True) -> None:
    if limit:
        text = _("limit of the device") if named else None
        axes.axhline(limit / scale, color=INK, lw=2.0, ls=(0, (4, 2)), label=text)


def _far_limit(axes: Axes, limit: float, pad: float = 10) -> None:
    """Write a high limit beside the title. Drawn to scale, it would flatten the curve."""
    scale, unit = tables.byte_scale(limit)
    far = _("limit of the device: {limit}, far above", limit=tables.quantity(limit / scale, unit))
    axes.set_title(far, loc="right", fontsize=10, fontweight="normal", pad=pad)


def _peak(axes: Axes, line: Any, scale: float, unit: str) -> None:
    divisor, _unused = tables.time_scale(span_us(line))
    at, height = (line.peak_time_us - zero_us(line)) / divisor, line.peak_bytes / scale
    axes.plot([at], [height], "v", color=INK, ms=8, zorder=5)
    late = line.peak_time_us - zero_us(line) > 0.6 * span_us(line)
    axes.annotate(
        _("peak {height}", height=tables.quantity(height, unit)),
        (at, height), xytext=(-8 if late else 8, 8), textcoords="offset points",
        ha="right" if late else "left", fontweight="bold",
    )  # fmt: skip


def _top(line: Any, limit: float | None) -> float:
    """Return the top of the axis, with room for the peak's label. Ignore a limit far above it."""
    most = 1.18 * float(line.peak_bytes) or 1.0
    return max(most, 1.06 * limit) if limit and _near(line, limit) else most


def _near(line: Any, limit: float | None) -> bool:
    return bool(limit) and float(limit or 0) < 3 * line.peak_bytes


def _tint(axes: Axes, line: Any, named: bool) -> None:
    """Tint the background of each phase, and write its name above it if it fits."""
    phases = _phases(line)
    if not named:
        phases = _without_inner_messages(phases)
    divisor, _unused = tables.time_scale(span_us(line))
    whole = max(span_us(line), 1e-9)
    free_from = 0.0
    for number, (_index, row) in enumerate(phases.head(200).iterrows(), 1):
        begin, end = float(row["begin_us"]) - zero_us(line), float(row["end_us"]) - zero_us(line)
        paint, hatch = PHASE_TINT.get(str(row["phase"]), ("#f4f4f4", ""))
        look: Any = {"fc": paint, "ec": TINT_EDGE, "hatch": hatch}
        axes.axvspan(begin / divisor, end / divisor, lw=0, zorder=0, **look)
        if not named:
            continue
        begin, end = (edge - zero_us(line) for edge in _largest_part(row, phases[number:]))
        room = 0.016 * len(str(row["phase"])) * whole
        if end - begin > room and (begin + end - room) / 2 >= free_from:
            middle = (begin + end) / 2 / divisor
            free_from = (begin + end + room) / 2
            axes.text(
                middle, 1.0, str(row["phase"]), ha="center", va="bottom", fontsize=9,
                color=INK, transform=axes.get_xaxis_transform(),
            )  # fmt: skip


def _phases(line: Any) -> pd.DataFrame:
    """Return the phases, with the name that other figures give to the sleep of a device slot."""
    if not isinstance(line.phases, pd.DataFrame):
        return pd.DataFrame()
    return line.phases.replace({"phase": {"pace": WAITS}})


def _without_inner_messages(phases: pd.DataFrame) -> pd.DataFrame:
    """Drop messages and sleeps within a pass. Tensor parallelism has too many of them to draw."""
    kept, outer_us = [], 0.0
    for name, end_us in zip(phases["phase"], tables.numbers(phases["end_us"]), strict=True):
        kept.append(name not in ("communication", WAITS) or end_us > outer_us)
        if name in ("forward", "backward"):
            outer_us = max(outer_us, end_us)
    return phases.loc[kept]


def _largest_part(phase: Any, later: pd.DataFrame) -> tuple[float, float]:
    """Return the longest part of a phase that no later phase covers."""
    begin, end = float(phase["begin_us"]), float(phase["end_us"])
    inner = later[(later["begin_us"] >= begin) & (later["end_us"] <= end)].sort_values("begin_us")
    parts = zip([begin, *inner["end_us"]], [*inner["begin_us"], end], strict=True)
    return max(parts, key=lambda part: part[1] - part[0])


def _phase_key(lines: Sequence[Any], named: Iterable[str] = ()) -> list[Patch]:
    """Return legend entries for phases too narrow to hold their names."""
    seen = {name for line in lines if len(line.phases) for name in _visible(line)} - set(named)
    return [
        Patch(
            fc=tint,
            ec=TINT_EDGE,
            hatch=hatch,
            lw=0,
            label=_("phase: {name}", name=shown(name)),
        )
        for name, (tint, hatch) in PHASE_TINT.items()
        if name in seen
    ]


def _visible(line: Any) -> list[str]:
    phases = _phases(line)
    lasted_us = (phases["end_us"] - phases["begin_us"]).groupby(phases["phase"]).sum()
    return [str(name) for name in lasted_us[lasted_us > 0.004 * span_us(line)].index]


def timelines_of(memory: Any) -> list[Any]:
    ranks = getattr(memory, "ranks", None)
    if ranks is None:
        ranks = getattr(getattr(memory, "memory", None), "ranks", None)
    found = list(ranks) if isinstance(ranks, tuple | list) else [memory]
    for line in found:
        if not hasattr(line, "bytes_by_category"):
            raise ArgumentError(
                _(
                    "a memory figure takes the result of read.memory, or one of its ranks; "
                    "it was given {line}",
                    line=what_it_is(line),
                )
            )
    if not found:
        raise ArgumentError(
            _("this memory trace has no rank; check that the job wrote memory/rank0…")
        )
    return found


def timeline_of(source: Any, rank: int | None = None) -> Any:
    lines = timelines_of(source)
    fullest = sorted(lines, key=lambda line: -line.peak_bytes)  # a rank may use several devices
    if rank is None or len({line.rank for line in lines}) == 1:
        return fullest[0]
    wanted = [line for line in fullest if line.rank == rank]
    if not wanted:
        there = ", ".join(str(number) for number in dict.fromkeys(line.rank for line in lines))
        raise ArgumentError(
            _("rank {rank} is not in this memory trace; it has {there}", rank=rank, there=there)
        )
    return wanted[0]


def whose(line: Any, device: bool) -> str:
    """Name the rank of a trace. Snapshots and some traces do not contain it."""
    rank = _("an unknown rank") if line.rank is None else _("rank {rank}", rank=line.rank)
    return f"{rank} · {line.device}" if device and line.device else rank


def points_of(line: Any) -> tuple[Any, Any]:
    time_us, by_category = line.downsample(POINTS)
    return np.asarray(time_us, dtype=float), np.asarray(by_category, dtype=float)


def zero_us(line: Any) -> float:
    return float(line.time_us[0]) if len(line.time_us) else 0.0


def span_us(line: Any) -> float:
    return float(line.time_us[-1] - line.time_us[0]) if len(line.time_us) else 0.0


def peak_of(line: Any) -> str:
    scale, unit = tables.byte_scale(line.peak_bytes)
    divisor, time_unit = tables.time_scale(span_us(line))
    at = tables.quantity((line.peak_time_us - zero_us(line)) / divisor, time_unit)
    made_of = ", ".join(
        f"{name} {tables.quantity(part / scale, unit)}"
        for name, part in line.peak_composition.items()
        if part
    )
    peak = tables.quantity(line.peak_bytes / scale, unit)
    name = whose(line, device=False)
    return _(
        "{upper}{name} peaks at {peak} after {at} ({made_of}).",
        upper=name[:1].upper(),
        name=name[1:],
        peak=peak,
        at=at,
        made_of=made_of,
    )
