"""A pipeline moment by moment: each stage's micro-batch, its waiting, and what it holds."""

from __future__ import annotations

import pandas as pd

from course_lib.mistakes.errors import ArgumentError
from course_lib.plan.schedules.steps import orders
from course_lib.plan.schedules.timing import Moment, bubble, moments, timed
from course_lib.show.moving.scene import Cell, Scene, Words
from course_lib.show.moving.story import Frame, Story
from course_lib.show.style import CATEGORY, FAINT, INK, QUIET, listed
from course_lib.words import _

TIME_WIDTH = 9.0
MOST_FRAMES = 80


def pipeline(stages: int = 4, micro_batches: int = 4, schedule: str = "gpipe") -> Story:
    """Return a pipeline as a story.

    The `schedule` "naive" sends the whole batch at once; the others cut it into micro-batches.
    """
    whole = schedule == "naive"
    count = 1 if whole else micro_batches
    size = float(micro_batches) if whole else 1.0
    durations = {"forward": size, "backward": 2 * size, "input": size, "weight": size}
    table = timed(orders(schedule, stages, count), durations)
    states = moments(table)
    if len(states) > MOST_FRAMES:
        raise ArgumentError(
            _(
                "{stages} stages × {micro_batches} micro-batches make {states} frames, "
                "but at most {most_frames} fit; use fewer micro-batches",
                stages=stages,
                micro_batches=micro_batches,
                states=len(states),
                most_frames=MOST_FRAMES,
            )
        )
    share = 100 * bubble(table)
    frames = tuple(_frame(table, state, share, last=state is states[-1]) for state in states)
    cut = (
        _("the whole batch at once")
        if whole
        else _("{micro_batches} micro-batches", micro_batches=micro_batches)
    )
    return Story(
        _(
            "Pipeline of {stages} stages, {schedule}, {cut}",
            stages=stages,
            schedule=schedule,
            cut=cut,
        ),
        frames,
    )


def _frame(table: pd.DataFrame, state: Moment, share: float, last: bool) -> Frame:
    waiting = sum(work is None for work in state.busy)
    text = [f"{_work(state)}.".capitalize()]
    if waiting:
        text.append(_("{waiting} of {busy} stages wait.", waiting=waiting, busy=len(state.busy)))
    most = max(state.holds)
    units = "1 micro-batch" if most == 1 else _("{most} micro-batches", most=most)
    text.append(_("The fullest stage holds the activations of {units}.", units=units))
    if last:
        text.append(_("In total, the stages waited {share:.0f} % of the time.", share=share))
    return Frame(_("time {time:g}", time=state.time), " ".join(text), _scene(table, state))


def _work(state: Moment) -> str:
    working = [
        _(
            "stage {stage} does the {work} of micro-batch {work2}",
            stage=stage,
            work=work[0],
            work2=work[1],
        )
        for stage, work in enumerate(state.busy)
        if work
    ]
    return listed(working)


def _scene(table: pd.DataFrame, state: Moment) -> Scene:
    stages = len(state.busy)
    end = float(table["end"].max())
    height = stages * 1.0 + 0.9
    left, scale = 4.9, TIME_WIDTH / end
    things: list[Cell | Words] = [Words(2.5, height - 0.3, _("now"), 10.5, bold=True)]
    for stage, work in enumerate(state.busy):
        y = (stages - stage - 0.5) * 1.0
        name, holds = _("stage {stage}", stage=stage), _("holds {holds}", holds=state.holds[stage])
        things.append(Words(0.05, y, name, 10.5, align="left", bold=True))
        things.append(Words(3.5, y, holds, 9, align="left", paint=QUIET))
        text = f"{work[0]} {work[1]}" if work else _("waits")
        paint = CATEGORY[work[0]] if work else FAINT
        hatch, strong = "" if work else "//", bool(work)
        things.append(Cell(2.5, y, text, paint, 1.7, 0.62, strong=strong, hatch=hatch, size=9.5))
        things.append(Cell(left + TIME_WIDTH / 2, y, "", "#f1f3f4", TIME_WIDTH, 0.62))
    for row in table[table["start"] <= state.time].to_dict("records"):
        y = (stages - int(row["stage"]) - 0.5) * 1.0
        width = (row["end"] - row["start"]) * scale
        x = left + row["start"] * scale + width / 2
        label = str(int(row["micro_batch"])) if width > 0.22 else ""
        now = state.time < row["end"]
        things.append(
            Cell(x, y, label, CATEGORY[str(row["phase"])], width, 0.62, strong=now, size=9)
        )
    x = left + state.time * scale
    things.append(Cell(x, height / 2 - 0.4, "", INK, 0.05, height - 0.7))
    return Scene(tuple(things), left + TIME_WIDTH + 0.2, height)
