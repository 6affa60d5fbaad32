"""Lesson 07b: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

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
        ({"order": "pp-cp-dp-tp"}, "tensor and pipeline are swapped"),
        ({"tensor": 1, "pipeline": 4}, "You may have swapped the two kinds"),
        ({"tensor": 4, "pipeline": 1}, "nothing is left for a second stage"),
        ({"tensor": 1, "pipeline": 2, "data": 2}, "there are 2 copies of the model"),
        ({"tensor": 1, "pipeline": 1, "data": 4}, "tensor 1, pipeline 1, data 4"),
        ({"world": 2, "tensor": 2, "pipeline": 1}, "world line says world size 2"),
        ({"count": 16, "batch": 32}, "counted four devices as four copies"),
        ({"count": 2, "batch": 4}, "four of them are more than 4 samples"),
        ({"count": 1, "batch": 2}, "nothing fills the pipeline"),
        ({"count": 8, "batch": 16}, "number of micro-batches 8"),
    ],
)
def test_a_layout_that_runs_but_is_another_one_is_told_from_the_log(finished, changes, words):
    assert words in hint_of(lesson07b.ex07b_hybrid, finished(log(**changes)))


def test_a_run_on_one_node_is_told_from_its_recipe(finished):
    recipe = shell.recipe("hybrid", "srun torchrun", nodes=1, gpus_per_node=4)
    assert "It asked for 1 node." in hint_of(lesson07b.ex07b_hybrid, finished(log(), recipe))


def test_another_run_is_named(finished):
    recipe = shell.recipe("pipe-m8", "srun torchrun", nodes=1, gpus_per_node=2)
    said = hint_of(lesson07b.ex07b_hybrid, finished(log(world=2, tensor=1), recipe))
    assert "This is the run 'pipe-m8'; the recipe of the exercise is called 'hybrid'." in said
    said = hint_of(lesson07b.ex07b_hybrid, finished("hello\n"))
    assert "has no world line: this run started something else" in said


def test_a_run_of_the_lesson_fills_no_gap(finished):
    recipe = gpt.recipe("tensor-inside", nodes=2, gpus_per_node=2, tensor=2, pipeline=2)
    said = hint_of(lesson07b.ex07b_hybrid, finished(log(), recipe))
    assert "This is the run 'tensor-inside'" in said
    assert "The library wrote its flags. Fill the gaps" in said


def test_a_recipe_that_was_not_submitted_and_one_with_gaps_are_told_apart():
    recipe = shell.recipe("hybrid", "srun torchrun --nproc-per-node=2", nodes=2)
    assert "nothing has run yet" in hint_of(lesson07b.ex07b_hybrid, recipe)
    unfinished = shell.recipe("hybrid", "srun torchrun --nproc-per-node=...", nodes=2)
    assert "Still to fill in: line 1" in hint_of(lesson07b.ex07b_hybrid, unfinished)


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        (
            "--global-batch-size 7 is not a multiple of micro batch 2 × data 1 = 2; use 6 or 8",
            "A step consists of whole micro-batches",
        ),
        (
            "2 devices cannot be split into copies of tensor 2 × context 1 × pipeline 2 = 4 "
            "devices; start 4, 8, 16 … devices, or choose sizes whose product divides 2",
            "nodes, --nnodes and --nproc-per-node",
        ),
        (
            "--num-attention-heads 4 cannot be shared by tensor 3; use a multiple of 3 (3 or 6)",
            "names the numbers and some that would work",
        ),
    ],
)
def test_what_the_program_refused_is_told_in_its_own_words(finished, sentence, words):
    run = finished(f"pretrain_gpt.py: error: {sentence}\n", exit_code=1)
    said = hint_of(lesson07b.ex07b_hybrid, run)
    assert "✗ the layout fits the devices and the batch" in said
    assert sentence in said
    assert words in said


def test_a_run_that_failed_for_another_reason_is_told_with_its_cause(finished):
    text = "[rank1]: ModuleNotFoundError: No module named 'numpie'\n"
    said = hint_of(lesson07b.ex07b_hybrid, finished(text, exit_code=1))
    assert "✗ the run ended well" in said
    assert "numpie" in said


def test_a_job_that_still_runs_is_waited_for(lab):
    run = lab.submit(shell.recipe("hybrid", "sleep 60"))
    try:
        assert "Wait for it" in hint_of(lesson07b.ex07b_hybrid, run)
    finally:
        lab.cancel(run)
        run.wait(30)


@pytest.mark.parametrize("answer", [63, 7 * 0.9 / 0.1])
def test_the_bubble_of_eight_stages(capsys, answer):
    lesson07b.ex07b_bubble(answer)
    assert "no smaller number" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (..., "Replace the ..."),
        (70, "a tenth of the *work*"),
        (72, "all stages into the numerator"),
        (80, "all stages into the numerator"),
        (32, "for two chunks on each stage"),
        (31.5, "for two chunks on each stage"),
        (21, "for the zero-bubble order"),
        (78, "take the waiting away"),
        (62.5, "cannot be sent"),
        (0.1, "0.1 is a share"),
        (27, "That is for four stages"),
        (10, "how many percent of the time are bubble"),
        (0, "cannot be sent"),
        (62, "that is just too much waiting"),
        (61, "With 61 micro-batches it is 10.3 %"),
        (8, "leave nearly half of the time as bubble"),
        (64, "took p for p − 1"),
        (65, "It may be larger"),
    ],
)
def test_a_wrong_number_of_micro_batches_meets_its_hint(answer, words):
    assert words in hint_of(lesson07b.ex07b_bubble, answer)


@pytest.fixture
def data_only(finished):
    """Gradients of 6.4 MB in a ring of 4 against 131 kB per sample: 73.2 samples, so 76."""
    recipe = gpt.recipe(
        "data-only-fast", nodes=2, gpus_per_node=2, mock_data=True, global_batch=8,
        model=Model("deep", 8, 128, 4, 128, vocabulary=512),
    )  # fmt: skip
    text = WORLD.format(**RIGHT | {"data": 4, "tensor": 1, "pipeline": 1})
    return finished(text + PARAMETERS.format(parameters=1_600_000) + ITERATION.format(batch=8),
                    recipe)  # fmt: skip


def test_the_batch_from_which_gradients_are_cheaper(data_only):
    lesson07b.ex07b_crossing(76, data_only)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("not 76", "is a number"),
        (36, "R four times per sample"),
        (100, "The factor of a ring of 4 is 2 (4 − 1) / 4, not 2"),
        (300, "Gradients have 4 bytes each"),
        (293, "do not multiply by them"),
        (18, "Or: That is what one of the copies takes"),
        (588, "R is what one sample sends"),
        (12, "R is what one sample sends"),
        (8, "the batch of this run"),
        (9.6, "the MB that data parallelism sends"),
        (9.1553, "how many times as much"),
        (74, "Which multiple of 4 comes next?"),
        (80, "There is a smaller one."),
        (72, "The pipeline still sends less."),
        (148, "How many ranks of stage 0 send it?"),
        (48, "In the ring they travel further"),
    ],
)
def test_a_wrong_batch_meets_its_hint(data_only, answer, words):
    assert words in hint_of(lesson07b.ex07b_crossing, answer, data_only)


def test_the_crossing_is_checked_on_the_run_with_data_parallelism_only(finished):
    assert "'hybrid', which started something else" in hint_of(
        lesson07b.ex07b_crossing, 76, finished(log())
    )
    tensor = gpt.recipe("tensor", nodes=2, gpus_per_node=2, tensor=2, pipeline=2, micro_batch=2)
    assert "has data-parallel size 1 on 4 devices" in hint_of(
        lesson07b.ex07b_crossing, 76, finished(log(), tensor)
    )


def test_numbers_of_micro_batches_and_samples_hold_against_all_kinds_of_answers(data_only):
    hold("micro_batches_needed", lesson07b.ex07b_bubble, 63, [70, 72, 80, 62, 64, 32, 0, -63, 630])
    hold(
        "crossing_batch",
        lambda answer: lesson07b.ex07b_crossing(answer, data_only),
        76,
        [148, 36, 48, 100, 300, 19, 72, 80, 75, 73.2, -76],
    )
