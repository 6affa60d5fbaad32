"""Pipeline schedules as data: the sequence of steps of each stage.

The course's program runs the same steps (`schedules` in `code/`, which imports nothing from here).
A test compares both, so that the schedule in a figure is the one that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from course_lib.plan.checks import PlanError, multiple_of, one_of, whole_number
from course_lib.words import _


@dataclass(frozen=True)
class Step:
    """Step of a stage. `phase` is "forward", "backward", or half of backward: "input", whose
    gradient the previous stage needs, or "weight". `chunk` is the index of a model piece on the
    stage."""

    phase: str
    micro_batch: int
    chunk: int = 0


Steps = Iterator[Step]
# Steps of each stage.
Orders = list[list[Step]]


def naive(stages: int, stage: int, micro_batches: int, chunks: int) -> Steps:
    """Pass one micro-batch at a time through all stages, forward and back."""
    for m in range(micro_batches):
        yield Step("forward", m)
        yield Step("backward", m)


def gpipe(stages: int, stage: int, micro_batches: int, chunks: int) -> Steps:
    """Run all forward passes, then all backward passes, both from the first micro-batch on.
    Gradients then add up with the same rounding as in every schedule and without a pipeline. The
    paper (arXiv 1811.06965) runs backward from the last micro-batch to the first, with the same
    time and memory: all micro-batches are alive when backward begins."""
    for m in range(micro_batches):
        yield Step("forward", m)
    for m in range(micro_batches):
        yield Step("backward", m)


def one_f_one_b(stages: int, stage: int, micro_batches: int, chunks: int) -> Steps:
    """Fill the pipeline, then alternate: at most `stages` micro-batches are in memory."""
    filling = min(stages - 1 - stage, micro_batches)
    for m in range(micro_batches + filling):
        if m < micro_batches:
            yield Step("forward", m)
        if m >= filling:
            yield Step("backward", m - filling)


def interleaved(stages: int, stage: int, micro_batches: int, chunks: int) -> Steps:
    """Run 1F1B over `chunks` model pieces per stage: `stages` micro-batches pass one piece, then
    the next piece, until all micro-batches have passed."""
    turns = [
        (first + m, chunk)
        for first in range(0, micro_batches, stages)
        for chunk in range(chunks)
        for m in range(stages)
    ]
    filling = min(2 * (stages - 1 - stage) + (chunks - 1) * stages, len(turns))
    for number in range(len(turns) + filling):
        if number < len(turns):
            yield Step("forward", *turns[number])
        if number >= filling:
            micro_batch, chunk = turns[number - filling]
            yield Step("backward", micro_batch, chunks - 1 - chunk)


def zero_bubble(stages: int, stage: int, micro_batches: int, chunks: int) -> Steps:
    """Run 1F1B with a split backward: input gradients at once, because the previous stage waits for
    them; weight gradients `stage` micro-batches later, when the stage would be idle."""
    for step in one_f_one_b(stages, stage, micro_batches, chunks):
        if step.phase == "forward":
            yield step
            continue
        yield Step("input", step.micro_batch)
        if step.micro_batch >= stage:
            yield Step("weight", step.micro_batch - stage)
    for m in range(max(0, micro_batches - stage), micro_batches):
        yield Step("weight", m)


SCHEDULES: dict[str, Callable[[int, int, int, int], Steps]] = {
    "naive": naive,
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "interleaved": interleaved,
    "zero-bubble": zero_bubble,
}


def orders(name: str, stages: int, micro_batches: int, chunks: int = 0) -> Orders:
    """Return the steps of every stage; `chunks` 0 means two if interleaved, else one."""
    one_of("schedule", name, SCHEDULES)
    stages = whole_number("stages", stages)
    micro_batches = whole_number("micro_batches", micro_batches)
    chunks = whole_number("chunks", chunks, least=0) or (2 if name == "interleaved" else 1)
    if name == "interleaved":
        text = _("stages {stages}, as the interleaved schedule needs", stages=stages)
        multiple_of(_("number of micro-batches"), micro_batches, text, stages)
    elif chunks > 1:
        raise PlanError(
            _(
                'schedule "{name}" has one chunk on a stage, not {chunks}; use "interleaved"',
                name=name,
                chunks=chunks,
            )
        )
    return [list(SCHEDULES[name](stages, s, micro_batches, chunks)) for s in range(stages)]
