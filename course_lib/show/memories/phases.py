"""Phases of a step in a figure of its memory: forward, backward, communication."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.show import tables
from course_lib.show.memories.traces import span_us, zero_us
from course_lib.show.style import INK, PHASE_TINT, TINT_EDGE
from course_lib.words import _


def tint(axes: Axes, line: Any, named: bool) -> None:
    """Tint the background of each phase, and write its name above it if it fits."""
    phases = line.phases if isinstance(line.phases, pd.DataFrame) else pd.DataFrame()
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


def _without_inner_messages(phases: pd.DataFrame) -> pd.DataFrame:
    """Drop messages and sleeps within a pass. Tensor parallelism has too many of them to draw."""
    kept, outer_us = [], 0.0
    for name, end_us in zip(phases["phase"], tables.numbers(phases["end_us"]), strict=True):
        kept.append(name not in ("communication", "pace") or end_us > outer_us)
        if name in ("forward", "backward"):
            outer_us = max(outer_us, end_us)
    return phases.loc[kept]


def _largest_part(phase: Any, later: pd.DataFrame) -> tuple[float, float]:
    """Return the longest part of a phase that no later phase covers."""
    begin, end = float(phase["begin_us"]), float(phase["end_us"])
    inner = later[(later["begin_us"] >= begin) & (later["end_us"] <= end)].sort_values("begin_us")
    parts = zip([begin, *inner["end_us"]], [*inner["begin_us"], end], strict=True)
    return max(parts, key=lambda part: part[1] - part[0])


def key(lines: Sequence[Any], named: Iterable[str] = ()) -> list[Patch]:
    """Return legend entries for phases too narrow to hold their names."""
    seen = {name for line in lines if len(line.phases) for name in _visible(line)} - set(named)
    return [
        Patch(fc=tint, ec=TINT_EDGE, hatch=hatch, lw=0, label=_("phase: {name}", name=name))
        for name, (tint, hatch) in PHASE_TINT.items()
        if name in seen
    ]


def _visible(line: Any) -> list[str]:
    lasted_us = (
        (line.phases["end_us"] - line.phases["begin_us"]).groupby(line.phases["phase"]).sum()
    )
    return [str(name) for name in lasted_us[lasted_us > 0.004 * span_us(line)].index]
