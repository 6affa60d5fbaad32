"""Schedules as data: complete, free of deadlock, and as long as the theory says."""

from __future__ import annotations

import itertools

import pytest
from schedule_cases import CASES

from course_lib.plan.schedules import steps as planned
from parallel.routes import Route
from parallel.schedules import (
    SCHEDULES,
    Backward,
    BackwardInput,
    BackwardWeight,
    Forward,
    steps_of,
)


@pytest.mark.parametrize(("name", "stages", "micro_batches", "chunks"), CASES)
def test_every_rank_does_each_micro_batch_once_in_each_direction(
    name, stages, micro_batches, chunks
):
    everything = sorted(itertools.product(range(micro_batches), range(chunks)))
    for rank in range(stages):
        steps = steps_of(name, stages, rank, micro_batches, chunks)
        for kinds in ((Forward,), (Backward, BackwardInput), (Backward, BackwardWeight)):
            done = sorted((s.micro_batch, s.chunk) for s in steps if isinstance(s, kinds))
            assert done == everything


@pytest.mark.parametrize(("name", "stages", "micro_batches", "chunks"), CASES)
def test_messages_are_sent_in_the_order_in_which_they_are_awaited(
    name, stages, micro_batches, chunks
):
    """NCCL matches messages by order, not by tag."""
    sent, awaited = {}, {}
    for rank in range(stages):
        route = Route(range(stages), rank, chunks)
        for step in steps_of(name, stages, rank, micro_batches, chunks):
            if message := route.outgoing(step):
                sent.setdefault((rank, message.peer, message.way), []).append(message.tag)
            if message := route.incoming(step):
                awaited.setdefault((message.peer, rank, message.way), []).append(message.tag)
    assert sent == awaited


def kept(name, stages, rank, micro_batches):
    """Return the largest number of micro-batches whose activations a rank keeps at once."""
    alive = most = 0
    for step in steps_of(name, stages, rank, micro_batches, 1):
        alive += isinstance(step, Forward) - isinstance(step, Backward | BackwardWeight)
        most = max(most, alive)
    return most


def test_gpipe_keeps_everything_and_1f1b_only_as_much_as_lies_ahead():
    assert [kept("gpipe", 4, rank, 8) for rank in range(4)] == [8, 8, 8, 8]
    assert [kept("1f1b", 4, rank, 8) for rank in range(4)] == [4, 3, 2, 1]
    assert max(kept("zero-bubble", 4, rank, 8) for rank in range(4)) == 4


PHASES = {
    Forward: "forward",
    Backward: "backward",
    BackwardInput: "input",
    BackwardWeight: "weight",
}


def run(name, stages, micro_batches, chunks):
    """What each rank of the program runs, in the words of the planner. The program has no schedule
    "naive". With one micro-batch at a time, every schedule does the same as "naive"."""
    if name == "naive":
        once = [steps_of("1f1b", stages, rank, 1, 1) for rank in range(stages)]
        ordered = [[(step, m) for m in range(micro_batches) for step in order] for order in once]
    else:
        shape = (micro_batches, chunks)
        ranks = [steps_of(name, stages, rank, *shape) for rank in range(stages)]
        ordered = [[(step, step.micro_batch) for step in steps] for steps in ranks]
    return [[planned.Step(PHASES[type(s)], m, s.chunk) for s, m in order] for order in ordered]


@pytest.mark.parametrize("stages", range(1, 9))
@pytest.mark.parametrize("name", ["naive", *SCHEDULES])
def test_what_is_drawn_is_what_is_run(name, stages):
    assert set(planned.SCHEDULES) == {"naive", *SCHEDULES}
    several = name == "interleaved"
    for micro_batches in range(stages, 17, stages) if several else range(1, 17):
        for chunks in range(1, 5) if several else (1,):
            drawn = planned.orders(name, stages, micro_batches, chunks)
            assert drawn == run(name, stages, micro_batches, chunks)
