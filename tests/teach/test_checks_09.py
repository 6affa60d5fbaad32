"""Lesson 09: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import gzip
import json

import pytest

from course_lib.lab.job.recipes import gpt
from course_lib.teach.checks import lesson09

from .answers_to_try import hold
from .finished_runs import hint_of, tried_with_swaps
from .own_trials import program_of

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
def measured(finished):
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


def test_as_few_layers_as_fit_pass(measured, capsys):
    lesson09.ex09_fits(measured(block(4)), measured(recipe("keep")), ROOM_MIB)
    assert "✓ one layer less would not have been enough" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (block(3), "The run peaks at 89.0 MiB, 2.5 MiB too much. Each recomputed"),
        (block(6), "leaves 6.5 MiB unused, more than the 3.0 MiB"),
        (recipe(recompute="full"), "It is uniform. With another method"),
        (recipe(recompute="selective"), "granularity: full\n  It is selective."),
        (recipe(), "granularity: full\n  It is missing."),
        (recipe(micro_batch=1), "These flags differ: --global-batch-size, --micro-batch-size."),
        (recipe(layers=8), "These flags differ: --num-layers."),
        (recipe(nodes=2), "the devices"),
    ],
)
def test_a_run_that_does_something_else_is_told_from_its_recipe_and_trace(measured, wrong, words):
    assert words in hint_of(lesson09.ex09_fits, measured(wrong), measured(recipe("keep")), ROOM_MIB)


def test_what_moves_no_peak_may_differ(measured):
    seeded = block(4).but(seed=7, lr=1e-4, iterations=9, log_memory_interval=1, save=True)
    lesson09.ex09_fits(measured(seeded), measured(recipe("keep")), ROOM_MIB)


def test_a_run_without_a_memory_trace_is_asked_for_one(measured):
    said = hint_of(
        lesson09.ex09_fits, measured(block(4), recorded=False), measured(recipe("keep")), ROOM_MIB
    )
    assert "Give the recipe memory=(6, 7)" in said


def test_a_run_that_failed_shows_its_cause(measured):
    failed = measured(block(4), exit_code=1, log="ModuleNotFoundError: No module named 'torch'\n")
    said = hint_of(lesson09.ex09_fits, failed, measured(recipe("keep")), ROOM_MIB)
    assert "No module named 'torch'" in said


def test_a_gap_left_open_is_named(measured):
    open_recipe = recipe(recompute="full", recompute_layers=...)
    said = hint_of(lesson09.ex09_fits, open_recipe, measured(recipe("keep")), ROOM_MIB)
    assert "recompute_layers" in said


def test_rooms_hold_against_all_kinds_of_answers(measured):
    keep, fits = measured(recipe("keep")), measured(block(4))
    rooms = {ROOM_MIB / 2: "too much", ROOM_MIB * 2: "unused", ROOM_MIB - 5: "too much"}
    hold("room_mib", lambda room: lesson09.ex09_fits(fits, keep, room), ROOM_MIB, rooms)


def test_another_recorded_step_is_as_good(measured):
    at_five = recipe(recompute="full", recompute_method="block", recompute_layers=4, memory=(5, 6))
    lesson09.ex09_fits(measured(at_five), measured(recipe("keep", memory=(6, 7))), ROOM_MIB)


OWN = program_of("09_activation_checkpointing", "ex2-own")
tried = tried_with_swaps(OWN, "checkpoint")
CALL, SECOND = "Again.apply(layer, x, *layer.parameters())", "            y = ctx.layer(x)\n"
RETURN = "return None, *torch.autograd.grad(y, (x, *ctx.weights), grad)"
NONE_OF_WEIGHTS = "return None, x.grad, *[None] * len(ctx.weights)"
SAVE, STATE = "ctx.save_for_backward(x)", "ctx.state = torch.get_rng_state()"
SET, BACK = "        torch.set_rng_state(ctx.state)\n", "        torch.set_rng_state(now)\n"
BY_HOOKS = """import torch


def checkpoint(layer, x):
    state, again, count = torch.get_rng_state(), [], iter(range(10**6))

    def unpack(number):
        if not again:
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                torch.set_rng_state(state)
                with torch.autograd.graph.saved_tensors_hooks(again.append, lambda one: one):
                    layer(x)
        return again[number]

    with torch.autograd.graph.saved_tensors_hooks(lambda _: next(count), unpack):
        return layer(x)
"""
IN_PLACE = """import torch


class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, state, x, learns):
        ctx.run, ctx.state, ctx.x = run, state, x
        return run(x)

    @staticmethod
    @torch.enable_grad()
    def backward(ctx, dy):
        x = ctx.x.detach().requires_grad_(ctx.x.requires_grad)
        with torch.random.fork_rng(devices=[]):
            torch.random.set_rng_state(ctx.state)
            ctx.run(x).backward(dy)
        return None, None, x.grad, None


def checkpoint(layer, x):
    dummy = torch.zeros((), requires_grad=True)
    return Function.apply(layer, torch.random.get_rng_state(), x, dummy)
"""
RIGHT = {
    "the solution": [],
    "gradients left in the weights": [(RETURN, f"y.backward(grad)\n        {NONE_OF_WEIGHTS}")],
    "another function": [(OWN, IN_PLACE)],
    "hooks": [(OWN, BY_HOOKS)],
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_checkpoints_pass(tried, name, capsys):
    lesson09.ex09_checkpoint(tried(*RIGHT[name]))
    assert "✓ dropout is the same in both passes" in capsys.readouterr().out


WRONG = {
    "plain": ([(CALL, "layer(x)")], "times the memory of x is held"),
    "graph kept": ([(SAVE, f"{SAVE}\n        with torch.enable_grad():\n"
                           "            ctx.kept = layer(x.detach())"),
                    ("return layer(x)", "return ctx.kept.detach()")], "Which activations"),
    "one random state": ([(STATE, "ctx.state = FIRST"),
                          ("import torch\n", "import torch\n\nFIRST = torch.get_rng_state()\n")],
                         "Read the random state before the first run"),
    "no random state": ([(SET, "")], "set different numbers to zero"),
    "state read too late": ([(f"        {STATE}\n", ""),
                             ("        return layer(x)", f"        y = layer(x)\n        {STATE}\n"
                              "        return y")], "set different numbers to zero"),
    "state not put back": ([(BACK, "")], "Put back the state"),
    "no weights": ([(CALL, "Again.apply(layer, x)")], "Give apply the weights"),
    "no gradients of weights": ([(RETURN, "return None, *torch.autograd.grad(y, x, grad), "
                                  "*[None] * len(ctx.weights)")], "backward must return"),
    "twice": ([(RETURN, "y.backward(grad, retain_graph=True)\n        " + RETURN)],
              "Use one of the two"),
    "not recorded": ([("torch.enable_grad()", "torch.no_grad()")],
                     "records nothing inside backward"),
    "three runs": ([(SECOND, SECOND + "            ctx.layer(x)\n")], "must run once in forward"),
    "torch's own": ([(OWN, "from torch.utils.checkpoint import checkpoint as torchs\n\n\n"
                           "def checkpoint(layer, x):\n"
                           "    return torchs(layer, x, use_reentrant=False)\n")],
                    "line 5 uses torch.utils.checkpoint.checkpoint"),
}  # fmt: skip


@pytest.mark.many(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_checkpoint_is_told_its_mistake(tried, name):
    pairs, words = WRONG[name]
    assert words in hint_of(lesson09.ex09_checkpoint, tried(*pairs))
