"""Cost of a pipeline schedule: the bubble, and micro-batches whose activations are alive."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.plan.shapes.layout import Layout


def idle_s(layout: Layout, stage_s: Sequence[float]) -> float:
    """Seconds in which the busiest stage waits, from the seconds that each stage takes for one
    micro-batch (forward and backward): filling and draining pass through all others. The weights'
    half of the backward pass fills two thirds of that where it can wait (zero-bubble)."""
    waiting = (sum(stage_s) - max(stage_s)) / layout.virtual
    return waiting / 3 if layout.schedule == "zero-bubble" else waiting


def sends(layout: Layout) -> int:
    """Transfers between neighbours on the longest way: out and back for each micro-batch that the
    busiest stage handles, and for those that fill and drain."""
    if layout.pipeline == 1:
        return 0
    return 2 * (layout.micro_batches * layout.virtual + layout.pipeline - 1)


def alive(layout: Layout, stage: int) -> float:
    """Micro-batches whose activations a stage holds at its peak (of all its layers together)."""
    pipeline, count = layout.pipeline, layout.micro_batches
    if layout.schedule == "gpipe":
        return count
    if layout.schedule == "interleaved":
        chunks = 2 * (pipeline - stage - 1) + (layout.virtual - 1) * pipeline + 1
        return min(count * layout.virtual, chunks) / layout.virtual
    return min(count, pipeline - stage)


def put_off(layout: Layout, stage: int) -> float:
    """Micro-batches more, of which only the weights' half of the backward pass is left to do: in
    zero-bubble every stage keeps as many as the first one, of one kind or the other."""
    if layout.schedule != "zero-bubble":
        return 0
    return min(layout.micro_batches, layout.pipeline) - alive(layout, stage)
