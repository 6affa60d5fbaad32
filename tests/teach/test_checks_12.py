"""Lesson 12: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import pytest

from course_lib.lab.job.recipes import program, shell
from course_lib.teach.checks import lesson12

from .answers_to_try import hold
from .finished_runs import hint_of

RATE = 1e-3
LOG = """using world size: {ranks}, data-parallel-size: {ranks}, tensor-model-parallel size: 1, \
pipeline-model-parallel size: 1
 iteration      128/     256 | consumed samples: {half} | elapsed time per iteration (ms): 8.31 | \
learning rate: {rate:.6E} | global batch size: {batch:5d} | lm loss: 2.1E+00 | \
validation loss: {loss:.6E} |
 iteration      256/     256 | consumed samples: {seen} | elapsed time per iteration (ms): 8.31 | \
learning rate: {rate:.6E} | global batch size: {batch:5d} | lm loss: 1.9E+00 | \
validation loss: {loss:.6E} |
"""
RIGHT = 128
LIKELY = {
    64 / 0.75: "There is noise in that too",
    64 / 2.5: "which is mostly noise",
    1.75 * 32 / 0.75: "It has noise as well",
    112: "not by tr(Σ) / 32",
    2.5 * 32 / 0.75: "takes all of the small gradient for noise",
    160: "But you took all of the small gradient for noise",
    64: "That is tr(Σ)",
    0.5: "That is |G|²",
    4: "in batches of a rank",
    128**0.5: "Take no root",
    -832: "do not square them again",
    34.2: "as the equations want them",
    1280: "the power of ten",
}


@pytest.mark.parametrize(("answer", "words"), LIKELY.items())
def test_a_wrong_critical_batch_meets_its_hint(workspace, answer, words):
    assert words in hint_of(lesson12.ex12_noise, answer)


def test_a_critical_batch_from_nowhere_is_shown_the_two_equations(workspace):
    assert "Solve for |G|²" in hint_of(lesson12.ex12_noise, 333)


@pytest.mark.parametrize("answer", [128, 127.9, [128.0], 64 / 0.5])
def test_the_right_critical_batch_is_taken_in_other_forms(workspace, answer):
    lesson12.ex12_noise(answer)


def test_the_critical_batch_holds_against_all_kinds_of_answers(workspace):
    hold("critical_batch", lesson12.ex12_noise, RIGHT, list(LIKELY))


STEPS = {
    12_500: "an eighth of the steps",
    20_000: "That is S_min",
    150_000: "100,000 is not S_min",
    35_355: "belongs to the learning rate",
    240_000: "upside down",
    25_000: "The law has no corner",
    100_000: "The large one needs fewer",
    70_000: "that are saved",
}
TOKENS = {
    0.3: "compares the steps",
    8: "there are fewer steps",
    1: "in larger portions",
    3: "the fewest tokens that there can be",
    1.4: "how many times *more*",
    5 / 12: "by those of the large one",
    1.2e11: "These are the tokens",
    240: "In percent",
}


@pytest.mark.parametrize(("answer", "words"), STEPS.items())
def test_wrong_steps_meet_their_hint(workspace, answer, words):
    assert words in hint_of(lesson12.ex12_cost, answer, 2.4)


@pytest.mark.parametrize(("answer", "words"), TOKENS.items())
def test_wrong_tokens_meet_their_hint(workspace, answer, words):
    assert words in hint_of(lesson12.ex12_cost, 30_000, answer)


def test_steps_and_tokens_hold_against_all_kinds_of_answers(workspace):
    hold("steps_needed", lambda steps: lesson12.ex12_cost(steps, 2.4), 30_000, list(STEPS))
    hold("times_the_tokens", lambda times: lesson12.ex12_cost(30_000, times), 2.4, list(TOKENS))


def sixteen(nodes=2, gpus_per_node=2, **flags):
    flags = {"lr": RATE, "lr_scaling": "sqrt", "batch_size": 256, "warmup_samples": 4096, **flags}
    return program.recipe(
        "sixteen", "scale_batch.py", nodes=nodes, gpus_per_node=gpus_per_node, **flags
    )


def log(ranks=4, batch=256, grew=4, seen=65_536, loss=2.0):
    return LOG.format(
        ranks=ranks, batch=batch, rate=grew * RATE, seen=seen, half=seen // 2, loss=loss
    )


@pytest.fixture
def base(finished):
    recipe = program.recipe("base", "scale_batch.py", batch_size=16, lr=RATE, warmup_samples=4096)
    return finished(recipe, log(ranks=1, batch=16, grew=1))


@pytest.mark.parametrize(
    "recipe",
    [
        sixteen(),
        sixteen(lr=4 * RATE, lr_scaling=None),
        sixteen(lr=RATE / 4, lr_scaling="linear"),
        sixteen(micro_batch_size=16),
    ],
)
def test_any_way_to_the_same_training_passes(finished, base, recipe, capsys):
    lesson12.ex12_sixteen(finished(recipe, log()), base)
    assert "✓ in a sixteenth of the steps" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("recipe", "printed", "words"),
    [
        (sixteen(nodes=1), log(ranks=2), "It asked for 1 × 2"),
        (sixteen(nodes=1, gpus_per_node=4), log(), "It asked for 1 × 4"),
        (sixteen(gpus_per_node=1), log(ranks=2), "It asked for 2 × 1"),
        (sixteen(batch_size=64), log(batch=64), "the share of one device"),
        (sixteen(batch_size=1024), log(batch=1024), "not multiplied by them"),
        (sixteen(batch_size=16), log(batch=16), "That is the small batch"),
        (sixteen(batch_size=128), log(batch=128), "16 × 16 are asked for"),
        (sixteen(lr_scaling="none"), log(grew=1), "It stayed"),
        (sixteen(lr_scaling="linear"), log(grew=16), "That is for SGD"),
        (sixteen(lr=4 * RATE), log(grew=16), "It grew twice"),
        (sixteen(lr=4 * RATE, lr_scaling="linear"), log(grew=64), "It grew twice"),
        (sixteen(lr=2 * RATE, lr_scaling=None), log(grew=2), "the root of 4, the devices"),
        (sixteen(lr=RATE / 2), log(grew=3), "Leave --lr as it is"),
        (sixteen(warmup_samples=0), log(), "--warmup-samples is missing or 0"),
        (sixteen(samples=16 * 65_536), log(seen=16 * 65_536), "sixteen times as many"),
        (sixteen(samples=4096), log(seen=4096), "does not change with the batch"),
        (sixteen(width=8), log(loss=2.6), "ends 0.60 higher"),
    ],
)
def test_another_run_meets_its_hint(finished, base, recipe, printed, words):
    assert words in hint_of(lesson12.ex12_sixteen, finished(recipe, printed), base)


def test_a_run_of_another_program_or_a_failed_one_is_told_so(finished, base):
    other = finished(shell.recipe("hello", "echo hello"), "hello\n")
    assert "started something else" in hint_of(lesson12.ex12_sixteen, other, base)
    failed = finished(sixteen(), "scale_batch.py: error: --samples 3\n", exit_code=2)
    assert "--samples 3" in hint_of(lesson12.ex12_sixteen, failed, base)


def test_logs_without_a_rate_or_a_validation_loss_are_told_so(finished, base):
    for missing, words in (("learning rate", "learning rate"), ("validation loss", "validation")):
        printed = log().replace(missing, "nothing")
        assert words in hint_of(lesson12.ex12_sixteen, finished(sixteen(), printed), base)
