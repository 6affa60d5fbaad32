"""Pipelines as one row of steps per stage, with the bubble marked: planned or measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from course_lib.mistakes.errors import ArgumentError
from course_lib.plan.schedules.steps import Step, orders
from course_lib.plan.schedules.timing import COLUMNS, bubble, timed
from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.style import CATEGORY, FAINT, PAPER, QUIET, WAITS, readable_on, sheet
from course_lib.words import N_, _

_LIGHT = {"forward": "#7fb8dc", "backward": "#ffe8bd", "input": "#a9d8f3", "weight": "#d8c3b4"}


def schedule(name: str, stages: int = 4, micro_batches: int = 8) -> Picture:
    """Draw the schedule "naive", "gpipe", "1f1b", "interleaved" or "zero-bubble".

    A backward pass takes twice as long as a forward pass. Messages take no time.
    """
    table = timed(orders(name, stages, micro_batches))
    title = _("{name} with {micro_batches} micro-batches", name=name, micro_batches=micro_batches)
    of_one = _("{name} with 1 micro-batch", name=name)
    return pipeline(table, title=of_one if micro_batches == 1 else title)


def pipeline(source: Any, title: str = "", unit: str = N_("forward passes")) -> Picture:
    """Draw one row per stage.

    `source` is a table of `COLUMNS`, or a list of steps per stage, which are then timed. A step
    may be a pair: ("forward", 0).
    """
    if not isinstance(source, pd.DataFrame):
        source = timed([[_step(one) for one in steps] for steps in source])
    tables.require(source, ["start", "end", "stage", "micro_batch", "phase"], "pipeline")
    table = source.reindex(columns=[*COLUMNS, "slept"]).fillna({"chunk": 0, "slept": 0})
    if table.empty:
        raise ArgumentError(_("this schedule has no work to draw"))
    table[["start", "end"]] -= table["start"].min()
    share = 100 * bubble(table)
    stages = sorted(table["stage"].unique())
    with sheet(height_in=1.5 + 0.42 * len(stages)) as page:
        axes = page.axes(
            _("time ({unit})", unit=unit),
            "",
            _("{value}: bubble {share:.0f} %", value=title or "Pipeline", share=share),
        )
        end = float(table["end"].max())
        for row, stage in enumerate(stages):
            ground = Rectangle((0, row - 0.4), end, 0.8, fc=FAINT, hatch="///", ec=PAPER, lw=0)
            axes.add_patch(ground)
            _row(axes, table[table["stage"] == stage], row, end)
        axes.set_yticks(range(len(stages)), [_("stage {stage}", stage=stage) for stage in stages])
        axes.set_xlim(0, end)
        axes.set_ylim(len(stages) - 0.45, -0.55)
        axes.grid(False)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        _key(page.figure, table)
        return page.picture(
            _(
                "Chart of a pipeline, {value}: {stages} stages, {nunique} micro-batches, {end} "
                "long. The bubble takes {share:.1f} % of the stages' time.",
                value=title or _("as given"),
                stages=len(stages),
                nunique=table["micro_batch"].nunique(),
                end=tables.quantity(end, unit),
                share=share,
            )
        )


def _step(given: Any) -> Step:
    if isinstance(given, Step):
        return given
    phase, micro_batch = given
    return Step(phase, int(micro_batch))


def pipeline_measured(source: Any, step: int | None = None) -> Picture:
    """Draw the schedule that the memory trace recorded, in milliseconds."""
    table = measured(source, step)
    chosen = "" if step is None else _(", step {step}", step=step)
    return pipeline(table, title=_("Measured pipeline{chosen}", chosen=chosen), unit="ms")


def _row(axes: Axes, table: pd.DataFrame, row: int, whole: float) -> None:
    for work in table.to_dict("records"):
        paints = _LIGHT if int(work["chunk"]) % 2 else CATEGORY
        paint = paints.get(str(work["phase"]), "#888888")
        start, width = float(work["start"]), float(work["end"] - work["start"])
        box = Rectangle((start, row - 0.4), width, 0.8, fc=paint, ec=PAPER, lw=0.8)
        axes.add_patch(box)
        if work["slept"] > 0:  # at the end of the pass
            rest = start + width - work["slept"], row - 0.4
            axes.add_patch(
                Rectangle(rest, work["slept"], 0.8, fill=False, hatch="...", ec=PAPER, lw=0)
            )
        if width / whole > 0.013:
            axes.text(
                start + width / 2, row, f"{int(work['micro_batch'])}", ha="center", va="center",
                fontsize=9.5 if width / whole > 0.02 else 7.5, color=readable_on(paint),
                clip_on=True,
            )  # fmt: skip


def _key(figure: Any, table: pd.DataFrame) -> None:
    names = {"input": _("backward, inputs"), "weight": _("backward, weights")}
    present = [phase for phase in _LIGHT if (table["phase"] == phase).any()]
    handles = [Patch(fc=CATEGORY[phase], label=names.get(phase, phase)) for phase in present]
    if (table["chunk"] > 0).any():
        handles.append(Patch(fc=_LIGHT["forward"], ec=QUIET, label=_("paler: second chunk")))
    if (table["slept"] > 0).any():
        handles.append(Patch(fc=QUIET, hatch="...", ec=PAPER, label=_(WAITS)))
    handles.append(Patch(fc=FAINT, hatch="///", ec=PAPER, label=_("bubble")))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def measured(source: Any, step: int | None = None) -> pd.DataFrame:
    """Return the table for `pipeline` from a result of read.memory."""
    rows = _phases(source).dropna(subset=["micro_batch"])
    rows = rows[rows["phase"].isin(list(CATEGORY))]
    if step is None and rows["step"].notna().any():
        step = int(rows["step"].dropna().iloc[-1])
    if step is not None:
        rows = rows[rows["step"] == step]
    if rows.empty:
        raise ArgumentError(
            _(
                "the run recorded no forward or backward of a micro-batch{value}; use "
                "memory=True in the recipe",
                value=_(" in step {step}", step=step) if step is not None else "",
            )
        )
    return rows.reindex(columns=[*COLUMNS, "slept"]).reset_index(drop=True)


def _phases(source: Any) -> pd.DataFrame:
    """Return the phases of all ranks. The headers of memory traces align the ranks' clocks."""
    parts = []
    ranks = [line for line in getattr(source, "ranks", ()) if hasattr(line, "phases")]
    first_ns = min((int(line.start_unix_ns or 0) for line in ranks), default=0)
    for line in ranks:
        shift_us = (int(line.start_unix_ns or 0) - first_ns) / 1000
        phases = line.phases
        sleeps = phases[phases["phase"] == "pace"]
        parts.append(
            pd.DataFrame(
                {
                    "start": (tables.numbers(phases["begin_us"]) + shift_us) / 1000,
                    "end": (tables.numbers(phases["end_us"]) + shift_us) / 1000,
                    "stage": line.rank,
                    "micro_batch": tables.numbers(phases["micro_batch"]),
                    "chunk": tables.numbers(phases["chunk"]) if "chunk" in phases else np.nan,
                    "phase": phases["phase"].astype(str),
                    "step": tables.numbers(phases["step"]),
                    "slept": [
                        (inside["end_us"] - inside["begin_us"]).sum() / 1000
                        for begin, end in zip(phases["begin_us"], phases["end_us"], strict=True)
                        for inside in [sleeps[sleeps["begin_us"].between(begin, end)]]
                    ],
                }
            )
        )
    if not parts:
        return pd.DataFrame(columns=[*COLUMNS, "step"])
    return pd.concat(parts, ignore_index=True)
