"""Lesson 14: each wrong estimate is met by the hint for that mistake."""

from __future__ import annotations

import gzip
import json
import shutil

import pytest

from course_lib.lab.job.recipes import gpt
from course_lib.teach.checks import lesson14

from .answers_to_try import hold
from .finished_runs import hint_of

PARAMETERS_M, TFLOPS, DAYS = 124.44, 3.2586, 7.587
TOKENS, RATE, BIG_DAYS = 300e9, 154.02e12, 207.4


pytestmark = pytest.mark.usefixtures("workspace")


def test_the_published_lab_comes_out(capsys):
    lesson14.ex14_own(PARAMETERS_M, TFLOPS, DAYS)
    assert "✓ 10 billion tokens take so many days" in capsys.readouterr().out


def test_days_by_the_short_formula_are_taken_too(capsys):
    lesson14.ex14_own(PARAMETERS_M, TFLOPS, 6 * 10e9 * 124.44e6 / (4 * TFLOPS * 1e12) / 86400)
    assert "✓ 10 billion tokens" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((..., TFLOPS, DAYS), "Replace the ..."),
        ((PARAMETERS_M * 1e6, TFLOPS, DAYS), "these are single ones; millions are asked for"),
        ((84.9, TFLOPS, DAYS), "85 million are in the layers"),
        ((TFLOPS, PARAMETERS_M, DAYS), "the rate of a device"),
        ((PARAMETERS_M, DAYS, TFLOPS), "the number of days"),
        ((163.0, TFLOPS, DAYS), "a second table for the logits"),
        ((123.65, TFLOPS, DAYS), "You left out the table of positions"),
        ((110.0, TFLOPS, DAYS), "You answered 110 millions. Put l = 12"),
        ((PARAMETERS_M, 4 * TFLOPS, DAYS), "the four devices achieved together"),
        ((PARAMETERS_M, 4.06, DAYS), "This run did none."),
        ((PARAMETERS_M, 2.847, DAYS), "leaves out the products of queries and keys"),
        ((PARAMETERS_M, 3.0427, DAYS), "You counted causal attention, half of the scores"),
        ((PARAMETERS_M, TFLOPS / 1e3, DAYS), "You divided by 537"),
        ((PARAMETERS_M, TFLOPS, DAYS * 1e3), "You took the 537 ms for seconds"),
        ((PARAMETERS_M, 15.7, DAYS), "the peak on the data sheet of a V100"),
        ((PARAMETERS_M, TFLOPS / 3, DAYS), "That is the forward pass alone"),
        ((PARAMETERS_M, TFLOPS * 1e3, DAYS), "these are GFLOP/s"),
        ((PARAMETERS_M, 2.0, DAYS), "You answered 2 TFLOP/s. FLOPs of one iteration"),
        ((PARAMETERS_M, TFLOPS, DAYS / 4), "You are off by 4."),
        ((PARAMETERS_M, TFLOPS, DAYS * 24), "these are hours; days are asked for"),
        ((PARAMETERS_M, TFLOPS, 8.84), "The factor 8 counts a recomputation"),
        ((PARAMETERS_M, TFLOPS, 10e9 / 8192), "These are iterations"),
        ((PARAMETERS_M, TFLOPS, 12), "How many iterations are 10 billion tokens?"),
    ],
)
def test_a_wrong_estimate_of_the_lab_is_told_from_its_number(given, words):
    assert words in hint_of(lesson14.ex14_own, *given)


@pytest.mark.parametrize(
    ("days", "words"), [(207, ""), (213, ", some more than by the formula"), (212.5, ", some more")]
)
def test_the_days_may_be_counted_as_in_the_exercise_before(capsys, days, words):
    lesson14.ex14_repaired(TOKENS, RATE, days, 6)
    assert f"✓ the days follow from them{words}" in capsys.readouterr().out


def test_the_repaired_estimate_passes(capsys):
    lesson14.ex14_repaired(TOKENS, RATE, BIG_DAYS, 6)
    assert "✓ without recomputation" in capsys.readouterr().out


@pytest.mark.parametrize("rate", [8.18 * 18.4e9 * 512 * 1024 / 32.09 / 16, 1.537e14, 1.54e14])
def test_what_the_lesson_prints_rounded_may_be_used_for_the_rate(rate, capsys):
    lesson14.ex14_repaired(TOKENS, rate, BIG_DAYS, 6)
    assert "✓ each device achieved" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((300 * 10e9, RATE, BIG_DAYS, 6), "10e9 is ten times 1e9"),
        ((300, RATE, BIG_DAYS, 6), "A billion is 1e9"),
        ((TOKENS, 157.7 * 10e12, BIG_DAYS, 6), "the mistake that hid the one in the tokens"),
        ((TOKENS, 154.02 * 10e12, BIG_DAYS, 6), "the mistake that hid the one in the tokens"),
        ((TOKENS, 157.73e12, BIG_DAYS, 6), "how long is a sequence of this model?"),
        ((TOKENS, 154.02, BIG_DAYS, 6), "You gave TFLOP/s"),
        ((RATE, TOKENS, BIG_DAYS, 6), "the rate of a device"),
        ((TOKENS, 140e12, BIG_DAYS, 6), "the rate of GPT-3"),
        ((TOKENS, RATE, 33.9, 6), "That is for GPT-3"),
        ((TOKENS, 312e12, BIG_DAYS, 6), "which no training reaches"),
        ((TOKENS, 16 * RATE, BIG_DAYS, 6), "the 16 devices achieved together"),
        ((TOKENS, 115.99e12, BIG_DAYS, 6), "These are model FLOPs."),
        ((TOKENS, 153.83e12, BIG_DAYS, 6), "how long is a sequence of this model?"),
        ((TOKENS, 2e14, BIG_DAYS, 6), "That is rounded too far"),
        ((TOKENS, RATE, BIG_DAYS * 6 / 8, 6), "the factor 6 with a rate of hardware FLOPs"),
        ((TOKENS, RATE, 202.5, 6), "the mistyped sequence"),
        ((TOKENS, RATE, 218, 6), "Use days_of with your tokens"),
        ((TOKENS, RATE, BIG_DAYS, 8), "2 forward and 4 backward"),
        ((TOKENS, RATE, BIG_DAYS, 4 / 3), "That is the ratio of the two"),
        ((TOKENS, RATE, BIG_DAYS, 6.16), "That counts attention too"),
        ((TOKENS, RATE, BIG_DAYS, 6 * 18.4e9), "You multiplied already"),
        ((TOKENS, RATE, BIG_DAYS, ...), "Replace the ..."),
    ],
)
def test_a_mistake_that_is_left_in_the_estimate_is_named(given, words):
    assert words in hint_of(lesson14.ex14_repaired, *given)


PARTS_MIB = {"parameters": 17.07, "gradients": 17.07, "optimizer": 34.14, "activations": 28.1}
SHARDED_MIB = PARTS_MIB | {"gradients": 21.34, "optimizer": 8.53}
BEFORE_MIB, AFTER_MIB = sum(PARTS_MIB.values()), sum(SHARDED_MIB.values())


def recipe(name, micro_batch=2, **more):
    small = gpt.model("tiny").but(name="small", layers=6, hidden=192)
    return gpt.recipe(name, model=small, micro_batch=micro_batch, nodes=2, gpus_per_node=2, **more)


@pytest.fixture
def finished(finished):
    """A run folder as a job leaves it behind, whose trace has these parts."""

    def make(recipe, parts_mib, exit_code=0):
        run = finished(recipe, "torch.OutOfMemoryError: CUDA out of memory.\n", exit_code)
        (run.folder / "memory").mkdir()
        header = {"format": "course-memory-1", "rank": 0, "world_size": 4, "start_unix_ns": 1,
                  "node": "node1", "device": "cpu", "categories": list(parts_mib),
                  "limit_bytes": None, "layout": {}, "note": ""}  # fmt: skip
        lines = [["alloc", n, n, int(mib * 2**20), n] for n, mib in enumerate(parts_mib.values())]
        with gzip.open(run.folder / "memory" / "rank0.jsonl.gz", "wt") as out:
            out.writelines(json.dumps(line) + "\n" for line in [header, *lines])
        return run

    return make


@pytest.fixture
def target(finished):
    return finished(recipe("target"), PARTS_MIB)


def test_a_peak_that_was_foreseen_passes(finished, target, capsys):
    run = finished(recipe("sharded", zero=1), SHARDED_MIB)
    lesson14.ex14_sharded(AFTER_MIB * 1.01, run, target)
    assert "✓ the prediction is within 3 %" in capsys.readouterr().out


PREDICTED_MIB = (BEFORE_MIB - 34.14 / 2) * 1e6 / 2**20
"""In MB it is what is left without half of the optimizer's state."""


@pytest.mark.parametrize(
    ("predicted_mib", "words"),
    [
        (BEFORE_MIB, "Of its 34.1 MiB of optimizer state, a device now keeps a part"),
        (AFTER_MIB - 4.27, "25.6 MiB of optimizer state are gone, but another part has grown"),
        (BEFORE_MIB - 34.14 / 2, "half of the optimizer state"),
        (BEFORE_MIB - 34.14 / 4, "A quarter is what a device keeps"),
        (4 * AFTER_MIB, "what all 4 devices hold together"),
        (BEFORE_MIB - AFTER_MIB, "That is what is saved"),
        (AFTER_MIB * 2**20 / 1e6, "these are MB"),
        (PREDICTED_MIB * 2**20 / 1e6, "Or: The unit is another one: these are MB"),
        (79.0, "half of the optimizer state"),
        (79.0, "Or: The unit is another one: these are MB"),
        (float("nan"), "which is not finite"),
        (60, "You answered 60 MiB. Measured were 75.0 MiB"),
        (..., "Replace the ..."),
    ],
)
def test_a_peak_that_was_not_foreseen_says_which_part_was_forgotten(
    finished, target, predicted_mib, words
):
    run = finished(recipe("sharded", zero=1), SHARDED_MIB)
    assert words in hint_of(lesson14.ex14_sharded, predicted_mib, run, target)


def test_another_run_than_the_one_asked_for_is_seen(finished, target):
    plain = finished(recipe("sharded"), PARTS_MIB)
    assert "Its zero is 0." in hint_of(lesson14.ex14_sharded, AFTER_MIB, plain, target)
    fsdp = finished(recipe("fsdp", zero=3), SHARDED_MIB)
    assert "keeps parameters and gradients whole" in hint_of(
        lesson14.ex14_sharded, AFTER_MIB, fsdp, target
    )
    alone = finished(recipe("alone", zero=1).but(nodes=1, gpus_per_node=4), SHARDED_MIB)
    assert "It had 1 × 4" in hint_of(lesson14.ex14_sharded, AFTER_MIB, alone, target)
    bigger = finished(recipe("bigger", micro_batch=4, zero=1), SHARDED_MIB)
    assert "sharded.compare(target)" in hint_of(lesson14.ex14_sharded, AFTER_MIB, bigger, target)


def test_a_run_that_failed_shows_why(finished, target):
    failed = finished(recipe("sharded", zero=1), SHARDED_MIB, exit_code=1)
    assert "out of memory" in hint_of(lesson14.ex14_sharded, AFTER_MIB, failed, target)


def test_the_estimate_of_the_lab_holds_against_all_kinds_of_answers():
    def own(**changes):
        given = {"parameters": PARAMETERS_M, "tflops": TFLOPS, "days": DAYS} | changes
        lesson14.ex14_own(given["parameters"], given["tflops"], given["days"])

    millions = [124.44e6, 0.12444, 124440, 84.9, 163, 123.65, 118.67]
    hold("parameters_millions", lambda answer: own(parameters=answer), PARAMETERS_M, millions,
         accepted=[124])  # fmt: skip
    rates = [TFLOPS * 1e12, TFLOPS * 1e3, TFLOPS * 4, TFLOPS / 3, TFLOPS * 2 / 3, TFLOPS / 8, 4.06,
             15.7]  # fmt: skip
    hold("tflops_per_device", lambda answer: own(tflops=answer), TFLOPS, rates)
    days = [DAYS * 24, DAYS * 86400, DAYS / 7, DAYS * 4, DAYS / 4, DAYS * 8, DAYS * 1024, 8.84]
    hold("training_days", lambda answer: own(days=answer), DAYS, days, accepted=[6.63])


def test_the_repaired_estimate_holds_against_all_kinds_of_answers():
    def repaired(**changes):
        given = {"tokens": TOKENS, "rate": RATE, "days": BIG_DAYS, "factor": 6} | changes
        lesson14.ex14_repaired(given["tokens"], given["rate"], given["days"], given["factor"])

    tokens = [3e12, 300, 300e6, 3e10]
    hold("right_tokens", lambda answer: repaired(tokens=answer), TOKENS, tokens)
    rates = [RATE * 10, RATE / 1e12, RATE / 1e9, RATE * 16, RATE / 3, 312e12, 157.73e12, 115.99e12]
    hold("right_flops_per_s", lambda answer: repaired(rate=answer), RATE, rates)
    days = [BIG_DAYS * 0.75, 202.5, BIG_DAYS * 16, BIG_DAYS * 24, BIG_DAYS * 10, BIG_DAYS / 365.25]
    hold("right_days", lambda answer: repaired(days=answer), BIG_DAYS, days,
         accepted=[207, 212.5, 213])  # fmt: skip
    hold("factor_without_recomputation", lambda answer: repaired(factor=answer), 6, [8, 5, 7])


def test_the_predicted_peak_holds_against_all_kinds_of_answers(finished, target):
    run = finished(recipe("sharded", zero=1), SHARDED_MIB)
    wrong = [AFTER_MIB * factor for factor in (2**20 / 1e6, 2**10, 2**20, 1 / 2**10)]
    hold(
        "predicted_mib",
        lambda answer: lesson14.ex14_sharded(answer, run, target),
        AFTER_MIB,
        [*wrong, BEFORE_MIB, BEFORE_MIB - 34.14 / 2, BEFORE_MIB - 34.14, BEFORE_MIB - 25.6],
    )


def test_a_run_without_a_memory_trace_is_asked_for_one(finished, target):
    run = finished(recipe("sharded", zero=1), SHARDED_MIB)
    (run.folder / "memory" / "rank0.jsonl.gz").unlink()
    for _ in range(2):
        said = hint_of(lesson14.ex14_sharded, AFTER_MIB, run, target)
        assert "Give the recipe memory=(7, 8)" in said
        shutil.rmtree(run.folder / "memory", ignore_errors=True)


@pytest.mark.parametrize(("sequence", "hint"), [(1048, "digit by digit"), (1024, " out the ")])
def test_two_shortcuts_and_the_mistyped_sequence_do_not_make_up_for_each_other(sequence, hint):
    by_parameters = 8 * 18.4e9 * 512 * sequence
    without_logits = 96 * 512 * sequence * 40 * 6144**2 * (1 + sequence / (6 * 6144))
    for flops in (by_parameters, without_logits):
        rate = flops / 32.09 / 16
        assert hint in hint_of(lesson14.ex14_repaired, TOKENS, rate, BIG_DAYS, 6)
