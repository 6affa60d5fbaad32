"""Lesson 17: the learner's own run, and two plans on paper."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from course_lib import plan
from course_lib.lab.job.unfinished import Unfinished
from course_lib.teach.challenge.score import Score
from course_lib.teach.checks import lesson17

from .answers_to_try import hold
from .finished_runs import hint_of

pytestmark = pytest.mark.usefixtures("workspace")

LINE = (
    " iteration {n:8d}/{steps:8d} | consumed samples: {samples:12d} | elapsed time per iteration "
    "(ms): 40.0 | learning rate: 1.0E-03 | global batch size: {batch:5d} | lm loss: 4.5E+00 |\n"
)
DENSE = plan.preset("llama-70b")
DENSE_LAYOUT = plan.Layout(
    tensor=8, pipeline=4, data=16, virtual=4, global_batch=512, zero=1, sequence_parallel=True
)
MIXTURE_LAYOUT = plan.Layout(
    tensor=2,
    pipeline=8,
    data=32,
    virtual=7,
    global_batch=1024,
    zero=1,
    sequence_parallel=True,
    expert=8,
    expert_tensor=1,
)
LEAST_DAYS, TOTAL, ACTIVE = 9.6, 140.6, 39.16


def dgx(devices):
    return plan.cluster("dgx-h100", devices=devices)


@pytest.fixture
def tried(finished):
    """Return a run and its score. `of_run` changes the recipe, and all other arguments change the
    score."""

    def make(steps=300, batch=16, lr=3e-3, **changes):
        from course_lib.lab.job.recipes import gpt

        recipe = gpt.recipe(
            "mine", micro_batch=batch, iterations=steps, lr=lr, mock_data=True, log_interval=1
        )
        log = "".join(
            LINE.format(n=n, steps=steps, samples=n * batch, batch=batch)
            for n in range(1, steps + 1)
        )
        run = finished(recipe, log)
        score = Score(
            run="mine", job_id=run.job_id, job="j" * 16, target=4.7,
            digest="d", loss=4.6, error=0.02, tokens=steps * batch * 64,
            seconds=16.0, devices=4, foreseen=18.0,
        )  # fmt: skip
        return run, replace(score, **changes)

    return make


@pytest.fixture
def habit(tried):
    return tried(loss=5.7, seconds=28.0)[1]


def test_a_run_that_is_planned_well_passes(tried, habit, capsys):
    lesson17.ex17_mine(*tried(), habit)
    said = capsys.readouterr().out
    assert said.count("✓") == 6
    assert "✓ the run reaches a held-out loss of 4.7" in said


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"loss": 4.9}, "Draw the line through the losses of the two probes"),
        ({"loss": 5.3, "batch": 64, "steps": 80}, "same tokens in smaller batches teach more"),
        (
            {"broken_rules": ("it has learned from the held-out text",)},
            "learned from the held-out text",
        ),
        (
            {"foreseen": 30.0},
            "You predicted 30 s, and it took 16: 300 iterations took 12 s, start and",
        ),
        ({"foreseen": math.nan}, "You predicted nan s"),
        (
            {"seconds": 30.0, "foreseen": 30.0},
            "Your run takes 2.00 device-minutes, and the other run takes 1.87.",
        ),
        ({"job_id": 77}, "The score belongs to job 77"),
    ],
)
def test_what_a_run_lacks_is_told_from_its_figures(tried, habit, how, words):
    assert words in hint_of(lesson17.ex17_mine, *tried(**how), habit)


def test_a_gap_and_what_is_no_score_are_told(tried, habit):
    gap = Unfinished("mine", ("seconds",))
    assert "Still to fill in: seconds" in hint_of(lesson17.ex17_mine, gap, gap, habit)
    run, score = tried()
    for wrong in (None, 4.6, run, "score"):
        assert "Give the check what task.score(…)" in hint_of(lesson17.ex17_mine, run, wrong, habit)
        assert "for both runs" in hint_of(lesson17.ex17_mine, run, score, wrong)


def dense(layout=DENSE_LAYOUT, cluster=None, model=DENSE):
    return plan.predict(model, layout, cluster or dgx(layout.devices))


def dream():
    known = dgx(DENSE_LAYOUT.devices)
    return known.but(device=replace(known.device, bf16_tflops=4000.0))


def mixture(layout=MIXTURE_LAYOUT, name="mixtral-8x22b"):
    return plan.predict(plan.preset(name), layout, dgx(layout.devices))


def test_days_at_the_peak_and_parameters_are_told_from_their_numbers():
    days = {
        12.9: "counts a recomputation", 3.225: "the forward pass alone", 4.838: "1,979 TFLOP/s",
        30.67: "an A100", 90: "6 FLOPs", 231: "6 FLOPs",
    }  # fmt: skip
    total = {
        176: "8 × 22 counts attention and tables 8 times", 39.15: "You swapped total and active",
        95.5: "three matrices", 144.2: "48 query heads share 8 key heads",
        TOTAL * 1e9: "right in parameters",
    }  # fmt: skip
    active = {
        44: "2 × 22", 140.6: "You swapped total and active", 27.9: "Count in the same way",
        42.7: "Count in the same way",
    }  # fmt: skip
    hold("least_days", lambda answer: lesson17.ex17_dense(answer, dense()), 9.62, days)
    check = lesson17.ex17_mixture
    hold("total_billions", lambda answer: check(answer, ACTIVE, mixture()), TOTAL, total)
    hold("active_billions", lambda answer: check(TOTAL, answer, mixture()), ACTIVE, active)


def test_plans_on_paper_pass(capsys):
    lesson17.ex17_dense(LEAST_DAYS, dense())
    lesson17.ex17_mixture(TOTAL, ACTIVE, mixture())
    assert "✗" not in capsys.readouterr().out


@pytest.mark.parametrize("cluster", ["dgx-h100", "selene", "juwels-booster", "dgx-h200"])
def test_the_best_layouts_of_many_machines_pass(cluster, capsys):
    found = plan.search(DENSE, plan.cluster(cluster, devices=1024), 1024)
    lesson17.ex17_dense(LEAST_DAYS, found.best)
    assert "at most 90 days" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: dense(model=plan.preset("llama-8b")), "The plan is for llama-8b"),
        (lambda: dense(DENSE_LAYOUT.but(data=64, global_batch=2048)), "The plan uses 2048"),
        (
            lambda: dense(DENSE_LAYOUT.but(virtual=1, global_batch=16)),
            "steps are many and short",
        ),
        (lambda: dense(DENSE_LAYOUT.but(global_batch=8192)), "most samples do not help"),
        (lambda: dense(DENSE_LAYOUT.but(pipeline=1, virtual=1, data=32)), "make this part smaller"),
        (lambda: dense(DENSE_LAYOUT.but(data=2)), "The training takes"),
        (lambda: dense(cluster=dream()), "H100 of this plan differs from plan.DEVICES"),
        (lambda: ..., "Replace the ..."),
        (lambda: None, "It is None now; give the check what plan.predict"),
        (lambda: DENSE_LAYOUT, "It is Layout("),
        (mixture, "The plan is for mixtral-8x22b"),
    ],
)
def test_a_dense_plan_is_refused_for_what_it_lacks(made, words):
    assert words in hint_of(lesson17.ex17_dense, LEAST_DAYS, made())


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            lambda: mixture(name="mixtral-8x7b", layout=MIXTURE_LAYOUT.but(virtual=1)),
            "The plan is for",
        ),
        (lambda: mixture(MIXTURE_LAYOUT.but(expert=1)), "make this part smaller"),
        (lambda: mixture(MIXTURE_LAYOUT.but(data=8, global_batch=512)), "At the slow end"),
        (lambda: mixture(MIXTURE_LAYOUT.but(data=128, global_batch=2048)), "The plan uses 2048"),
        (dense, "The plan is for llama-70b"),
        (lambda: ..., "Replace the ..."),
    ],
)
def test_a_plan_of_a_mixture_is_refused_for_what_it_lacks(made, words):
    assert words in hint_of(lesson17.ex17_mixture, TOTAL, ACTIVE, made())
