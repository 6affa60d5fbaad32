"""Pipeline schedules as data: the steps of a stage, one after the other.

The course's program runs the same steps (`schedules` in `code/`, which imports nothing from here);
a test holds both equal, so that what is drawn is what is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from course_lib.plan.checks import PlanError, multiple_of, one_of, whole_number
from course_lib.words import _


@dataclass(frozen=True)
class Step:
    """`phase` is "forward", "backward", or a half of backward: "input", for whose gradient the
    stage before is waiting, or "weight". `chunk` counts the pieces of the model on this stage."""

    phase: str
    micro_batch: int
    chunk: int = 0


Steps = Iterator[Step]
# The steps of each stage.
Orders = list[list[Step]]


def naive(stages: int, stage: int, micro_batches: int, chunks: int) -> Steps:
    """One micro-batch at a time passes all stages, forward and back, before the next starts."""
    for m in range(micro_batches):
        yield Step("forward", m)
        yield Step("backward", m)


def gpipe(stages: int, stage: int, micro_batches: int, chunks: int) -> Steps:
    """All forward, then all backward, the first micro-batch first: gradients add up in the order
    of every other schedule and of a run without a pipeline, so that their sums round alike. The
    figure of the paper (arXiv 1811.06965) runs backward from the last micro-batch to the first,
    which takes as long and keeps as much: all micro-batches are alive when backward begins."""
    for m in range(micro_batches):
        yield Step("forward", m)
    for m in range(micro_batches):
        yield Step("backward", m)


def one_f_one_b(stages: int, stage: int, micro_batches: int, chunks: int) -> Steps:
    """Fill, then one forward and one backward in turn: at most `stages` micro-batches in memory."""
    filling = min(stages - 1 - stage, micro_batches)
    for m in range(micro_batches + filling):
        if m < micro_batches:
            yield Step("forward", m)
        if m >= filling:
            yield Step("backward", m - filling)


def interleaved(stages: int, stage: int, micro_batches: int, chunks: int) -> Steps:
    """1F1B over `chunks` pieces of the model on every stage: `stages` micro-batches pass a piece,
    then the next piece, until all have been through."""
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
    """1F1B with the backward pass in two: gradients of inputs at once, because the stage before
    waits for them; those of weights `stage` micro-batches later, where it would stand idle."""
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
    """Steps of every stage; `chunks` 0 means two if interleaved, else one."""
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
