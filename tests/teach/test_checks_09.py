"""Lesson 09: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import gzip
import json

import pytest

from course_lib.lab.job.recipes import gpt
from course_lib.teach.checks import lesson09

from .answers_to_try import hold
from .finished_runs import hint_of

LAYERS = 16
STANDING_MIB, KEPT_BY_A_LAYER_MIB = 50.0, 3.0
# 98 MiB are needed without recomputation: four layers must be recomputed, three are too few.
ROOM_MIB = 86.5


def recipe(name="fits", *, layers=LAYERS, micro_batch=2, **more):
    deep = gpt.model("tiny").but(name="deep", layers=layers, hidden=96, sequence=256)
    return gpt.recipe(name, model=deep, micro_batch=micro_batch, iterations=12, **more)


def block(layers):
    return recipe(recompute="full", recompute_method="block", recompute_layers=layers)


@pytest.fixture
def finished(finished):
    """A run folder as a job leaves it behind, with a trace that peaks as its recipe says."""

    def make(recipe, exit_code=0, log="", recorded=True):
        run = finished(recipe, log, exit_code)
        if recorded:
            write_trace(run.folder, recipe)
        return run

    return make


def write_trace(folder, recipe):
    kept = LAYERS
    if recipe.flags.get("--recompute-method") == "block":
        kept -= int(recipe.flags["--recompute-num-layers"])
    elif "--recompute-granularity" in recipe.flags:
        kept = 0
    header = {"format": "course-memory-1", "rank": 0, "world_size": 1, "start_unix_ns": 1,
              "node": "node1", "device": "cpu", "categories": ["parameters", "activations"],
              "limit_bytes": None, "layout": {}, "note": ""}  # fmt: skip
    sizes_mib = (STANDING_MIB, kept * KEPT_BY_A_LAYER_MIB)
    lines = [["alloc", n, n, int(size * 2**20), n] for n, size in enumerate(sizes_mib)]
    (folder / "memory").mkdir()
    with gzip.open(folder / "memory" / "rank0.jsonl.gz", "wt") as out:
        out.writelines(json.dumps(line) + "\n" for line in [header, *lines])


def test_as_few_layers_as_fit_pass(finished, capsys):
    lesson09.ex09_fits(finished(block(4)), finished(recipe("keep")), ROOM_MIB)
    assert "✓ one layer less would not have been enough" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (block(3), "It peaks at 89.0 MiB, 2.5 MiB too much. Each layer"),
        (block(6), "leaves 6.5 MiB unused, more than the 3.0 MiB"),
        (recipe(recompute="full"), "--recompute-method of fits is uniform. With this method"),
        (recipe(recompute="selective"), "granularity of fits is selective"),
        (recipe(), "granularity of fits is missing"),
        (recipe(micro_batch=1), "These flags differ: --global-batch-size, --micro-batch-size."),
        (recipe(layers=8), "These flags differ: --num-layers."),
        (recipe(nodes=2), "the devices"),
    ],
)
def test_a_run_that_does_something_else_is_told_from_its_recipe_and_trace(finished, wrong, words):
    assert words in hint_of(lesson09.ex09_fits, finished(wrong), finished(recipe("keep")), ROOM_MIB)


def test_what_moves_no_peak_may_differ(finished):
    seeded = block(4).but(seed=7, lr=1e-4, iterations=9, log_memory_interval=1, save=True)
    lesson09.ex09_fits(finished(seeded), finished(recipe("keep")), ROOM_MIB)


def test_a_run_without_a_memory_trace_is_asked_for_one(finished):
    said = hint_of(
        lesson09.ex09_fits, finished(block(4), recorded=False), finished(recipe("keep")), ROOM_MIB
    )
    assert "Give the recipe memory=(6, 7)" in said


def test_a_run_that_failed_shows_its_cause(finished):
    failed = finished(block(4), exit_code=1, log="ModuleNotFoundError: No module named 'torch'\n")
    said = hint_of(lesson09.ex09_fits, failed, finished(recipe("keep")), ROOM_MIB)
    assert "No module named 'torch'" in said


def test_a_gap_left_open_is_named(finished):
    open_recipe = recipe(recompute="full", recompute_layers=...)
    said = hint_of(lesson09.ex09_fits, open_recipe, finished(recipe("keep")), ROOM_MIB)
    assert "recompute_layers" in said


RIGHT_MIB = 16 * 2 * 256 * 96 * 4 / 2**20


@pytest.fixture
def forget(finished):
    return finished(recipe("forget", recompute="full"))


def test_the_inputs_of_a_run_that_keeps_more_are_not_asked_for(finished):
    said = hint_of(lesson09.ex09_inputs, RIGHT_MIB, finished(recipe("keep")))
    assert "The question is about `forget`" in said


def test_mebibytes_hold_against_all_kinds_of_answers(finished, forget):
    wrong = {
        RIGHT_MIB / 16: "That is one input. The run keeps 16", RIGHT_MIB / 2: "You answered",
        RIGHT_MIB * 2**20 / 1e6: "right in MB", RIGHT_MIB * 16: "what `keep` keeps",
        RIGHT_MIB * (1 + 5056 / (2 * 256 * 96 * 4)): "5,056 bytes",
        77.0: "You answered 77 MiB. One input holds 96 numbers",
    }  # fmt: skip
    hold("kept_mib", lambda answer: lesson09.ex09_inputs(answer, forget), RIGHT_MIB, wrong)
    keep, fits = finished(recipe("keep")), finished(block(4))
    rooms = {ROOM_MIB / 2: "too much", ROOM_MIB * 2: "unused", ROOM_MIB - 5: "too much"}
    hold("room_mib", lambda room: lesson09.ex09_fits(fits, keep, room), ROOM_MIB, rooms)


def test_another_recorded_step_is_as_good(finished):
    at_five = recipe(recompute="full", recompute_method="block", recompute_layers=4, memory=(5, 6))
    lesson09.ex09_fits(finished(at_five), finished(recipe("keep", memory=(6, 7))), ROOM_MIB)
