"""Lesson 03: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import pytest

from course_lib.lab.job.recipes import gpt, shell
from course_lib.teach.checks import lesson03

from .answers_to_try import hold
from .finished_runs import MEMORY_LINE, hint_of

LOG = (
    "using world size: {data}, data-parallel-size: {data}, tensor-model-parallel size: 1, "
    "pipeline-model-parallel size: 1\n"
    "setting number of micro-batches to constant {micro_batches}\n"
    " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 1858304\n"
    " iteration      100/     100 | consumed samples:          800 | elapsed time per iteration "
    "(ms): 83.0 | learning rate: 1.000E-03 | global batch size: {batch:5d} | lm loss: 6.282860E+00 "
    "| loss scale: 1.0 | grad norm: 3.572 | number of skipped iterations:   0 | number of nan "
    "iterations:   0 |\n"
)
CUT_BY_TWO = "tensor-model-parallel size: 1", "tensor-model-parallel size: 2"
RIGHT_MB = 100 * 1.5 * 4 * 1858304 / 1e6


def log(data=4, batch=32, micro_batches=1):
    return LOG.format(data=data, batch=batch, micro_batches=micro_batches)


def wide(nodes=2, micro_batch=8, global_batch=32, iterations=5):
    return gpt.recipe(
        "wide",
        nodes=nodes,
        gpus_per_node=2,
        micro_batch=micro_batch,
        global_batch=global_batch,
        iterations=iterations,
    )


def test_the_wide_run_that_was_asked_for_passes(finished, capsys):
    lesson03.ex03_wide(finished(wide(), log()))
    assert "✓ passes through the model before each step: 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("recipe", "printed", "exit_code", "words"),
    [
        (wide(nodes=1), log(data=2, micro_batches=2), 0, "It is 1 × 2."),
        (wide(global_batch=64), log(batch=64, micro_batches=2), 0, "It is 64."),
        (
            wide(global_batch=128),
            log(batch=128, micro_batches=4),
            0,
            "nor multiplied by the number of devices",
        ),
        (wide(global_batch=8, micro_batch=2), log(batch=8), 0, "neither the batch of one device"),
        (wide().but(name="dp4"), log(batch=8), 0, "It is dp4."),
        (wide(micro_batch=2), log(micro_batches=4), 0, "It is 4. How many samples must each"),
        (wide(iterations=4), log(), 0, "✗ iterations: 5\n  It is 4."),
        (wide(), log(data=1), 0, "✗ copies of the model: 4\n  It is 1."),
        (wide(), log(data=2).replace(*CUT_BY_TWO), 0, "tensor 2"),
        (shell.recipe("hello", "echo hello", nodes=2), "hello\n", 0, "started something else"),
        (wide(), MEMORY_LINE.format(rank=3), 41, "limit of device memory was reached on rank 3"),
        (wide(), "", None, "Wait for it"),
    ],
)
def test_a_wrong_run_gets_the_hint_for_its_mistake(finished, recipe, printed, exit_code, words):
    assert words in hint_of(lesson03.ex03_wide, finished(recipe, printed, exit_code))


def test_a_gap_that_is_left_is_named(finished):
    assert "Still to fill in: micro_batch" in hint_of(lesson03.ex03_wide, wide(micro_batch=...))


@pytest.fixture
def dp4(finished):
    return finished(gpt.recipe("dp4", nodes=2, gpus_per_node=2, global_batch=8), log(batch=8))


def test_megabytes_hold_against_all_kinds_of_answers(dp4):
    wrong = {
        RIGHT_MB / 100: "in one iteration. The run had 100",
        RIGHT_MB / 1.5: "every piece is sent more than once",
        RIGHT_MB * 1e6: "right in bytes. The exercise asks for MB",
        RIGHT_MB * 4: "One gradient is 4 bytes",
        RIGHT_MB * 0.39: "One gradient is 4 bytes",
        f"{RIGHT_MB} GB": "You answered",
    }
    hold(
        "megabytes_sent",
        lambda answer: lesson03.ex03_megabytes(answer, dp4),
        RIGHT_MB,
        wrong,
        accepted=[round(RIGHT_MB), f"{RIGHT_MB / 1e3} GB"],
    )
