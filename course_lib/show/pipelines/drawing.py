"""Pipelines as a row of steps for each stage, the bubble marked."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from course_lib.mistakes.errors import ArgumentError
from course_lib.plan.schedules.steps import Step, orders
from course_lib.plan.schedules.timing import COLUMNS, bubble, timed
from course_lib.show import tables
from course_lib.show.picture import Picture
from course_lib.show.pipelines.measured import measured
from course_lib.show.style import CATEGORY, FAINT, PAPER, QUIET, readable_on, sheet

_LIGHT = {"forward": "#7fb8dc", "backward": "#f4cd7e", "input": "#a9d8f3", "weight": "#7cc4b2"}


def schedule(
    name: str, stages: int = 4, micro_batches: int = 8, backward: float = 2.0, send: float = 0.0
) -> Picture:
    """Draws "naive", "gpipe", "1f1b", "interleaved" or "zero-bubble"; a forward takes 1."""
    durations = {"backward": backward, "input": backward / 2, "weight": backward / 2}
    table = timed(orders(name, stages, micro_batches), durations, send)
    of_one = f"{name} with 1 micro-batch"
    title = of_one if micro_batches == 1 else f"{name} with {micro_batches} micro-batches"
    return pipeline(table, title=title)


def pipeline(source: Any, title: str = "", unit: str = "forward passes") -> Picture:
    """One row a stage. `source`: a table of `COLUMNS`, or each stage's steps, yet to be timed, also
    as pairs: ("forward", 0)."""
    if not isinstance(source, pd.DataFrame):
        source = timed([[_step(one) for one in steps] for steps in source])
    tables.require(source, ["start", "end", "stage", "micro_batch", "phase"], "pipeline")
    table = source.reindex(columns=COLUMNS).fillna({"chunk": 0})
    if table.empty:
        raise ArgumentError("this schedule holds no work to draw")
    table[["start", "end"]] -= table["start"].min()
    share = 100 * bubble(table)
    stages = sorted(table["stage"].unique())
    with sheet(height_in=1.5 + 0.42 * len(stages)) as page:
        axes = page.axes(f"time ({unit})", "", f"{title or 'Pipeline'}: bubble {share:.0f} %")
        end = float(table["end"].max())
        for row, stage in enumerate(stages):
            ground = Rectangle((0, row - 0.4), end, 0.8, fc=FAINT, hatch="///", ec=PAPER, lw=0)
            axes.add_patch(ground)
            _row(axes, table[table["stage"] == stage], row, end)
        axes.set_yticks(range(len(stages)), [f"stage {stage}" for stage in stages])
        axes.set_xlim(0, end)
        axes.set_ylim(len(stages) - 0.45, -0.55)
        axes.grid(False)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        _key(page.figure, table)
        return page.picture(
            f"Chart of a pipeline, {title or 'as given'}: {len(stages)} stages, "
            f"{table['micro_batch'].nunique()} micro-batches, {tables.quantity(end, unit)} long; "
            f"{share:.1f} % of the stages' time is bubble."
        )


def _step(given: Any) -> Step:
    if isinstance(given, Step):
        return given
    phase, micro_batch = given
    return Step(phase, int(micro_batch))


def pipeline_measured(source: Any, step: int | None = None) -> Picture:
    """The schedule as the memory trace or the profiler recorded it, in milliseconds."""
    table = measured(source, step)
    chosen = "" if step is None else f", step {step}"
    return pipeline(table, title=f"Measured pipeline{chosen}", unit="ms")


def _row(axes: Axes, table: pd.DataFrame, row: int, whole: float) -> None:
    for work in table.to_dict("records"):
        paints = _LIGHT if int(work["chunk"]) % 2 else CATEGORY
        paint = paints.get(str(work["phase"]), "#888888")
        start, width = float(work["start"]), float(work["end"] - work["start"])
        box = Rectangle((start, row - 0.4), width, 0.8, fc=paint, ec=PAPER, lw=0.8)
        axes.add_patch(box)
        if width / whole > 0.013:
            axes.text(
                start + width / 2, row, f"{int(work['micro_batch'])}", ha="center", va="center",
                fontsize=9.5 if width / whole > 0.02 else 7.5, color=readable_on(paint),
                clip_on=True,
            )  # fmt: skip


def _key(figure: Any, table: pd.DataFrame) -> None:
    names = {"input": "backward, inputs", "weight": "backward, weights"}
    present = [phase for phase in _LIGHT if (table["phase"] == phase).any()]
    handles = [Patch(fc=CATEGORY[phase], label=names.get(phase, phase)) for phase in present]
    if (table["chunk"] > 0).any():
        handles.append(Patch(fc=_LIGHT["forward"], ec=QUIET, label="paler: second chunk"))
    handles.append(Patch(fc=FAINT, hatch="///", ec=PAPER, label="bubble"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
