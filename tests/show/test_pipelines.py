"""Pipelines as they were measured: from memory traces and from profiles."""

from __future__ import annotations

from types import SimpleNamespace

import example_tables as example
import pandas as pd
import pytest

from course_lib import show
from course_lib.plan.schedules.steps import orders
from course_lib.plan.schedules.timing import bubble
from course_lib.show.memories.phases import _without_inner_messages
from course_lib.show.pipeline_chart import measured


def test_a_measured_pipeline_takes_the_last_step_and_aligns_the_clocks_of_the_ranks():
    early, late = example.timeline(0), example.timeline(1)
    late.start_unix_ns = 500_000
    table = measured(SimpleNamespace(ranks=(early, late)))
    assert set(table["phase"]) == {"forward", "backward"}
    starts = table[table["phase"] == "forward"].set_index("stage")["start"]
    assert starts[1] - starts[0] == pytest.approx(0.5)


def test_a_pass_tells_how_long_its_slot_slept():
    table = measured(SimpleNamespace(ranks=(example.timeline(),)))
    slept = table.set_index("phase")["slept"]
    assert slept["forward"] == 0
    assert slept["backward"] == pytest.approx(50)
    drawn = show.pipeline_measured(SimpleNamespace(ranks=(example.timeline(),))).figure
    assert "the box waits" in [text.get_text() for text in drawn.legends[0].get_texts()]


def test_a_measured_pipeline_can_come_from_the_ranges_of_a_profile():
    spans = pd.DataFrame(
        {
            "rank": [0, 0, 1],
            "name": ["forward micro-batch 3", "all_reduce", "backward 3"],
            "begin_us": [0.0, 1.0, 2000.0],
            "end_us": [1000.0, 2.0, 4000.0],
        }
    )
    table = measured(SimpleNamespace(ranks=(0, 1), spans=spans))  # as read.profile has it
    assert table[["stage", "micro_batch", "phase"]].values.tolist() == [
        [0, 3.0, "forward"],
        [1, 3.0, "backward"],
    ]
    assert bubble(table) == pytest.approx(1 - 3 / 8)


def test_a_measured_pipeline_tells_chunks_and_the_halves_of_backward_apart():
    spans = pd.DataFrame(
        {
            "rank": [0, 0, 0, 0],
            "name": ["forward 1", "backward 12 chunk 1", "backward 2 inputs", "backward 2 weights"],
            "begin_us": [0.0, 1.0, 2.0, 3.0],
            "end_us": [1.0, 2.0, 3.0, 4.0],
        }
    )
    table = measured(spans).fillna({"chunk": 0})
    assert table[["phase", "micro_batch", "chunk"]].values.tolist() == [
        ["forward", 1.0, 0.0],
        ["backward", 12.0, 1.0],
        ["input", 2.0, 0.0],
        ["weight", 2.0, 0.0],
    ]


def test_steps_may_be_given_as_pairs_from_generators():
    made = orders("1f1b", 3, 4)
    pairs = [((step.phase, step.micro_batch) for step in steps) for steps in made]
    assert show.pipeline(pairs).alt == show.pipeline(made).alt


def test_a_trace_without_micro_batches_says_what_to_switch_on():
    with pytest.raises(ValueError, match="use profile=True or memory=True"):
        measured(pd.DataFrame({"rank": [], "name": [], "begin_us": [], "end_us": []}))


def test_exchanges_within_a_pass_are_no_stripes_of_their_own():
    phases = pd.DataFrame(
        {
            "phase": ["forward", "communication", "communication", "optimizer", "communication"],
            "begin_us": [0, 2, 10, 20, 21],
            "end_us": [10, 3, 19, 30, 22],
        }
    )
    assert _without_inner_messages(phases).index.tolist() == [0, 2, 3, 4]
