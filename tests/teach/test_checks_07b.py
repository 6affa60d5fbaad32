"""Lesson 07b: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import gpt, shell
from course_lib.plan import Model
from course_lib.teach.checks import lesson07b

from .answers_to_try import hold
from .finished_runs import hint_of

WORLD = (
    "using world size: {world}, data-parallel-size: {data}, tensor-model-parallel size: {tensor}, "
    "pipeline-model-parallel size: {pipeline}\n"
    "------------------------ arguments ------------------------\n"
    "  rank_order ...................................... {order}\n"
    "-------------------- end of arguments ---------------------\n"
    "setting number of micro-batches to constant {count}\n"
)
ITERATION = (
    " iteration       10/      10 | consumed samples:           80 | elapsed time per iteration "
    "(ms): 83.0 | learning rate: 8.750E-04 | global batch size: {batch:5d} | lm loss: 6.282860E+00 "
    "| loss scale: 1.0 | grad norm: 3.572 | number of skipped iterations:   0 | number of nan "
    "iterations:   0 |\n"
)
RIGHT = {
    "world": 4, "data": 1, "tensor": 2, "pipeline": 2, "order": "tp-cp-dp-pp", "count": 4,
    "batch": 8,
}  # fmt: skip
PARAMETERS = (
    " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): {parameters}\n"
)


@pytest.fixture
def finished(finished):
    """A run folder with this log, as a job leaves it behind."""

    def make(log: str, recipe: Recipe | None = None, exit_code: int = 0):
        hybrid = shell.recipe("hybrid", "srun torchrun", nodes=2, gpus_per_node=2)
        return finished(recipe or hybrid, log, exit_code)

    return make


def log(**changes):
    values = RIGHT | changes
    return WORLD.format(**values) + ITERATION.format(**values)


def test_the_hybrid_run_that_was_asked_for_passes(finished, capsys):
    lesson07b.ex07b_hybrid(finished(log()))
    assert "✓ tensor 2 × pipeline 2" in capsys.readouterr().out


def test_an_order_that_is_not_printed_is_megatrons_own_and_passes(finished):
    lesson07b.ex07b_hybrid(finished(log().replace("rank_order", "something_else")))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"order": "pp-cp-dp-tp"}, "are two stages"),
        ({"tensor": 1, "pipeline": 4}, "tensor 1, pipeline 4, data 1"),
        ({"tensor": 1, "pipeline": 2, "data": 2}, "data ranks have a copy of the model each"),
        ({"world": 2, "tensor": 2, "pipeline": 1}, "✗ processes in one world: 4\n  It is 2."),
        ({"count": 16, "batch": 32}, "nor multiplied by the number of devices"),
        ({"count": 2, "batch": 4}, "It is 4."),
        ({"count": 1}, "It is 1. global batch = micro batch"),
    ],
)
def test_a_layout_that_runs_but_is_another_one_is_told_from_the_log(finished, changes, words):
    assert words in hint_of(lesson07b.ex07b_hybrid, finished(log(**changes)))


def test_another_run_than_that_of_the_exercise_is_told_so(finished):
    recipe = shell.recipe("hybrid", "srun torchrun", nodes=1, gpus_per_node=4)
    assert "It is 1 × 4." in hint_of(lesson07b.ex07b_hybrid, finished(log(), recipe))
    lessons_own = gpt.recipe("tensor-inside", nodes=2, gpus_per_node=2, tensor=2, pipeline=2)
    said = hint_of(lesson07b.ex07b_hybrid, finished(log(), lessons_own))
    assert "It is tensor-inside." in said
    assert "started something else" in hint_of(lesson07b.ex07b_hybrid, finished("hello\n"))


def test_a_recipe_that_was_not_submitted_and_one_with_gaps_are_told_apart():
    recipe = shell.recipe("hybrid", "srun torchrun --nproc-per-node=2", nodes=2)
    assert "submit the recipe" in hint_of(lesson07b.ex07b_hybrid, recipe)
    unfinished = shell.recipe("hybrid", "srun torchrun --nproc-per-node=...", nodes=2)
    assert "Still to fill in: line 1" in hint_of(lesson07b.ex07b_hybrid, unfinished)


def test_what_the_program_refused_is_told_in_its_own_words(finished):
    sentence = "--global-batch-size 7 is not a multiple of micro batch 2 × data 1 = 2; use 6 or 8"
    run = finished(f"pretrain_gpt.py: error: {sentence}\n", exit_code=1)
    assert sentence in hint_of(lesson07b.ex07b_hybrid, run)


def test_a_job_that_still_runs_is_waited_for(lab):
    run = lab.submit(shell.recipe("hybrid", "sleep 60"))
    try:
        assert "Wait for it" in hint_of(lesson07b.ex07b_hybrid, run)
    finally:
        lab.cancel(run)
        run.wait(30)


@pytest.fixture
def data_only(finished):
    """Gradients of 6.4 MB in a ring of 4, against 131 kB per sample, give 73.2 samples, so 76."""
    recipe = gpt.recipe(
        "data-only-fast", nodes=2, gpus_per_node=2, mock_data=True, global_batch=8,
        model=Model("deep", 8, 128, 4, 128, vocabulary=512),
    )  # fmt: skip
    text = WORLD.format(**RIGHT | {"data": 4, "tensor": 1, "pipeline": 1})
    return finished(text + PARAMETERS.format(parameters=1_600_000) + ITERATION.format(batch=8),
                    recipe)  # fmt: skip


def test_the_crossing_is_checked_on_the_run_with_data_parallelism_only(finished):
    assert "'hybrid', which started something else" in hint_of(
        lesson07b.ex07b_crossing, 76, finished(log())
    )
    tensor = gpt.recipe("tensor", nodes=2, gpus_per_node=2, tensor=2, pipeline=2, micro_batch=2)
    assert "It is 1." in hint_of(lesson07b.ex07b_crossing, 76, finished(log(), tensor))


def test_numbers_of_micro_batches_and_samples_hold_against_all_kinds_of_answers(data_only):
    bubble = {
        70: "a tenth of the *work*", 72: "p - 1 of m + p - 1 units", 80: "p - 1 of m + p - 1 units",
        8: "the smallest whole number", 62.5: "bubble is 10.1 %", 61: "bubble is 10.3 %",
        65: "the smallest whole number",
    }  # fmt: skip
    crossing = {
        148: "the pipeline sends", 36: "the pipeline sends", 52: "In a ring the gradients",
        20: "one copy of the model", 74: "the first multiple of 4", 80: "the first multiple of 4",
        72: "the pipeline sends 9.44 MB",
    }  # fmt: skip
    pipeline = SimpleNamespace(stages=8)
    hold(
        "micro_batches_needed",
        lambda answer: lesson07b.ex07b_bubble(answer, pipeline),
        63,
        bubble,
        accepted=[7 * 0.9 / 0.1],
    )
    hold(
        "crossing_batch",
        lambda answer: lesson07b.ex07b_crossing(answer, data_only),
        76,
        crossing,
    )
