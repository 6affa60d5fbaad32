"""A recipe is checked when it is made, reports all errors at once, and survives a round trip."""

from __future__ import annotations

import dataclasses
import tomllib

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from course_lib import gpt, plan
from course_lib.lab.errors import RecipeError
from course_lib.lab.job.recipe import Recipe

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


def recipe(**changes):
    return Recipe(**{"name": "dp4", "program": "train.py"} | changes)


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(RecipeError) as error:
        recipe(name="a b", nodes=0, time_limit_minutes=0, launcher="mpirun", environment={"A-B": 1})
    for part in ('"a-b"', "nodes 0", "time_limit_minutes 0", "torchrun or srun", "'A-B'"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    "name", ["", ".hidden", "a/b", "a b", "-n", "a\nb", "$(x)", "x" * 49, "..", "a'b"]
)
def test_a_name_that_is_no_folder_is_refused_with_one_that_is(name):
    with pytest.raises(RecipeError) as error:
        recipe(name=name)
    works = str(error.value).rpartition('such as "')[2].rstrip('"')
    assert recipe(name=works).name == works


@pytest.mark.parametrize("name", ["dp4", "tp2-pp2_fp16.v3", "실험1", "a+b"])
def test_ordinary_names_are_taken(name):
    assert recipe(name=name).name == name


@pytest.mark.parametrize(
    "what", [{}, {"program": "a.py", "commands": "ls"}, {"commands": "ls", "script": "#!/bin/sh"}]
)
def test_a_recipe_runs_one_thing(what):
    with pytest.raises(RecipeError, match="a program, or commands, or a script"):
        Recipe(name="x", **what)


@pytest.mark.parametrize("value", [True, 1.5, "2", None, -1])
def test_counts_are_whole_numbers(value):
    with pytest.raises(RecipeError, match="nodes"):
        recipe(nodes=value)


def test_a_nul_byte_is_refused():
    with pytest.raises(RecipeError, match="NUL"):
        recipe(arguments=("a\0b",))


def test_a_recipe_cannot_be_changed_but_can_be_varied():
    one = recipe(environment={"A": "1"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.nodes = 2
    with pytest.raises(TypeError):
        one.environment["A"] = "2"
    assert one.but(nodes=2).nodes == 2
    assert one.nodes == 1


@given(
    st.lists(TEXT, max_size=4),
    st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), TEXT, max_size=3),
)
def test_a_recipe_survives_its_file(arguments, environment):
    one = recipe(arguments=tuple(arguments), environment=environment, nodes=2, tee=True)
    text = tomli_w.dumps({"recipe": one.to_dict()})
    assert Recipe.from_toml(text) == one
    assert tomllib.loads(text)["recipe"]["name"] == "dp4"


@pytest.mark.parametrize("name", ["mixtral-8x22b", "tiny"])
def test_a_recipe_of_a_mixture_survives_its_file(name):
    mixture = plan.preset(name).but(experts=plan.Experts(8, 2))
    one = gpt.recipe("mix", model=mixture, nodes=2, gpus_per_node=2, expert=4, global_batch=8)
    text = tomli_w.dumps({"recipe": one.to_dict()})
    assert Recipe.from_toml(text) == one
    assert one.but(iterations=3).model.experts == plan.Experts(8, 2)
    with pytest.raises(RecipeError, match=r"model: per_token 9 is more than the 8 experts"):
        Recipe.from_toml(text.replace("per_token = 2", "per_token = 9"))


def test_a_file_of_a_later_version_is_still_read():
    assert Recipe.from_dict(recipe().to_dict() | {"colour": "blue"}) == recipe()


def test_flags_are_read_back_as_a_table():
    one = recipe(arguments=("--bf16", "--lr", "1e-3", "--data-path", "a", "b", "--seed=7", "-v"))
    assert one.flags == {
        "--bf16": True, "--lr": "1e-3", "--data-path": "a b", "--seed": "7", "-v": True
    }  # fmt: skip


def test_device_hours_are_the_time_limit_on_all_devices():
    one = recipe(nodes=2, gpus_per_node=4, time_limit_minutes=90)
    assert one.devices == 8
    assert one.device_hours == 12.0
