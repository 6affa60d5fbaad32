"""Lesson 14: each wrong estimate is met by the hint for that mistake."""

from __future__ import annotations

import gzip
import json

import pytest

from course_lib.lab.job.recipes import gpt
from course_lib.teach.checks import lesson14

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
        ((PARAMETERS_M * 1e6, TFLOPS, DAYS), "divide by 1e6"),
        ((84.9, TFLOPS, DAYS), "85 million are in the layers"),
        ((163.0, TFLOPS, DAYS), "a second table for the logits"),
        ((100.0, TFLOPS, DAYS), "You answered 100 million. Put l = 12"),
        ((PARAMETERS_M, 4 * TFLOPS, DAYS), "the four devices achieved together"),
        ((PARAMETERS_M, 4.06, DAYS), "This run did none."),
        ((PARAMETERS_M, 2.847, DAYS), "leaves out the products of queries and keys"),
        ((PARAMETERS_M, 15.7, DAYS), "You answered 15.7. FLOPs of one iteration"),
        ((PARAMETERS_M, TFLOPS, DAYS / 4), "You are off by 4."),
        ((PARAMETERS_M, TFLOPS, DAYS * 24), "a day has 86 400 s"),
        ((PARAMETERS_M, TFLOPS, 8.84), "How many iterations are 10 billion tokens?"),
    ],
)
def test_a_wrong_estimate_of_the_lab_is_told_from_its_number(given, words):
    assert words in hint_of(lesson14.ex14_own, *given)


def test_the_repaired_estimate_passes(capsys):
    lesson14.ex14_repaired(TOKENS, RATE, BIG_DAYS, 6)
    assert "✓ without recomputation" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((300 * 10e9, RATE, BIG_DAYS, 6), "10e9 is ten times 1e9"),
        ((300, RATE, BIG_DAYS, 6), "A billion is 1e9"),
        ((TOKENS, 157.7 * 10e12, BIG_DAYS, 6), "the mistake that hid the one in the tokens"),
        ((TOKENS, 154.02 * 10e12, BIG_DAYS, 6), "the mistake that hid the one in the tokens"),
        ((TOKENS, 157.73e12, BIG_DAYS, 6), "how long is a sequence of this model?"),
        ((TOKENS, 154.02, BIG_DAYS, 6), "You gave TFLOP/s"),
        ((TOKENS, 312e12, BIG_DAYS, 6), "which no training reaches"),
        ((TOKENS, 16 * RATE, BIG_DAYS, 6), "the 16 devices achieved together"),
        ((TOKENS, 115.99e12, BIG_DAYS, 6), "These are model FLOPs."),
        ((TOKENS, 2e14, BIG_DAYS, 6), "You gave 2e+14."),
        ((TOKENS, RATE, BIG_DAYS * 6 / 8, 6), "the factor 6 with a rate of hardware FLOPs"),
        ((TOKENS, RATE, 203, 6), "Use days_of with your tokens"),
        ((TOKENS, RATE, BIG_DAYS, 8), "2 forward and 4 backward"),
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


@pytest.mark.parametrize(
    ("predicted_mib", "words"),
    [
        (BEFORE_MIB, "Of its 34.1 MiB of optimizer state, a device now keeps a part"),
        (AFTER_MIB - 4.27, "25.6 MiB of optimizer state are gone, but another part has grown"),
        (AFTER_MIB * 2**20 / 1e6, "these are MB"),
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
    bigger = finished(recipe("bigger", micro_batch=4, zero=1), SHARDED_MIB)
    assert "sharded.compare(target)" in hint_of(lesson14.ex14_sharded, AFTER_MIB, bigger, target)


def test_a_run_that_failed_shows_why(finished, target):
    failed = finished(recipe("sharded", zero=1), SHARDED_MIB, exit_code=1)
    assert "out of memory" in hint_of(lesson14.ex14_sharded, AFTER_MIB, failed, target)
