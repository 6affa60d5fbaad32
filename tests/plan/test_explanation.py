"""An explanation accounts for all of the time, and each promised gain is real."""

from __future__ import annotations

import pytest

from course_lib import plan

WASTEFUL = plan.Layout(tensor=2, pipeline=4, data=4, global_batch=64, recompute="full")


@pytest.fixture
def explained():
    where = plan.cluster("selene", 32)
    return plan.explain(plan.predict(plan.preset("13b"), WASTEFUL, where))


def test_its_parts_are_the_whole_iteration(explained):
    table = explained.table()
    assert table.seconds.sum() == pytest.approx(explained.estimate.seconds)
    assert table.share.sum() == pytest.approx(1)
    assert table.part.iloc[0] == "matmul"
    assert "312" in table.why.iloc[0]


def test_every_part_that_an_estimate_can_have_is_explained():
    from course_lib.plan.explanation import MEANING
    from course_lib.plan.time.iteration import PARTS

    assert set(PARTS) == {*MEANING, "matmul", "memory"}


def test_the_first_advice_ends_the_greatest_waste(explained):
    faster = explained.faster()
    assert faster.change.iloc[0] == "t2 p4 d4 mb1 zero0"  # without recomputation
    assert list(faster.gain) == sorted(faster.gain, reverse=True)
    again = plan.predict(
        explained.estimate.model, WASTEFUL.but(recompute="none"), explained.estimate.cluster
    )
    assert faster.tokens_per_s.iloc[0] == again.tokens_per_s


def test_advice_names_what_does_not_fit():
    where = plan.cluster("dgx-h100", 8)
    whole = plan.Layout(tensor=8, global_batch=8, sequence_parallel=True, recompute="full", zero=1)
    advice = plan.explain(plan.predict(plan.preset("llama-70b"), whole, where)).faster()
    assert "overflows" in set(advice.memory)


def test_it_can_be_printed_for_each_kind_of_run(explained):
    mixture = plan.predict(
        plan.preset("mixtral-8x7b"), plan.Layout(data=8, expert=8, zero=1),
        plan.cluster("dgx-h100", 8),
    )  # fmt: skip
    box = plan.predict(plan.preset("tiny"), plan.Layout(data=4), plan.box(), "course")
    for estimate in (explained.estimate, mixture, box):
        text = str(plan.explain(estimate))
        assert "matmul" in text
        assert "order of gain" in text


def test_something_else_is_refused():
    with pytest.raises(plan.PlanError, match="estimate"):
        plan.explain(WASTEFUL)
