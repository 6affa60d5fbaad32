"""Pipeline schedules: complete, free of deadlock, and with the bubble that theory gives."""

from __future__ import annotations

from types import SimpleNamespace

import example_tables as example
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from course_lib.show import pipelines, schedules


@given(
    name=some.sampled_from(sorted(schedules.SCHEDULES)),
    stages=some.integers(1, 6),
    rounds=some.integers(1, 4),
)
@settings(deadline=None, max_examples=60)
def test_every_stage_does_every_micro_batch_once_and_never_two_at_a_time(name, stages, rounds):
    micro_batches = stages * rounds
    table = schedules.timed(schedules.orders(name, stages, micro_batches))
    chunks = 2 if name == "interleaved" else 1
    for _, mine in table.groupby("stage"):
        forward = mine[mine["phase"] == "forward"]
        assert len(forward) == micro_batches * chunks
        assert len(set(zip(forward["micro_batch"], forward["chunk"], strict=True))) == len(forward)
        ordered = mine.sort_values("start")
        assert (ordered["start"].iloc[1:].to_numpy() >= ordered["end"].iloc[:-1] - 1e-9).all()
        assert (mine["end"] - mine["start"]).sum() == pytest.approx(3 * micro_batches)


@given(stages=some.integers(1, 8), micro_batches=some.integers(1, 16))
@settings(deadline=None, max_examples=40)
def test_the_bubble_is_the_one_of_the_formula(stages, micro_batches):
    expected = (stages - 1) / (micro_batches + stages - 1)
    for name in "gpipe", "1f1b":
        table = schedules.timed(schedules.orders(name, stages, micro_batches))
        assert schedules.bubble(table) == pytest.approx(expected)


def test_interleaving_divides_the_bubble_by_the_chunks():
    table = schedules.timed(schedules.interleaved(4, 8, chunks=2))
    assert schedules.bubble(table) == pytest.approx(3 / (2 * 8 + 3))


def test_splitting_the_backward_leaves_a_third_of_the_bubble():
    plain, split = (
        schedules.timed(schedules.orders(name, 4, 8)) for name in ("1f1b", "zero-bubble")
    )
    idle = [table["end"].max() - 24 for table in (plain, split)]
    assert idle == [9, 3]


def test_a_naive_pipeline_has_one_stage_at_work_at_a_time():
    assert schedules.bubble(schedules.timed(schedules.naive(4, 3))) == pytest.approx(3 / 4)


def test_1f1b_holds_at_most_as_many_micro_batches_as_stages():
    for stage, order in enumerate(schedules.one_f_one_b(4, 12)):
        alive, most = 0, 0
        for work in order:
            alive += 1 if work.phase == "forward" else -1
            most = max(most, alive)
        assert most == 4 - stage


def test_sending_takes_time_too():
    free = schedules.timed(schedules.one_f_one_b(2, 1))["end"].max()
    assert schedules.timed(schedules.one_f_one_b(2, 1), send=0.5)["end"].max() == free + 1.0


def test_instructions_of_another_program_are_read_and_sends_passed_over():
    class Forward(SimpleNamespace):
        pass

    class Send(SimpleNamespace):
        pass

    class Backward(SimpleNamespace):
        pass

    order = [Forward(micro_batch=0), Send(micro_batch=0), Backward(micro_batch=0)]
    table = schedules.timed([order, order])
    assert list(table["phase"]) == ["forward", "forward", "backward", "backward"]


def test_a_schedule_that_would_hang_is_named_as_such():
    orders = schedules.one_f_one_b(2, 2)
    orders[1] = [schedules.Work("backward", 0), schedules.Work("forward", 0)]
    with pytest.raises(ValueError, match=r"stage \d waits for the input of .* would hang"):
        schedules.timed(orders)


def test_an_interleaved_schedule_needs_whole_rounds():
    with pytest.raises(ValueError, match="use 8"):
        schedules.interleaved(4, 6)


def test_an_unknown_schedule_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="there are naive, gpipe, 1f1b"):
        schedules.orders("2f2b", 2, 2)


def test_a_measured_pipeline_takes_the_last_step_and_aligns_the_clocks_of_the_ranks():
    early, late = example.timeline(0), example.timeline(1)
    late.start_unix_ns = 500_000
    table = pipelines.measured(SimpleNamespace(ranks=(early, late)))
    assert set(table["phase"]) == {"forward", "backward"}
    starts = table[table["phase"] == "forward"].set_index("stage")["start"]
    assert starts[1] - starts[0] == pytest.approx(0.5)


def test_a_measured_pipeline_can_come_from_the_ranges_of_a_profile():
    spans = pd.DataFrame(
        {
            "rank": [0, 0, 1],
            "name": ["forward micro-batch 3", "all_reduce", "backward 3"],
            "begin_us": [0.0, 1.0, 2000.0],
            "end_us": [1000.0, 2.0, 4000.0],
        }
    )
    table = pipelines.measured(SimpleNamespace(ranks=(0, 1), spans=spans))  # as read.profile has it
    assert table[["stage", "micro_batch", "phase"]].values.tolist() == [
        [0, 3.0, "forward"],
        [1, 3.0, "backward"],
    ]
    assert schedules.bubble(table) == pytest.approx(1 - 3 / 8)


def test_a_measured_pipeline_tells_chunks_and_the_halves_of_backward_apart():
    spans = pd.DataFrame(
        {
            "rank": [0, 0, 0, 0],
            "name": ["forward 1", "backward 12 chunk 1", "backward 2 inputs", "backward 2 weights"],
            "begin_us": [0.0, 1.0, 2.0, 3.0],
            "end_us": [1.0, 2.0, 3.0, 4.0],
        }
    )
    table = pipelines.measured(spans).fillna({"chunk": 0})
    assert table[["phase", "micro_batch", "chunk"]].values.tolist() == [
        ["forward", 1.0, 0.0],
        ["backward", 12.0, 1.0],
        ["input", 2.0, 0.0],
        ["weight", 2.0, 0.0],
    ]


def test_a_trace_without_micro_batches_says_what_to_switch_on():
    with pytest.raises(ValueError, match="with the profiler or the memory trace on"):
        pipelines.measured(pd.DataFrame({"rank": [], "name": [], "begin_us": [], "end_us": []}))
