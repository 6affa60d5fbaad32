"""Cost of a pipeline schedule: the bubble, and micro-batches whose activations are alive."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.plan.shapes.layout import Layout


def idle_s(layout: Layout, stage_s: Sequence[float]) -> float:
    """Return the seconds for which the busiest stage is idle while the pipeline fills and drains,
    from each stage's seconds per micro-batch (forward and backward). Zero-bubble fills two thirds
    of this time with the weights' half of backward."""
    waiting = (sum(stage_s) - max(stage_s)) / layout.virtual
    return waiting / 3 if layout.schedule == "zero-bubble" else waiting


def sends(layout: Layout) -> int:
    """Return the number of sequential transfers between neighbours, forward and backward: of the
    busiest stage's micro-batches, and of those that fill and drain the pipeline."""
    if layout.pipeline == 1:
        return 0
    return 2 * (layout.micro_batches * layout.virtual + layout.pipeline - 1)


def messages(layout: Layout) -> int:
    """Return the messages that the busiest stage sends and receives in an iteration, or the
    micro-batches without a pipeline."""
    neighbours = min(2, layout.pipeline - 1)
    return (2 * neighbours or 1) * layout.micro_batches * layout.virtual


def alive(layout: Layout, stage: int) -> float:
    """Return the micro-batches whose activations a stage holds at its peak, over all its layers."""
    pipeline, count = layout.pipeline, layout.micro_batches
    if layout.schedule == "gpipe":
        return count
    if layout.schedule == "interleaved":
        chunks = 2 * (pipeline - stage - 1) + (layout.virtual - 1) * pipeline + 1
        return min(count * layout.virtual, chunks) / layout.virtual
    return min(count, pipeline - stage)


def put_off(layout: Layout, stage: int) -> float:
    """Return how many further micro-batches wait only for the weights' half of backward. With
    zero-bubble, all stages hold equally many of both kinds."""
    if layout.schedule != "zero-bubble":
        return 0
    return min(layout.micro_batches, layout.pipeline) - alive(layout, stage)
