"""Lesson 14: each wrong estimate is met by the hint for that mistake."""

from __future__ import annotations

import gzip
import json
import math
import shutil

import numpy as np
import pytest

from course_lib import plan
from course_lib.lab.job.recipes import gpt
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks import lesson14

from .answers_to_try import hold
from .finished_runs import hint_of

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
    assert "✗ zero: 1\n  It is 0." in hint_of(lesson14.ex14_sharded, AFTER_MIB, plain, target)
    fsdp = finished(recipe("fsdp", zero=3), SHARDED_MIB)
    assert "shards the optimizer state only" in hint_of(
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


def by_parts(layers, hidden, heads, kv_heads, mlp, vocabulary, sequence):
    size = hidden // heads
    query, key, value = hidden * heads * size, hidden * kv_heads * size, hidden * kv_heads * size
    layer = query + key + value + heads * size * hidden + 3 * hidden * mlp
    weights = layers * (layer + 2 * hidden) + 2 * vocabulary * hidden + hidden
    flops = 6 * (layers * layer + vocabulary * hidden)
    return weights, flops + layers * 3 * (2 * sequence * hidden + 2 * sequence * hidden)


def by_loop(layers, hidden, heads, kv_heads, mlp, vocabulary, sequence):
    h, narrow, table = hidden, hidden * kv_heads // heads, vocabulary * hidden
    parameters, flops = h + table, 0
    matrices = [(h, h), (h, narrow), (h, narrow), (h, h), *3 * [(h, mlp)]]
    for _layer in range(layers):
        parameters += 2 * h
        flops += 2 * 2 * sequence * h * 3
        for shape in matrices:
            parameters += math.prod(shape)
            flops += 6 * math.prod(shape)
    return [parameters + table, flops + 6 * table]


def in_numpy(*sizes):
    layers, hidden, heads, kv_heads, mlp, vocabulary, sequence = map(np.float64, sizes)
    parameters, flops = by_parts(layers, hidden, heads, kv_heads, mlp, vocabulary, sequence)
    return np.array([parameters, flops])


def with_norms_in_the_flops(layers, hidden, *others):
    parameters, flops = by_parts(layers, hidden, *others)
    return parameters, flops + 6 * (2 * layers + 1) * hidden


@pytest.mark.parametrize("count", [by_parts, by_loop, in_numpy, with_norms_in_the_flops])
def test_a_count_of_todays_models_passes_in_any_style(count, capsys):
    lesson14.ex14_today(count)
    assert capsys.readouterr().out.count("✓") == 6


def count_with(**mistake):
    """Return a function of a learner who makes this mistake."""
    asked = [*lesson14.PUBLISHED.values(), lesson14._drawn(Checklist("14.1"))]
    answers = {tuple(sizes.values()): lesson14._count(**sizes, **mistake) for sizes in asked}
    return lambda *sizes: answers[sizes]


@pytest.mark.parametrize(("mistake", "hint"), lesson14.MISTAKES)
def test_each_mistake_in_the_count_has_its_hint(mistake, hint):
    said = hint_of(lesson14.ex14_today, count_with(**mistake))
    assert hint in said
    assert "times the right number" in said


@pytest.mark.parametrize(
    ("count", "hint"),
    [
        (lambda *sizes: (8_030_261_248, 57_912_852_480), "405B"),
        (lambda *sizes: 5, "TypeError"),
        (lambda *sizes: None, "Your function returned nothing"),
        (lambda *sizes: ("many", 2), "return two numbers"),
        (lambda *sizes: tuple(2 * one for one in by_parts(*sizes)), "2 times the right number"),
        (lambda *sizes: plan.parameters(plan.preset("llama-8b")), "of the course"),
        (5, "It is 5 now; give the check the function itself"),
    ],
)
def test_what_is_no_count_is_refused(count, hint):
    assert hint in hint_of(lesson14.ex14_today, count)


def test_the_count_agrees_with_the_planner():
    for name, sizes in (("llama-8b", "Llama 3 8B"), ("llama-405b", "Llama 3 405B")):
        model = plan.preset(name)
        flops = plan.of_iteration(model, plan.Layout()).model / model.sequence
        assert lesson14._count(**lesson14.PUBLISHED[sizes]) == (plan.parameters(model).total, flops)


def test_the_repaired_estimate_holds_against_all_kinds_of_answers():
    def repaired(**changes):
        given = {"tokens": TOKENS, "rate": RATE, "days": BIG_DAYS, "factor": 6} | changes
        lesson14.ex14_repaired(given["tokens"], given["rate"], given["days"], given["factor"])

    tokens = {3e12: "10e9 is ten times 1e9", 300: "the number of billions", RATE: "300 billion"}
    hold("right_tokens", lambda answer: repaired(tokens=answer), TOKENS, tokens,
         accepted=["300 billion", "3e11 tokens"])  # fmt: skip
    digits = "How long is a sequence of this model?"
    rates = {
        157.7 * 10e12: "is ten tera", 154.02 * 10e12: "is ten tera", 157.73e12: digits,
        153.83e12: digits, 150.2e12: "products of queries", 2e14: "FLOPs of one iteration",
    }  # fmt: skip
    hold("right_flops_per_s", lambda answer: repaired(rate=answer), RATE, rates,
         accepted=[8.18 * 18.4e9 * 512 * 1024 / 32.09 / 16, 1.54e14, "154 TFLOP/s"])  # fmt: skip
    days = {
        BIG_DAYS * 0.75: "The factor 6 does not fit", 202.5: "the mistyped sequence",
        1972.6: "Use days_of", BIG_DAYS * 24: "Use days_of", 218: "Use days_of",
    }  # fmt: skip
    hold("right_days", lambda answer: repaired(days=answer), BIG_DAYS, days,
         accepted=[207, 212.5, 213])  # fmt: skip
    factors = {
        8: "2 FLOPs in forward and 4 in backward",
        4 / 3: "2 FLOPs in forward",
        5: "2 FLOPs in forward and 4 in backward",
    }
    hold("factor_without_recomputation", lambda answer: repaired(factor=answer), 6, factors)


def test_the_predicted_peak_holds_against_all_kinds_of_answers(finished, target):
    run = finished(recipe("sharded", zero=1), SHARDED_MIB)
    wrong = {
        BEFORE_MIB: "A device keeps only a part of its optimizer state",
        AFTER_MIB - 4.27: "25.6 MiB of optimizer state are gone, but a different part has grown",
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
