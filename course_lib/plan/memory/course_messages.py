"""Messages that a pipeline stage of the course's program still holds at its peak.

A stage keeps an activation that it sent until its gradient returns. It keeps a sent gradient for
each stage, because none is acknowledged. The buffer of the next message exists before it arrives.
These counts depend on the schedule alone, so its steps are simulated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from course_lib.plan.memory.course_sizes import StageSizes
from course_lib.plan.schedules.steps import SCHEDULES, Step


@dataclass(frozen=True)
class Held:
    """Numbers of micro-batch pieces that wait for backward, of pieces that wait for the weights'
    half of backward, and of messages by kind."""

    pieces: int
    deferred: int
    inputs: int
    sent: int
    returned: int
    expected: int

    @property
    def size(self) -> tuple[int, int]:
        """Return a sort key: a piece's activations are much larger than messages."""
        return self.pieces + self.deferred, self.sent + self.returned + self.expected


@dataclass(frozen=True)
class _Place:
    """Position of a stage in its pipeline: tells which steps send or receive."""

    stages: int
    stage: int
    chunks: int

    def first(self, step: Step) -> bool:
        return self.stage == 0 and step.chunk == 0

    def last(self, step: Step) -> bool:
        return self.stage == self.stages - 1 and step.chunk == self.chunks - 1

    def receives(self, step: Step) -> bool:
        if step.phase == "weight":
            return False
        return not (self.first(step) if step.phase == "forward" else self.last(step))


def held_activations(sizes: StageSizes) -> Held:
    layout = sizes.layout
    return at_peak(
        layout.schedule, layout.pipeline, sizes.stage, layout.micro_batches, layout.virtual
    )


def messages(sizes: StageSizes, held: Held) -> tuple[float, float]:
    """Return bytes of activations and of temporary memory. Inputs stay in the receive buffers, so
    they count as temporary; if the kept activations include them, they are subtracted there."""
    boxes = held.inputs + held.returned + held.expected
    among = sizes.norms_keep_inputs or sizes.layout.recompute == "full"
    return (held.sent - among * held.inputs) * sizes.row, boxes * sizes.row


@lru_cache(maxsize=4096)
def at_peak(schedule: str, stages: int, stage: int, micro_batches: int, chunks: int) -> Held:
    """Return the counts at the backward pass with the most memory; on the last stage, at one that
    starts with the loss."""
    place = _Place(stages, stage, chunks)
    steps = list(SCHEDULES[schedule](stages, stage, micro_batches, chunks))
    found = list(_backward_passes(steps, place))
    at_loss = [held for step, held in found if place.last(step)]
    return max(at_loss or [held for _, held in found], key=lambda held: held.size)


def _backward_passes(steps: list[Step], place: _Place) -> Iterator[tuple[Step, Held]]:
    to_come = sum(map(place.receives, steps))
    pieces = deferred = inputs = sent = returned = 0
    for step in steps:
        to_come -= place.receives(step)
        received, sends = not place.first(step), not place.last(step)
        if step.phase == "forward":
            pieces, inputs, sent = pieces + 1, inputs + received, sent + sends
        elif step.phase == "weight":
            deferred -= 1
        else:
            yield step, Held(pieces, deferred, inputs, sent, returned, min(to_come, 1))
            pieces, inputs, sent = pieces - 1, inputs - received, sent - sends
            returned = min(returned + received, place.stages)
            deferred += step.phase == "input"
