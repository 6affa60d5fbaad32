"""Measured pipelines, from memory traces and from profiles."""

from __future__ import annotations

from types import SimpleNamespace

import example_tables as example
import pandas as pd
import pytest

from course_lib import show
from course_lib.plan.schedules.steps import orders
from course_lib.show.memories.over_time import _without_inner_messages
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


def test_steps_may_be_given_as_pairs_from_generators():
    made = orders("1f1b", 3, 4)
    pairs = [((step.phase, step.micro_batch) for step in steps) for steps in made]
    assert show.pipeline(pairs).alt == show.pipeline(made).alt


def test_a_trace_without_micro_batches_says_what_to_switch_on():
    with pytest.raises(ValueError, match="use memory=True"):
        measured(SimpleNamespace(ranks=()))


def test_exchanges_within_a_pass_are_no_stripes_of_their_own():
    phases = pd.DataFrame(
        {
            "phase": ["forward", "communication", "communication", "optimizer", "communication"],
            "begin_us": [0, 2, 10, 20, 21],
            "end_us": [10, 3, 19, 30, 22],
        }
    )
    assert _without_inner_messages(phases).index.tolist() == [0, 2, 3, 4]
