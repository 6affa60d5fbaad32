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


def test_another_run_than_the_one_asked_for_is_seen(finished, target):
    plain = finished(recipe("sharded"), PARTS_MIB)
    assert "Its zero is 0." in hint_of(lesson14.ex14_sharded, AFTER_MIB, plain, target)
    fsdp = finished(recipe("fsdp", zero=3), SHARDED_MIB)
    assert "keeps parameters and gradients whole" in hint_of(
        lesson14.ex14_sharded, AFTER_MIB, fsdp, target
    )
    alone = finished(recipe("alone", zero=1).but(nodes=1, gpus_per_node=4), SHARDED_MIB)
    assert "the devices" in hint_of(lesson14.ex14_sharded, AFTER_MIB, alone, target)
    bigger = finished(recipe("bigger", micro_batch=4, zero=1), SHARDED_MIB)
    assert "These flags differ: --global-batch" in hint_of(
        lesson14.ex14_sharded, AFTER_MIB, bigger, target
    )


def test_a_run_that_failed_shows_why(finished, target):
    failed = finished(recipe("sharded", zero=1), SHARDED_MIB, exit_code=1)
    assert "out of memory" in hint_of(lesson14.ex14_sharded, AFTER_MIB, failed, target)


def test_the_estimate_of_the_lab_holds_against_all_kinds_of_answers():
    def own(**changes):
        given = {"parameters": PARAMETERS_M, "tflops": TFLOPS, "days": DAYS} | changes
        lesson14.ex14_own(given["parameters"], given["tflops"], given["days"])

    millions = {
        124.44e6: "single parameters", 84.9: "only the layers",
        163: "a second table for the logits", 82: "8 h² of 12 h²",
        110: "You answered 110 millions. Put l = 12",
    }  # fmt: skip
    accepted = [124, "124,400,000 parameters", "124.4 M"]
    hold("parameters_millions", lambda answer: own(parameters=answer), PARAMETERS_M, millions,
         accepted=accepted)  # fmt: skip
    rates = {
        4 * TFLOPS: "all four devices", 4.06: "This run did none.", 2.847: "leaves out the "
        "products of queries and keys", TFLOPS / 1e3: "FLOPs of one iteration",
        2.0: "FLOPs of one iteration",
    }  # fmt: skip
    hold("tflops_per_device", lambda answer: own(tflops=answer), TFLOPS, rates)
    days = {
        DAYS * 24: "right in hours. The exercise asks for days",
        DAYS * 1e3: "You took the 537 ms for seconds", 8.84: "The factor 8 counts",
        10e9 / 8192: "the number of iterations", 12: "How many iterations",
    }  # fmt: skip
    hold(
        "training_days", lambda answer: own(days=answer), DAYS, days, accepted=[6.63, "1.08 weeks"]
    )


def test_the_repaired_estimate_holds_against_all_kinds_of_answers():
    def repaired(**changes):
        given = {"tokens": TOKENS, "rate": RATE, "days": BIG_DAYS, "factor": 6} | changes
        lesson14.ex14_repaired(given["tokens"], given["rate"], given["days"], given["factor"])

    tokens = {3e12: "10e9 is ten times 1e9", 300: "A billion is 1e9", RATE: "300 billion"}
    hold("right_tokens", lambda answer: repaired(tokens=answer), TOKENS, tokens,
         accepted=["300 billion", "3e11 tokens"])  # fmt: skip
    digits = "how long is a sequence of this model?"
    rates = {
        157.7 * 10e12: "is ten tera", 154.02 * 10e12: "is ten tera", 157.73e12: digits,
        153.83e12: digits, 150.2e12: "keep three digits", 2e14: "FLOPs of one iteration",
    }  # fmt: skip
    hold("right_flops_per_s", lambda answer: repaired(rate=answer), RATE, rates,
         accepted=[8.18 * 18.4e9 * 512 * 1024 / 32.09 / 16, 1.54e14, "154 TFLOP/s"])  # fmt: skip
    days = {
        BIG_DAYS * 0.75: "The factor 6 does not fit", 202.5: "the mistyped sequence",
        1972.6: "That is for GPT-3", BIG_DAYS * 24: "Use days_of", 218: "Use days_of",
    }  # fmt: skip
    hold("right_days", lambda answer: repaired(days=answer), BIG_DAYS, days,
         accepted=[207, 212.5, 213])  # fmt: skip
    factors = {
        8: "2 FLOPs in forward and 4 in backward",
        4 / 3: "the ratio of the two factors",
        5: "2 FLOPs in forward and 4 in backward",
    }
    hold("factor_without_recomputation", lambda answer: repaired(factor=answer), 6, factors)


def test_the_predicted_peak_holds_against_all_kinds_of_answers(finished, target):
    run = finished(recipe("sharded", zero=1), SHARDED_MIB)
    wrong = {
        BEFORE_MIB: "Of its 34.1 MiB of optimizer state, a device now keeps a part",
        AFTER_MIB - 4.27: "25.6 MiB of optimizer state are gone, but another part has grown",
        BEFORE_MIB - 34.14: "still keeps its own part",
        60: "You answered 60 MiB. The measured peak is 75.0 MiB",
    }  # fmt: skip
    hold(
        "predicted_mib",
        lambda answer: lesson14.ex14_sharded(answer, run, target),
        AFTER_MIB,
        wrong,
        accepted=[AFTER_MIB * 1.01],
    )


def test_a_run_without_a_memory_trace_is_asked_for_one(finished, target):
    run = finished(recipe("sharded", zero=1), SHARDED_MIB)
    (run.folder / "memory" / "rank0.jsonl.gz").unlink()
    for _ in range(2):
        said = hint_of(lesson14.ex14_sharded, AFTER_MIB, run, target)
        assert "Give the recipe memory=(7, 8)" in said
        shutil.rmtree(run.folder / "memory", ignore_errors=True)
