"""Timelines of all ranks, drawn from a profile without a browser."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_lib.mistakes.errors import ArgumentError
from course_lib.read.profiler_traces.step_times import PACE
from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.style import (
    CATEGORY,
    HATCHES,
    PAPER,
    SERIES,
    WAITS,
    legend_below,
    readable_on,
    sheet,
    shorten,
)
from course_lib.words import _

MOST_BARS_A_LANE = 1500
NAMED = 8


def timeline(profile: Any, ranks: list[int] | None = None, step: int | None = None) -> Picture:
    """Draw ranges and communication of a profile, one block per rank. Nested ranges lie below."""
    spans = tables.table_of(profile, "spans")
    tables.require(spans, ["rank", "name", "begin_us", "end_us"], "timeline")
    if ranks is not None:
        spans = spans[spans["rank"].isin(ranks)]
    if step is not None:
        tables.require(spans, ["step"], "timeline")
        spans = spans[spans["step"] == step]
    times = {name: tables.numbers(spans[name]) for name in ("begin_us", "end_us")}
    spans = spans.assign(**times, name=spans["name"].replace(PACE, WAITS)).dropna(subset=[*times])
    if spans.empty:
        raise ArgumentError(
            _(
                "this profile has no range to draw{value}",
                value="" if step is None else _(" in step {step}", step=step),
            )
        )
    spans["kind"] = spans["name"].map(_kind)
    spans["lane"] = _lanes(spans)
    zero = float(spans["begin_us"].min())
    divisor, unit = tables.time_scale(float(spans["end_us"].max()) - zero)
    paints = _paints(spans)
    shown = list(spans["rank"].drop_duplicates().sort_values())[:8]
    depth = {rank: int(spans.loc[spans["rank"] == rank, "lane"].max()) + 1 for rank in shown}
    with sheet(height_in=min(1.6 + 0.3 * sum(depth.values()), 8.0)) as page:
        panels = page.panels(len(shown), 1, sharex=True, height_ratios=list(depth.values()))
        for axes, rank in zip(panels, shown, strict=True):
            mine = spans[spans["rank"] == rank]
            _block(axes, mine, paints, zero, divisor)
            axes.set_ylim(depth[rank] - 0.45, -0.55)
            axes.set_yticks([(depth[rank] - 1) / 2], [_("rank {rank}", rank=rank)])
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="y", visible=False)
        panels[-1].set_xlabel(_("time ({unit})", unit=unit))
        panels[0].set_title(
            _("Timeline") if step is None else _("Timeline of recorded step {step}", step=step)
        )
        handles = [
            Patch(fc=paint, ec=PAPER, lw=0, hatch=HATCHES.get(paint), label=shorten(name, 30))
            for name, paint in paints.items()
        ]
        legend_below(panels[0], handles)
        return page.picture(
            _(
                "Timeline, ranks shown: {shown}. {spans}",
                shown=len(shown),
                spans=_alt_text(spans, divisor, unit),
            )
        )


def _kind(name: str) -> str:
    """Remove the number: "forward 3" and "forward 4" are the same kind."""
    return str(name).strip("# ").rstrip("0123456789 #.:") or str(name)


def _lanes(spans: pd.DataFrame) -> pd.Series:
    """Place a range that lies inside another one lane below it; a sleep interrupts its range."""
    lanes = pd.Series(0, index=spans.index)
    for _unused, mine in spans.groupby("rank"):
        ends: list[float] = []
        ordered = mine.assign(minus=-mine["end_us"]).sort_values(["begin_us", "minus"])
        for index, begin, end in zip(
            ordered.index, ordered["begin_us"], ordered["end_us"], strict=True
        ):
            while ends and ends[-1] <= begin:
                ends.pop()
            asleep = bool(ends) and mine["name"][index] == WAITS
            lanes[index] = len(ends) - asleep
            ends.append(end)
    return lanes.clip(upper=7)


def _paints(spans: pd.DataFrame) -> dict[str, str]:
    """Choose colours: fixed colours for phases, then by time taken for the other kinds."""
    took = (spans["end_us"] - spans["begin_us"]).groupby(spans["kind"]).sum()
    names = list(took.sort_values(ascending=False).index[:NAMED])
    known: dict[str, str] = {}
    for name in names:  # if two kinds share a colour, the longer keeps it
        paint = CATEGORY.get(name.split(":")[0].split(" ")[0].lower(), "")
        paint = CATEGORY.get(name, paint)
        known[name] = "" if paint in known.values() else paint
    free = [paint for paint in SERIES if paint not in known.values()] + list(SERIES)
    return {name: known[name] or free.pop(0) for name in names}


def _block(
    axes: Axes, mine: pd.DataFrame, paints: dict[str, str], zero: float, divisor: float
) -> None:
    whole = float(mine["end_us"].max() - mine["begin_us"].min()) or 1.0
    for keys, part in mine.groupby(["lane", "kind"]):
        level, kind = cast("tuple[int, str]", keys)
        longest = part.assign(took=part["end_us"] - part["begin_us"]).nlargest(
            MOST_BARS_A_LANE, "took"
        )
        starts = (longest["begin_us"].to_numpy() - zero) / divisor
        widths = np.maximum(longest["took"].to_numpy(), whole / 3000) / divisor
        paint = paints.get(kind, "#c9ccd1")
        bars = list(zip(starts, widths, strict=True))
        asleep = kind == WAITS
        axes.broken_barh(
            bars, (level - 0.4, 0.8), facecolors=paint, edgecolor="white", linewidth=0.3,
            hatch=HATCHES.get(paint), zorder=2 if asleep else 1,
        )  # fmt: skip
        for start, name, took in zip(starts, longest["name"], longest["took"], strict=True):
            if took / whole > 0.012 * min(len(str(name)), 12) and not asleep:
                text = shorten(name, int(80 * took / whole) + 1)
                axes.text(
                    start + whole / 200 / divisor, level, text, va="center", fontsize=8.5,
                    color=readable_on(paint), clip_on=True,
                    bbox={"facecolor": paint, "edgecolor": "none", "pad": 0},
                )  # fmt: skip


def _alt_text(spans: pd.DataFrame, divisor: float, unit: str) -> str:
    took = (spans["end_us"] - spans["begin_us"]).groupby(spans["kind"]).sum() / divisor
    parts = took.sort_values(ascending=False).head(NAMED).items()
    return "; ".join(f"{name} {tables.quantity(float(time), unit)}" for name, time in parts) + "."
