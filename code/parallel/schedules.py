"""Pipeline schedules: the order of a stage's work, as data that can be printed and tested.

A schedule is a generator of instructions for one rank, without processes or tensors. The planner
has the same steps, computes when each begins, and draws them; a test compares the two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """Work on one micro-batch with one chunk of the rank's layers."""

    micro_batch: int
    chunk: int = 0

    letter, phase, half = "", "", ""  # half: of a split backward


@dataclass(frozen=True)
class Forward(Step):
    letter, phase = "F", "forward"


@dataclass(frozen=True)
class Backward(Step):
    """Both halves of backward."""

    letter, phase = "B", "backward"


@dataclass(frozen=True)
class BackwardInput(Step):
    """Input half of backward: the gradient of the input, for which the previous stage waits."""

    letter, phase, half = "I", "backward", " inputs"


@dataclass(frozen=True)
class BackwardWeight(Step):
    """Weight half of backward: the gradients of the weights, which can wait."""

    letter, phase, half = "W", "backward", " weights"


def gpipe(stages: int, rank: int, micro_batches: int, chunks: int = 1) -> Iterator[Step]:
    """Run all forward, then all backward: every micro-batch's activations are kept at once."""
    yield from (Forward(m) for m in range(micro_batches))
    yield from (Backward(m) for m in range(micro_batches))


def one_forward_one_backward(
    stages: int, rank: int, micro_batches: int, chunks: int = 1
) -> Iterator[Step]:
    """Alternate one forward and one backward, as soon as the first backward can run.

    The bubble is as long as GPipe's, but a stage keeps at most `stages - rank` micro-batches."""
    # Micro-batch 0 has to pass all later stages and return before its backward can run here.
    # Meanwhile there is time for one forward for each of those stages.
    ahead = min(stages - rank - 1, micro_batches)
    yield from (Forward(m) for m in range(ahead))
    for m in range(micro_batches - ahead):
        yield Forward(m + ahead)
        yield Backward(m)
    yield from (Backward(m) for m in range(micro_batches - ahead, micro_batches))


def interleaved(stages: int, rank: int, micro_batches: int, chunks: int = 1) -> Iterator[Step]:
    """Run 1F1B with several chunks of layers per rank: their number divides the bubble.

    Micro-batches pass in rounds of `stages`: a whole round through chunk 0, then through chunk 1
    …"""
    total = micro_batches * chunks

    # The n-th step of a rank: `stages` micro-batches of a round pass one chunk, then the same ones
    # pass the next. Backward goes through the chunks from the last to the first.
    def forward(n: int) -> Forward:
        round_, within = divmod(n, stages * chunks)
        return Forward(round_ * stages + within % stages, within // stages)

    def backward(n: int) -> Backward:
        step = forward(n)
        return Backward(step.micro_batch, chunks - 1 - step.chunk)

    # Before the first backward, micro-batch 0 must have passed all chunks but the last in whole
    # rounds; each later stage adds two steps, one in each direction.
    ahead = min((stages - rank - 1) * 2 + (chunks - 1) * stages, total)
    yield from (forward(n) for n in range(ahead))
    for n in range(total - ahead):
        yield forward(n + ahead)
        yield backward(n)
    yield from (backward(n) for n in range(total - ahead, total))


def zero_bubble(stages: int, rank: int, micro_batches: int, chunks: int = 1) -> Iterator[Step]:
    """Run 1F1B with backward in two halves; weight halves fill the idle time at the end.

    Rank r defers its weight halves by r micro-batches, so that no stage keeps more than `stages`
    micro-batches, as many as the first stage of 1F1B (ZB-H1 of Qi et al., 2023)."""
    for step in one_forward_one_backward(stages, rank, micro_batches):
        if isinstance(step, Forward):
            yield step
            continue
        # The previous stage waits for the input half alone; the weight half can come later.
        yield BackwardInput(step.micro_batch)
        if step.micro_batch >= rank:
            yield BackwardWeight(step.micro_batch - rank)
    late = max(0, micro_batches - rank)
    yield from (BackwardWeight(m) for m in range(late, micro_batches))


SCHEDULES = {
    "gpipe": gpipe,
    "1f1b": one_forward_one_backward,
    "interleaved": interleaved,
    "zero-bubble": zero_bubble,
}


def steps_of(name: str, stages: int, rank: int, micro_batches: int, chunks: int) -> list[Step]:
    return list(SCHEDULES[name](stages, rank, micro_batches, chunks))
