"""Megatron-LM's own parser and validation take every recipe that the course makes for it."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import lesson_recipes
import pytest

from course_lib import bench
from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipes import gpt
from course_lib.lab.job.recipes.keywords import known_flags
from course_lib.plan import Model

PROGRAM = "/opt/Megatron-LM/pretrain_gpt.py"
LESSONS = sorted((Path(__file__).resolve().parents[2] / "lessons").glob("*.py"))
WITH_A_CURE = re.compile(r"Megatron-LM's program refuses this: .*; (?:leave it out or use|give) ")
"""Flags of the course's program alone (faults, diaries), and what Megatron-LM would refuse too:
`test_what_the_course_refuses_megatron_refuses_too`."""
MODERN = Model("modern", 4, 64, 8, 32, 1000, kv_groups=4, ffn=192, tied=False, positions="rotary",
               activation="swiglu", norm="rmsnorm", bias=False)  # fmt: skip
WAYS = [
    {},
    {"save": True},
    {"profile": True, "memory": True, "log_throughput": True, "profile_ranks": [0, 1]},
    {"recompute": "full", "recompute_method": "block", "recompute_layers": 2},
    {"recompute": "full", "iterations": 60, "log_memory_interval": 20},
    {"recompute": "selective", "exit_duration_in_mins": 5, "exit_signal_handler": True},
    {"mock_data": True, "eval_iters": 2, "eval_interval": 5},
    {"hidden_dropout": 0.1, "attention_dropout": 0.1, "seed": 7},
    {"lr_decay_style": "WSD", "lr_wsd_decay_iters": 5, "lr_warmup_iters": 2},
    {"save": True, "save_interval": 5, "load": "{run}/checkpoints", "finetune": True},
]
SPREAD = [
    {"tensor": 1}, {"tensor": 2}, {"tensor": 2, "sequence_parallel": True}, {"tensor": 4},
    {"context": 2}, {"pipeline": 2}, {"pipeline": 4}, {"pipeline": 2, "virtual": 2},
    {"tensor": 2, "pipeline": 2}, {"tensor": 2, "context": 2}, {"context": 2, "pipeline": 2},
]  # fmt: skip


def every_layout():
    """Yield every division of a model with each kind of data parallelism and each precision. Models
    and other options take turns."""
    ways = itertools.cycle(WAYS)
    models = itertools.cycle([MODERN, MODERN, MODERN.but(tied=True), "tiny"])
    kinds = itertools.product(SPREAD, (0, 1, 3), ("fp32", "bf16", "fp16"))
    for cut, zero, precision in kinds:
        yield {"model": next(models), **cut, "zero": zero, "precision": precision, **next(ways)}


def made(given):
    """Return the recipe, or why the course refuses it."""
    try:
        return gpt.recipe("x", nodes=2, gpus_per_node=2, global_batch=8, program=PROGRAM, **given)
    except RecipeError as error:
        return str(error)


def question(recipe):
    return {
        "arguments": list(recipe.arguments),
        "environment": dict(recipe.environment),
        "world_size": recipe.devices,
    }


def refused(asked, recipes):
    answers = asked("validate.py", [question(recipe) for recipe in recipes])
    assert len(answers) == len(recipes)
    print(f"{answers.count(None)} of {len(answers)} validate")
    said = zip(recipes, answers, strict=True)
    return [(answer, " ".join(recipe.arguments)) for recipe, answer in said if answer]


@pytest.mark.slow
def test_it_takes_every_recipe_of_the_lessons(asked, monkeypatch):
    lessons = lesson_recipes.Asked()
    recipe = gpt.recipe
    monkeypatch.setattr(gpt, "recipe", lessons.noting(recipe))
    for lesson in LESSONS:
        lesson_recipes.run(lesson)
    monkeypatch.setattr(gpt, "recipe", recipe)
    wanted = {place for lesson in LESSONS for place in lesson_recipes.places(lesson)}
    assert wanted <= lessons.places, "not reached"
    recipes, refusals = [], []
    for given, named in lessons.calls:
        try:
            recipes.append(recipe(*given, **(named | {"program": PROGRAM})))
        except RecipeError as error:
            refusals.append(str(error))
    assert [told for told in refusals if not WITH_A_CURE.match(told)] == []
    assert len(recipes) > 70
    assert len(recipes) > 2 * len(refusals)
    assert refused(asked, recipes) == []


@pytest.mark.slow
def test_it_takes_the_large_benchmarks(asked):
    assert refused(asked, [bench.recipe(tag, program=PROGRAM) for tag in bench.CASES]) == []


@pytest.mark.slow
def test_it_takes_recipes_of_all_layouts_but_those_that_the_course_refuses_with_a_cure(asked):
    found = [(given, made(given)) for given in every_layout()]
    recipes = [recipe for _, recipe in found if not isinstance(recipe, str)]
    told = [(given, recipe) for given, recipe in found if isinstance(recipe, str)]
    assert len(recipes) > 60
    for given, text in told:
        assert given["zero"] == 3, text
        assert re.search("[;.] ([Uu]se|[Gg]ive) ", text), text
    assert refused(asked, recipes) == []


@pytest.mark.slow
def test_what_the_course_refuses_megatron_refuses_too(asked):
    """Otherwise the course could refuse a recipe that Megatron-LM accepts."""
    ours = {"untie_embeddings_and_output_weights": True}
    good = made({"zero": 3, "precision": "bf16", **ours})
    spoilt = [  # the words themselves are changed: `but` would make the recipe anew, and refuse
        replace(good, arguments=[w for w in good.arguments if not w.startswith("--untie")]),
        replace(good, arguments=[w if w != "--bf16" else "--fp16" for w in good.arguments]),
        replace(
            good, arguments=[w for w in good.arguments if w != "--no-gradient-accumulation-fusion"]
        ),
        replace(good, arguments=[*good.arguments, "--save", "there"]),
        replace(made({"tensor": 2}), environment={}),
        replace(made({"context": 2}), environment={}),
    ]
    answers = asked("validate.py", [question(recipe) for recipe in [good, *spoilt]])
    assert answers[0] is None
    assert all(answers[1:]), answers


@pytest.mark.slow
def test_it_knows_every_flag_that_the_course_calls_shared(asked):
    flags = known_flags()["shared"]
    answers = asked("validate.py", [{"arguments": [flag], "environment": {}, "world_size": 1}
                                    for flag in flags])  # fmt: skip
    unknown = [flag for flag, told in zip(flags, answers, strict=True)
               if "unrecognized arguments" in str(told)]  # fmt: skip
    assert unknown == []
