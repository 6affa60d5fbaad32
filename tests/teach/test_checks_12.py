"""Lesson 12: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

from types import SimpleNamespace

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


def test_steps_and_tokens_hold_against_all_kinds_of_answers(workspace):
    steps = {
        12_500: "an eighth of the steps", 20_000: "That is S_min", 150_000: "is not S_min",
        240_000: "upside down", 25_000: "First find S_min", 100_000: "First find S_min",
    }  # fmt: skip
    tokens = {
        0.3: "compares the steps", 8: "there are fewer steps", 1: "steps × batch",
        3: "steps × batch", 1.4: "That is the increase", 5 / 12: "steps × batch",
    }  # fmt: skip
    model = SimpleNamespace(critical=2, steps=100_000)
    hold("steps_needed", lambda answer: lesson12.ex12_cost(answer, 2.4, model), 30_000, steps)
    hold("times_the_tokens", lambda answer: lesson12.ex12_cost(30_000, answer, model), 2.4, tokens)


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
    assert "✓ the run learned about as much in a sixteenth of the steps" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("recipe", "printed", "words"),
    [
        (sixteen(nodes=1), log(ranks=2), "It is 1 × 2."),
        (sixteen(batch_size=1024), log(batch=1024), "nor multiplied by the number of devices"),
        (sixteen(batch_size=16), log(batch=16), "It is 16."),
        (sixteen(lr_scaling="none"), log(grew=1), "The rate is 1 times"),
        (sixteen(lr_scaling="linear"), log(grew=16), "The rate is 16 times"),
        (
            sixteen(lr=2 * RATE, lr_scaling=None),
            log(grew=2),
            "The rate is 2 times",
        ),
        (sixteen(warmup_samples=0), log(), "--warmup-samples is missing or 0"),
        (sixteen(lr_decay_style="constant"), log(), "✗ --lr-decay-style: linear"),
        (sixteen(samples=16 * 65_536), log(seen=16 * 65_536), "Keep --samples as it is"),
        (sixteen(samples=4096), log(seen=4096), "Keep --samples as it is"),
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
