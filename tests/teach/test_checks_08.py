"""Lesson 08: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import pytest

from course_lib.lab.job.recipes import gpt
from course_lib.teach.checks import lesson08

from .answers_to_try import hold
from .finished_runs import MEMORY_LINE, hint_of

ITERATION = (
    " iteration {at:8d}/      12 | consumed samples: {at:12d} | elapsed time per iteration (ms): "
    "83.0 | learning rate: 1.000E-03 | global batch size:     4 | lm loss: 9.040710E+00 | loss "
    "scale: {scale:.1f} | grad norm: 3.448 | number of skipped iterations: {skipped:3d} | number "
    "of nan iterations:   0 |\n"
)


def log(precision="float16", scale=16384.0, skipped=0, iterations=12):
    steps = (
        ITERATION.format(at=at, scale=scale, skipped=int(at <= skipped))
        for at in range(1, iterations + 1)
    )
    return f"using torch.{precision} for parameters ...\n" + "".join(steps)


def settled(precision="fp16", **more):
    return gpt.recipe("settled", precision=precision, micro_batch=4, iterations=12, **more)


def test_a_search_that_begins_low_enough_passes(finished, capsys):
    lesson08.ex08_settled(finished(settled(initial_loss_scale=2**14), log()))
    assert "✓ no iteration was skipped" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("recipe", "printed", "words"),
    [
        (settled(), log(skipped=7), "Skipped: 7. The scale began at 4,294,967,296"),
        (settled(initial_loss_scale=2**20), log(skipped=3), "began at 1,048,576"),
        (settled(initial_loss_scale=1), log(scale=1.0), "With a scale of 1, nearly all"),
        (settled(initial_loss_scale=2), log(scale=2.0), "With a scale of 2, nearly all"),
        (settled(initial_loss_scale=14), log(scale=14.0), "write 2**14"),
        (
            settled(initial_loss_scale=2**14, min_loss_scale=2**14),
            log(),
            "may not fall below 16,384",
        ),
        (settled(loss_scale=1024), log(scale=1024), "--loss-scale sets a fixed scale"),
        (settled("bf16"), log("bfloat16", 1.0), "some devices have only float16"),
        (settled("fp32"), log("float32", 1.0), "Its log says float32"),
        (settled(initial_loss_scale=2**14), log(iterations=3), "It made 3. Few steps"),
    ],
)
def test_a_wrong_run_gets_the_hint_for_its_mistake(finished, recipe, printed, words):
    assert words in hint_of(lesson08.ex08_settled, finished(recipe, printed))


def test_a_run_that_broke_is_told_with_its_cause(finished):
    broken = finished(settled(initial_loss_scale=2**14), MEMORY_LINE.format(rank=0), 41)
    assert "limit of device memory was reached" in hint_of(lesson08.ex08_settled, broken)
    gap = settled(initial_loss_scale=...)
    assert "Still to fill in: initial_loss_scale" in hint_of(lesson08.ex08_settled, gap)


def test_the_scale_holds_against_all_kinds_of_answers(lab):
    wrong = {
        2**23: "after ten skipped iterations", 2**33: "not every skipped step halves",
        2**28: "every overflow from the second", 32: "That is the exponent",
        2**14: "Was it larger or smaller", 5e8: "You answered 500,000,000",
    }  # fmt: skip
    hold("started_at", lesson08.ex08_started_at, 2**32, wrong, accepted=[4.29e9])
