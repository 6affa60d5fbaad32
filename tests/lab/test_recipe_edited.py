"""A recipe is edited by what made it, shown as a small table, documented and completed."""

from __future__ import annotations

import inspect

import pytest
import tomli_w
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from course_lib.lab.errors import RecipeError
from course_lib.lab.job import site
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import gpt, links, program, shell, trial
from course_lib.lab.job.recipes.flags import RECIPE_FIELDS
from course_lib.lab.job.recipes.gpt_parameters import PARAMETERS
from course_lib.lab.job.recipes.known_flags import known_flags, name_of
from course_lib.lab.job.script import key
from course_lib.lab.job.unfinished import Unfinished
from course_lib.plan import preset

DEEP = preset("tiny").but(layers=8)
EDITS = [
    (gpt.recipe, {"nodes": 2, "micro_batch": 2, "global_batch": 8, "lr": 3e-4}, {"iterations": 10}),
    (gpt.recipe, {"gpus_per_node": 2, "tensor": 2, "profile": (3, 5)}, {"profile": (2, 4)}),
    (gpt.recipe, {"model": DEEP, "environment": {"A": "1"}}, {"device_memory_gib": 0.5}),
    (gpt.recipe, {"time_limit_minutes": 3}, {"name": "y", "monitor": True, "seq_length": 64}),
    (links.recipe, {"bytes": 5e6}, {"repeat": 3, "nodes": 1}),
    (program.recipe, {"program": "accumulate_ddp.py", "sync": "last"}, {"sync": "each"}),
    (program.recipe, {"program": "work/x.py", "sync": "last"}, {"nodes": 2}),
    (trial.recipe, {"file": "work/x.py", "exercise": "ring"}, {"exercise": "ddp"}),
    (shell.recipe, {"commands": "echo a"}, {"commands": "echo b", "nodes": 2}),
]


def through_its_file(recipe):
    return Recipe.from_toml(tomli_w.dumps({"recipe": recipe.to_dict()}))


@pytest.mark.parametrize(("make", "given", "changes"), EDITS)
def test_an_edit_makes_what_the_function_would_have_made(make, given, changes):
    one = make(**{"name": "x", **given})
    wanted = make(**{"name": "x", **given, **changes})
    for recipe in (one, through_its_file(one), one.but().but()):
        edited = recipe.but(**changes)
        assert edited == wanted
        assert edited.keywords == wanted.keywords
        assert key(edited, site.preset("box")) == key(wanted, site.preset("box"))
        assert edited.but(**given, name="x").keywords.items() >= dict(one.keywords).items()


def test_what_made_a_recipe_does_not_make_it_another_run():
    spelt, short = gpt.recipe("x", nodes=1, iterations=20), gpt.recipe("x")
    assert key(spelt, site.preset("box")) == key(short, site.preset("box"))
    assert spelt == short


def test_a_misspelt_edit_and_a_gap_are_answered_as_in_the_function():
    recipe = gpt.recipe("x")
    with pytest.raises(RecipeError, match="did you mean iterations"):
        recipe.but(itertions=3)
    unfinished = recipe.but(tensor=...)
    assert isinstance(unfinished, Unfinished)
    assert unfinished.missing == ("tensor",)
    assert unfinished.but(nodes=2) is unfinished


def test_a_recipe_of_an_earlier_version_is_still_varied_by_its_fields():
    table = gpt.recipe("x").to_dict()
    del table["made_by"], table["keywords"]
    assert Recipe.from_dict(table).but(time_limit_minutes=3).time_limit_minutes == 3


@pytest.mark.parametrize(("make", "given", "changes"), EDITS)
def test_a_recipe_is_shown_as_what_was_asked_and_what_follows(make, given, changes):
    recipe = make(**{"name": "x", **given}).but(note="a <b> & c")
    shell_of_ipython = InteractiveShell.instance()
    data, _ = shell_of_ipython.display_formatter.format(recipe)
    for name in given:
        assert name in data["text/plain"]
        assert f">{name}</th>" in data["text/html"]
    assert "&lt;b&gt; &amp; c" in data["text/html"]
    lines = data["text/plain"].splitlines()
    assert len(lines) < 12
    assert max(map(len, lines)) < 110
    in_a_list, _ = shell_of_ipython.display_formatter.format([recipe])
    assert in_a_list["text/plain"].count("\n") <= 1
    assert repr(recipe).startswith(f"{recipe.made_by}.recipe('x', ")


def test_every_parameter_is_documented_and_nothing_else():
    parameters = inspect.signature(gpt.recipe).parameters
    assert set(PARAMETERS) == set(parameters) - {"more"}
    for name, documented in PARAMETERS.items():
        assert f"\n  {name} (" in gpt.recipe.__doc__
        assert documented.meaning in gpt.recipe.__doc__
    flags = [name_of(flag) for group in ("shared", "ours") for flag in known_flags()[group]]
    shown = gpt.recipe.__doc__.partition("Also fields")[2].replace("\n", " ").replace(",", " ")
    offered = set(shown.split())
    assert set(RECIPE_FIELDS) <= offered
    assert {flag for flag in flags if flag not in gpt.LAYOUT_BY_FLAG} - set(PARAMETERS) <= offered
    assert not offered & set(gpt.LAYOUT_BY_FLAG)


LISTED = [(n, v) for n, p in PARAMETERS.items() if isinstance(p.allowed, tuple) for v in p.allowed]
NEEDED_WITH = {
    ("schedule", "interleaved"): {"gpus_per_node": 2, "pipeline": 2, "virtual": 2,
                                  "global_batch": 4},
    ("sequence_parallel", True): {"gpus_per_node": 2, "tensor": 2},
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), LISTED)
def test_every_value_that_is_said_to_be_allowed_is(name, value):
    made = gpt.recipe("x", **{name: value}, **NEEDED_WITH.get((name, value), {}))
    assert isinstance(made, Recipe)


@pytest.mark.parametrize("name", sorted({name for name, _ in LISTED}))
def test_a_value_that_is_not_listed_is_refused(name):
    with pytest.raises((RecipeError, ValueError)):
        gpt.recipe("x", **{name: "something-else"})


SET_UP = """
import course_lib
from course_lib import bench, check, gpt, links, plan, program, read, shell, show
from course_lib.lab.lab import Lab
lab = Lab({folder!r}, site="slurm", quiet=True)
script = lab.script(gpt.recipe("x"))
"""
IMPORTED = {"Any", "annotations", "import_module", "re", "TYPE_CHECKING", "Mapping", "shlex",
            "Recipe", "RecipeError", "jobs", "records", "say"}  # fmt: skip
WHOLE = {"gpt": {"recipe", "model", "layout"}, "shell": {"recipe", "script"}, "links": {"recipe"}}


def test_completion_offers_what_learners_use(tmp_path):
    ipython = InteractiveShell.instance()
    assert ipython.run_cell(SET_UP.format(folder=str(tmp_path))).success
    names = "course_lib bench check gpt links plan program read shell show lab script show.moving"
    for name in names.split():
        with provisionalcompleter():
            line = f"{name}."
            found = {one.text for one in ipython.Completer.completions(line, len(line))}
        assert found
        assert not found & IMPORTED, name
        assert not [one for one in found if one.startswith("_")]
        assert found == WHOLE.get(name, found)


def test_a_shell_recipe_names_what_it_takes_and_nothing_of_its_inside():
    with pytest.raises(TypeError, match="no argument foo; it takes: nodes") as told:
        shell.recipe("a", "true", foo=3)
    assert "made_by" not in str(told.value)
    with pytest.raises(TypeError, match="did you mean time_limit_minutes"):
        shell.recipe("a", "true", time_limit_minute=3)
