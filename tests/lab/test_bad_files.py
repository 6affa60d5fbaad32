"""Recipe and site files with any content lead to a sentence that names the key, never to a
traceback."""

from __future__ import annotations

import pytest

from course_lib.cli import main
from course_lib.lab.errors import RecipeError, SiteError
from course_lib.lab.job import site as sites
from course_lib.lab.job.recipe import Recipe

GOOD = 'name = "one"\nprogram = "p.py"\n'
VALUES = {
    "number": "3", "text": '"text"', "empty": '""', "list": "[3]", "texts": '["a"]',
    "lists": '[["a"]]', "deep": "[" * 60 + "]" * 60, "table": "{ a = 1 }", "switch": "true",
    "moment": "2026-01-01", "nan": "nan", "negative": "-1", "infinite": "inf",
    "tables": "{ a = { b = 1 } }", "large": "9" * 40, "nothing": "[]",
}  # fmt: skip
RECIPE_KEYS = {
    "environment": {"table"}, "directives": {"table"}, "arguments": {"list", "texts", "nothing"},
    "commands": {"empty"}, "script": {"empty"}, "before": {"text", "empty"},
    "note": {"text", "empty"}, "tee": {"switch"}, "monitor": {"switch"},
    "nodes": {"number", "large"}, "launcher": set(), "model": set(),
    # of a layout, what a later version added is passed over
    "layout": {"table", "tables"},
}  # fmt: skip
SITE_KEYS = {
    "environment": {"table"}, "directives": {"table"}, "skip": {"texts", "nothing"},
    "fill_in": {"nothing"}, "commands": {"lists", "nothing"},
    "container": {"list", "texts", "nothing"}, "box": {"switch"},
    "login_shell": {"switch"}, "account": {"text", "empty"},
    "cpus_per_device": {"number", "large"}, "ask": set(),
}  # fmt: skip


def cases(keys):
    return [(key, kind) for key in keys for kind in VALUES]


@pytest.mark.parametrize(("key", "kind"), cases(RECIPE_KEYS))
def test_a_value_of_a_wrong_kind_in_a_recipe_is_told_with_its_key(key, kind):
    text = f"{GOOD}{key} = {VALUES[kind]}\n"
    if kind in RECIPE_KEYS[key]:
        Recipe.from_toml(text)
        return
    with pytest.raises(RecipeError) as told:
        Recipe.from_toml(text)
    word = "a recipe needs" if key in ("commands", "script") and kind == "text" else key
    assert word in str(told.value)
    assert len(str(told.value)) < 600


@pytest.mark.parametrize(("key", "kind"), cases(SITE_KEYS))
def test_a_value_of_a_wrong_kind_in_a_site_is_told_with_its_key(key, kind):
    text = f"{key} = {VALUES[kind]}\n"
    if kind in SITE_KEYS[key]:
        sites.from_toml(text)
        return
    with pytest.raises(SiteError) as told:
        sites.from_toml(text)
    assert key in str(told.value)
    assert len(str(told.value)) < 600


BYTES = {
    "binary": bytes(range(256)),
    "deep lists": b"a = " + b"[" * 20000,
    "many digits": b"nodes = " + b"9" * 10000,
    "recipe is a number": b"recipe = 3\n",
    "no name": b"program = 'p.py'\n",
    "empty": b"",
    "half a letter": b'name = "\xc3"\n',
}


@pytest.mark.parametrize("what", BYTES)
def test_no_command_answers_a_bad_file_with_a_traceback(what, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    content = BYTES[what]
    (tmp_path / "recipe.toml").write_bytes(content)
    code = main(["render", "--site", "slurm", str(tmp_path / "recipe.toml")])
    said = capsys.readouterr().err
    assert (code, bool(said)) == (2, True)
    (tmp_path / "site.toml").write_bytes(content)
    for command in (["site", "show"], ["site", "list"]):
        assert main(command) in (0, 1, 2), command


@pytest.mark.parametrize("name", ["x" * 5000, "no/such", ".", "\ud800", "a\nb"])
def test_what_is_no_file_and_no_run_is_told(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    assert main(["render", "--site", "slurm", name]) == 2
    assert "course render: " in capsys.readouterr().err


def test_the_python_api_tells_the_same():
    with pytest.raises(RecipeError, match="environment = 3 is not a table"):
        Recipe(name="a", program="p.py", environment=3)  # type: ignore[arg-type]


HOURS = ("nan", "-1", "", "[3]")


@pytest.mark.parametrize("text", [*(f"device_hours = {hours}" for hours in HOURS), "a" * 9, "\0"])
def test_a_bad_budget_file_is_told(tmp_path, monkeypatch, capsys, text, cluster):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    (tmp_path / ".course").mkdir()
    (tmp_path / ".course" / "budget.toml").write_text(text)
    assert main(["budget"]) == 2
    assert "should hold one line such as" in capsys.readouterr().err
