"""Pipeline schedules: complete, free of deadlock, and with the bubble that theory gives."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from course_lib import plan, read
from course_lib.plan import Layout, PlanError
from course_lib.plan.schedules.costs import alive, idle_s, messages
from course_lib.plan.schedules.steps import SCHEDULES, Step, orders
from course_lib.plan.schedules.timing import bubble, moments, timed


@given(
    name=some.sampled_from(sorted(SCHEDULES)),
    stages=some.integers(1, 6),
    rounds=some.integers(1, 4),
)
@settings(deadline=None, max_examples=60)
def test_every_stage_does_every_micro_batch_once_and_never_two_at_a_time(name, stages, rounds):
    micro_batches = stages * rounds
    table = timed(orders(name, stages, micro_batches))
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
        assert bubble(timed(orders(name, stages, micro_batches))) == pytest.approx(expected)


def test_interleaving_divides_the_bubble_by_the_chunks():
    for chunks in (2, 3):
        table = timed(orders("interleaved", 4, 8, chunks))
        assert bubble(table) == pytest.approx(3 / (chunks * 8 + 3))


def test_splitting_the_backward_leaves_a_third_of_the_bubble():
    idle = [timed(orders(name, 4, 8))["end"].max() - 24 for name in ("1f1b", "zero-bubble")]
    assert idle == [9, 3]


@pytest.mark.parametrize(("pipeline", "virtual", "count"), [(1, 1, 8), (2, 1, 16), (4, 2, 64)])
def test_a_stage_exchanges_two_messages_a_micro_batch_with_each_neighbour(pipeline, virtual, count):
    assert messages(Layout(pipeline=pipeline, virtual=virtual, global_batch=8)) == count


def test_a_naive_pipeline_has_one_stage_at_work_at_a_time():
    table = timed(orders("naive", 4, 3))
    assert bubble(table) == pytest.approx(3 / 4)
    assert {sum(work is not None for work in moment.busy) for moment in moments(table)} == {1}


LAYOUTS = [
    Layout(pipeline=pipeline, global_batch=pipeline * rounds, schedule=name, virtual=virtual)
    for name in ("gpipe", "1f1b", "interleaved")
    for virtual in ((2, 3) if name == "interleaved" else (1,))
    for pipeline in (2, 3, 4)
    for rounds in (1, 2, 5)
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout.schedule}")
def test_what_the_planner_computes_from_a_layout_is_what_its_schedule_does(layout):
    planned = orders(layout.schedule, layout.pipeline, layout.micro_batches, layout.virtual)
    for stage, order in enumerate(planned):
        signs = np.array([1 if step.phase == "forward" else -1 for step in order])
        assert signs.cumsum().max() / layout.virtual == pytest.approx(alive(layout, stage))
    waits = bubble(timed(planned))
    idle = idle_s(layout, [1.0] * layout.pipeline) / layout.micro_batches
    assert waits / (1 - waits) == pytest.approx(idle)


@pytest.mark.parametrize("name", ["naive", "gpipe", "1f1b", "zero-bubble"])
def test_the_moments_of_a_pipeline_add_up_to_its_bubble(name):
    table = timed(orders(name, 4, 4))
    found = moments(table)
    ends = [moment.time for moment in found[1:]] + [table["end"].max()]
    waiting = sum(
        (end - moment.time) * sum(work is None for work in moment.busy)
        for moment, end in zip(found, ends, strict=True)
    )
    assert waiting / (4 * table["end"].max()) == pytest.approx(bubble(table))


def test_gpipe_holds_all_micro_batches_and_1f1b_only_as_many_as_stages():
    most = {
        name: max(max(moment.holds) for moment in moments(timed(orders(name, 3, 8))))
        for name in ("naive", "gpipe", "1f1b", "zero-bubble")
    }
    assert most == {"naive": 1, "gpipe": 8, "1f1b": 3, "zero-bubble": 3}


@settings(max_examples=20, deadline=None)
@given(stages=some.integers(1, 5), micro_batches=some.integers(1, 5))
def test_at_every_moment_some_rank_computes(stages, micro_batches):
    table = timed(orders("gpipe", stages, micro_batches))
    assert all(any(moment.busy) for moment in moments(table))


def test_sending_takes_time_too():
    free, slow = (timed(orders("1f1b", 2, 1), send=send)["end"].max() for send in (0.0, 0.5))
    assert slow == free + 1.0


def test_a_schedule_that_would_hang_is_named_as_such():
    planned = orders("1f1b", 2, 2)
    planned[1] = [Step("backward", 0), Step("forward", 0)]
    with pytest.raises(PlanError, match=r"stage \d waits for the input of .* would hang"):
        timed(planned)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("2f2b", 2, 2), "use one of naive, gpipe, 1f1b"),
        (("1f1b", 0, 2), "stages 0 is too small; use 1 or more"),
        (("1f1b", 2, 1.5), "micro_batches = 1.5 is not a whole number"),
        (("interleaved", 4, 6), "6 is not a multiple of stages 4, .* use 4 or 8"),
        (("gpipe", 4, 8, 2), 'one chunk on a stage, not 2; use "interleaved"'),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_with_what_can(asked, words):
    with pytest.raises(PlanError, match=words):
        orders(*asked)


START_NS = 1_700_000_000_000_000_000
TRACE = {"format": "course-memory-1", "categories": ["weights"], "layout": {"pipeline": 2}}


def test_the_bubble_is_counted_over_all_ranks_whose_clocks_begin_apart(tmp_path):
    for rank, late_us in ((0, 0), (1, 100)):
        header = {
            **TRACE,
            "rank": rank,
            "start_unix_ns": START_NS + 1000 * late_us,
        }
        rows = [
            ["begin", 0, "forward", 4, 0],
            ["begin", 10, "communication", 4, 0],
            ["end", 20, "communication", 4, 0],
            ["end", 100, "forward", 4, 0],
            ["begin", 300 - 2 * late_us, "backward", 4, 0],
            ["end", 400 - 2 * late_us, "backward", 4, 0],
        ]
        (tmp_path / f"rank{rank}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in [header, *rows])
        )
    ranks = read.memory(tmp_path)
    assert ranks[1].start_unix_ns == START_NS + 100_000
    bubbles = plan.bubbles(ranks)
    assert bubbles[["step", "whole_ms", "bubble_percent"]].values.tolist() == [[4, 0.4, 50.0]]
    # Without delays the second stage begins at 100 and ends at 300, the first at 400.
    assert bubbles["undelayed_percent"].tolist() == [50.0]
    assert plan.bubbles(read.memory([])).empty
