"""A recipe can be changed through its keywords, shown as a table, documented and completed."""

from __future__ import annotations

import inspect
import re

import pytest
import tomli_w
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from course_lib.lab.errors import RecipeError
from course_lib.lab.job import site
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.recipes import gpt, links, program, shell, trial
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


def test_a_recipe_is_shown_as_the_call_that_makes_it():
    assert repr(gpt.recipe("x", nodes=2, lr=3e-4)) == "gpt.recipe('x', nodes=2, lr=0.0003)"


def test_every_parameter_is_documented():
    for name in set(inspect.signature(gpt.recipe).parameters) - {"more"}:
        assert re.search(rf"^    {name} ", gpt.recipe.__doc__, re.MULTILINE), name


SET_UP = """
import course_lib
from course_lib import bench, check, gpt, links, plan, program, read, shell, show
from course_lib.lab.lab import Lab
lab = Lab({folder!r}, site="slurm", quiet=True)
script = lab.script(gpt.recipe("x"))
"""
IMPORTED = {"Any", "annotations", "import_module", "re", "TYPE_CHECKING", "Mapping", "shlex",
            "Recipe", "RecipeError"}  # fmt: skip
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
    with pytest.raises(TypeError, match=r"shell\.recipe has no argument foo; it takes: "):
        shell.recipe("a", "true", foo=3)
    with pytest.raises(TypeError, match="did you mean time_limit_minutes"):
        shell.recipe("a", "true", time_limit_minute=3)
