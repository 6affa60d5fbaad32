"""Pipeline schedules: the order of a stage's work, as data that can be printed and drawn.

A schedule is a generator of instructions for one rank, without processes or tensors. `python
code/parallel/schedules.py --stages 4 --micro-batches 8 --schedule 1f1b` draws it."""

from __future__ import annotations

import argparse
from collections import deque
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


def timeline(
    name: str, stages: int, micro_batches: int, chunks: int = 1
) -> list[list[Step | None]]:
    """Return each rank's step at each tick (None: idle), if messages took no time.

    A forward step and each half of backward take one tick per chunk; `Backward` takes two."""
    waiting = [deque(steps_of(name, stages, r, micro_batches, chunks)) for r in range(stages)]
    # First tick at which others may use the result: (kind, micro-batch, piece of the whole model).
    done_at: dict[tuple[str, int, int], int] = {}
    rows: list[list[Step | None]] = [[] for _ in range(stages)]
    tick = 0
    while any(waiting):
        for rank, queue in enumerate(waiting):
            if len(rows[rank]) > tick or not queue:  # in the second half of a step, or finished
                continue
            step = queue[0]
            # A missing result counts as available at a later tick.
            if any(
                done_at.get(need, tick + 1) > tick for need in needs(step, rank, stages, chunks)
            ):
                rows[rank].append(None)
                continue
            length = 2 if isinstance(step, Backward) else 1
            rows[rank] += [queue.popleft()] * length
            done_at[(_kind(step), step.micro_batch, step.chunk * stages + rank)] = tick + length
        tick += 1
    longest = max(map(len, rows))
    return [row + [None] * (longest - len(row)) for row in rows]


def _kind(step: Step) -> str:
    return {"B": "backward", "I": "backward", "F": "forward", "W": "weight"}[step.letter]


def needs(step: Step, rank: int, stages: int, chunks: int) -> list[tuple[str, int, int]]:
    """Return the required steps: (kind, micro-batch, number of the piece in the whole model)."""
    piece = step.chunk * stages + rank
    if isinstance(step, Forward):
        return [("forward", step.micro_batch, piece - 1)] if piece else []
    if isinstance(step, BackwardWeight):
        return [("backward", step.micro_batch, piece)]
    # The last piece has the loss: its backward waits for its own forward, all others for the
    # gradient from the next piece.
    if piece == stages * chunks - 1:
        return [("forward", step.micro_batch, piece)]
    return [("backward", step.micro_batch, piece + 1)]


def draw(name: str, stages: int, micro_batches: int, chunks: int = 1) -> str:
    """Draw one line per rank: each step as kind and micro-batch, and dots for the bubble."""
    lines = [f"{name}: {stages} stages, {micro_batches} micro-batches, {chunks} chunk(s) per stage"]
    rows = timeline(name, stages, micro_batches, chunks)
    for rank, row in enumerate(rows):
        cells = ["  ." if s is None else f"{s.letter}{s.micro_batch:<2d}" for s in row]
        lines.append(f"rank {rank}  " + " ".join(cells))
    idle = sum(step is None for row in rows for step in row)
    lines.append(f"bubble: {100 * idle / sum(map(len, rows)):.1f} % of the time")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedule", choices=SCHEDULES, default="1f1b")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--chunks", type=int, default=1)
    args = parser.parse_args()
    print(draw(args.schedule, args.stages, args.micro_batches, args.chunks))
