"""A learner's wrong value never ends in a Python error from inside the course."""

from __future__ import annotations

import re

import pytest

from course_lib import plan
from course_lib.lab.job.recipes import shell
from course_lib.lab.lab import Lab
from course_lib.lab.runs.run import Run
from course_lib.mistakes.display import message
from course_lib.mistakes.errors import CourseError

from .calls import ROOMS, public, wrong_calls

IN_PYTHON_S_WORDS = re.compile(
    r"object at 0x|has no attribute|NoneType|unhashable|not subscriptable|not iterable|<class |"
    r"<function|positional argument|unsupported operand|__init__"
)
MOST_LINES, MOST_LETTERS = 30, 1500


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture
def run(workspace, monkeypatch):
    """Folder of a finished run, without a cluster."""
    import tomli_w

    monkeypatch.setenv("COURSE_PLAIN", "1")
    monkeypatch.setenv("PATH", "/nowhere")
    folder = workspace / "old-1"
    folder.mkdir(exist_ok=True)
    recipe = shell.recipe("old", "true").to_dict()
    (folder / "recipe.toml").write_text(tomli_w.dumps({"recipe": recipe}))
    (folder / "job.sbatch").write_text("#!/bin/sh\n")
    (folder / "out.log").write_text("")
    (folder / "exit_code").write_text("0\n")
    return Lab(workspace, site="slurm", quiet=True).open(folder)


def complaint(error):
    """Return the problem with the answer to a wrong call; empty for a proper sentence."""
    if not isinstance(error, CourseError):
        return f"{type(error).__name__} of Python: {error}"
    text = str(error)
    if found := IN_PYTHON_S_WORDS.search(text):
        return f"says {found[0]!r}: {text}"
    if len(text) > MOST_LETTERS or text.count("\n") > MOST_LINES:
        return f"is long: {text}"
    shown = "".join(message(error, error.__traceback__))
    return "shows the course's own lines" if "course_lib/" in shown.partition(text)[0] else ""


def answers(function, run):
    for what, given, named in wrong_calls(function, run):
        try:
            function(*given, **named)
        except Exception as error:
            if why := complaint(error):
                yield f"{what}: {why}"


NAMES = [name for name, _ in public(Lab, Run)]


@pytest.mark.many(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_value_is_answered_in_one_sentence(run, name, capsys):
    lab = Lab(run.folder.parent, site="slurm", quiet=True)
    function = dict(public(lab, run))[name]
    assert list(answers(function, run)) == []


ANSWERING = [name for name, room in ROOMS.items() if hasattr(room, "__getattr__")]


@pytest.mark.parametrize("room", ANSWERING)
def test_a_misspelt_name_of_a_room_is_answered_with_the_right_one(room):
    for name in ROOMS[room].__all__:
        with pytest.raises(CourseError, match=r"did you mean|there|it draws|it offers"):
            getattr(ROOMS[room], f"{name}x")


def test_a_misspelt_attribute_is_answered_with_the_right_one(run):
    lab = Lab(run.folder.parent, site="slurm", quiet=True)
    recipe = run.recipe
    for thing in (run, lab, recipe, lab.site, plan.preset("tiny"), plan.Layout()):
        for name in (name for name in dir(thing) if not name.startswith("_") and len(name) > 4):
            with pytest.raises(AttributeError, match="did you mean ") as error:
                getattr(thing, f"{name[:3]}{name[4:]}x")
            assert isinstance(error.value, CourseError)


def test_a_property_that_fails_is_not_taken_for_a_misspelt_name(run):
    (run.folder / "recipe.toml").write_text("= broken")
    with pytest.raises(ValueError, match="Invalid"):
        run.recipe  # noqa: B018
    assert not hasattr(run, "_repr_mimebundle_")


def test_the_test_notices_a_python_error():
    assert "of Python" in complaint(TypeError("x"))
    assert "says" in complaint(CourseError("'int' object has no attribute 'x'"))
