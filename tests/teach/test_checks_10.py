"""Lesson 10: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import pytest

from course_lib.lab.job.recipes import gpt, program
from course_lib.teach.checks import lesson10

from .answers_to_try import hold
from .finished_runs import hint_of

LOG = """using world size: {world}, data-parallel-size: {world}, tensor-model-parallel size: 1, \
pipeline-model-parallel size: 1
setting number of micro-batches to constant {count}
 > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 2000000
 iteration        3/       3 | consumed samples:           96 | elapsed time per iteration (ms): \
83.0 | learning rate: 8.750E-04 | global batch size: {batch:5d} | lm loss: 6.282860E+00 | \
loss scale: 1.0 | grad norm: 3.572 | number of skipped iterations:   0 | \
number of nan iterations:   0 |
"""


@pytest.fixture
def finished(finished):
    """The folder that a run of this recipe leaves behind."""

    def make(recipe, text="", exit_code=0):
        flags, world = recipe.flags, recipe.devices
        batch = int(flags.get("--global-batch-size", 1))
        count = batch // (int(flags.get("--micro-batch-size", 1)) * world)
        log = LOG.format(world=world, count=count, batch=batch)
        return finished(recipe, text or log, exit_code)

    return make


def fits(name="fits", nodes=2, micro_batch=2, global_batch=32, **more):
    return gpt.recipe(name, nodes=nodes, gpus_per_node=2, micro_batch=micro_batch,
                      global_batch=global_batch, **{"iterations": 3} | more)  # fmt: skip


def test_four_micro_batches_of_two_pass(finished, capsys):
    lesson10.ex10_fits(finished(fits()))
    assert "✓ a step counted 32 samples" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (fits(micro_batch=8), "--micro-batch-size of fits is 8. So many samples are in a device"),
        (fits(micro_batch=1), "more often than it has to"),
        (fits(global_batch=8), "neither the batch of one device"),
        (fits(global_batch=128), "nor multiplied by the number of devices"),
        (fits(global_batch=16), "The iteration lines say 16."),
        (fits(nodes=1), "It had 1 × 2"),
        (fits(name="all-at-once"), "This is the run 'all-at-once'"),
        (fits(iterations=5), "--train-iters of fits is 5"),
        (fits(tensor=2), "a model that is split needs several devices"),
    ],
)
def test_another_recipe_meets_its_hint(finished, recipe, words):
    run = finished(recipe)
    if recipe.flags["--tensor-model-parallel-size"] == "2":
        log = run.text.replace("data-parallel-size: 4", "data-parallel-size: 2")
        run.log_file.write_text(log)
    assert words in hint_of(lesson10.ex10_fits, run)


def test_the_run_of_another_program_is_named(finished):
    recipe = program.recipe("sync-last", "accumulate_ddp.py", nodes=2, sync="last")
    assert "This is the run 'sync-last'" in hint_of(lesson10.ex10_fits, finished(recipe, "hello"))


def test_a_failed_run_is_told_with_its_cause(finished):
    refusal = "--global-batch-size 30 is not a multiple of micro batch 2 × data 4 = 8; use 24 or 32"
    run = finished(fits(), f"pretrain_gpt.py: error: {refusal}\n", exit_code=1)
    assert refusal in hint_of(lesson10.ex10_fits, run)


def test_needless_megabytes_hold_against_all_kinds_of_answers(finished):
    """2 million parameters: 8 MB of gradients, 15 MB for an exchange in a ring of 16."""
    run = finished(fits("all-at-once"))
    wrong = {
        105e6: "right in bytes. The exercise asks for MB (10⁶ bytes)", 56: "more than once",
        120: "One of the eight exchanges is needed", 15: "That is one exchange",
        105 / 2: "You answered 52.5 MB", 101: "You answered 101 MB", 90: "d is 16",
    }  # fmt: skip
    hold("needless_mb", lambda answer: lesson10.ex10_needless(answer, run), 105, wrong)
