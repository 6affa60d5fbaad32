"""The script is a pure function: equal inputs give equal scripts, and no value can break it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jinja2 import UndefinedError

from course_lib.lab.errors import RecipeError
from course_lib.lab.job import quote, site
from course_lib.lab.job.recipe import Recipe
from course_lib.lab.job.script import key, render
from course_lib.lab.runs.stacks import step_beside

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
NASTY = [
    "", " ", "a b", "$(touch pwned)", "`touch pwned`", "'", '"', "\\", "a\nb", "-n", "*", "~",
    "${HOME}", "a;b", "a|b&", "#x", "!!", "é\u2028", "{run}x", "%j", "\t", "'\"'", "--",
]  # fmt: skip
PLACE = {
    "workspace": "/home/learner/course",
    "programs": "/home/learner/course/code",
}
MODEL = ("--num-layers", "12", "--hidden-size", "768", "--bf16", "--split", "949,50,1")
VARIANTS = {
    "torchrun": {},
    "srun": {"launcher": "srun", "tee": True},
    "looking": {"tee": True, "monitor": True, "environment": {"NCCL_DEBUG": "INFO"}},
}


def training(**changes):
    given = {"name": "dp4", "program": "pretrain_gpt.py", "arguments": MODEL, "nodes": 2,
             "gpus_per_node": 2}  # fmt: skip
    return Recipe(**given | changes)


def placed(name, monkeypatch=None):
    if monkeypatch:
        monkeypatch.setenv("USER", "learner")
    place = PLACE | ({"path": "/home/learner/course/.venv/bin"} if name in ("box", "slurm") else {})
    return site.preset(name).but(**place)


@pytest.fixture(scope="module")
def golden(request):
    return request.path.parent / "golden"


CASES = [
    *((name, "torchrun") for name in ("box", "slurm", "juwels-booster")),
    *(("slurm", variant) for variant in ("srun", "looking")),
]


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_the_script_of_every_site_is_the_known_one(name, variant, golden, monkeypatch):
    text = render(training(**VARIANTS[variant]), placed(name, monkeypatch)).text
    path = golden / f"{name}.{variant}.sbatch"
    if os.environ.get("COURSE_TEST_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_there_is_no_golden_file_of_a_site_that_is_gone(golden):
    found = {tuple(path.name.split(".")[:2]) for path in golden.glob("*.sbatch")}
    assert found == set(CASES)


def shellcheck(*words):
    checker = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    done = subprocess.run([checker, *words], capture_output=True, text=True, check=False)
    return done.stdout, done.returncode


def test_shellcheck_has_nothing_to_say(tmp_path):
    for name in site.presets():
        text = render(training(), placed(name)).text
        (tmp_path / f"{name}.sbatch").write_text(text, encoding="utf-8")
    assert shellcheck(*sorted(tmp_path.glob("*.sbatch"))) == ("", 0)


def test_shellcheck_warns_of_no_hostile_value(tmp_path):
    hostile = render(
        training(arguments=tuple(NASTY), environment={"A": "\n".join(NASTY)}, note="x\n$(y)"),
        placed("box").but(container=("apptainer", "exec", "it's.sif"), venv="/a b"),
    )
    (tmp_path / "hostile.sbatch").write_text(hostile.text)
    # Below a warning it remarks that `$(…)` in single quotes does not expand, which is the point.
    assert shellcheck("--severity=warning", tmp_path / "hostile.sbatch") == ("", 0)


def test_rendering_is_pure():
    assert render(training(), placed("box")) == render(training(), placed("box"))


def run_script(text, folder, getent=":"):
    """Run the script like Slurm, with an `srun` that records its arguments."""
    (folder / "bin").mkdir(exist_ok=True)
    commands = {
        "srun": 'printf "%s\\0" "$@" >"$REPORT/words"; env -0 >"$REPORT/variables"',
        "scontrol": "echo node1; echo node2",
        "getent": getent,
    }
    for name, line in commands.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / "bin" / name).chmod(0o755)
    environment = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "HOME": "/nowhere",
        "REPORT": str(folder),
        "SLURM_JOB_ID": "20012",
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_CPUS_PER_TASK": "2",
    }
    return subprocess.run(
        ["bash"], input=text.encode(), cwd=folder, env=environment, capture_output=True, check=False
    )


def reported(folder, name):
    return (folder / name).read_bytes().decode().split("\0")[:-1]


def check_nothing_leaks(arguments, environment, folder):
    runs = folder / "runs it's $(touch pwned)"
    where = placed("box").but(workspace=str(runs), path="", container=("env", *environment))
    (runs / "runs" / "dp4-20012").mkdir(parents=True, exist_ok=True)
    recipe = training(
        arguments=tuple(arguments), environment={f"V{i}": v for i, v in enumerate(environment)},
        note="".join(arguments),
    )  # fmt: skip
    done = run_script(render(recipe, where).text, folder)
    assert (done.returncode, done.stderr) == (0, b"")
    words = reported(folder, "words")
    variables = dict(entry.split("=", 1) for entry in reported(folder, "variables"))
    expected = [a.replace("{run}", str(runs / "runs" / "dp4-20012"), 1) for a in arguments]
    assert words[len(words) - len(expected) :] == expected
    assert words[1 : 3 + len(environment)] == ["env", *environment, "torchrun"]
    assert [variables[f"V{i}"] for i in range(len(environment))] == list(environment)
    assert variables["MASTER_ADDR"] == "node1"
    assert variables["MASTER_PORT"] == "10012"
    assert (runs / "runs" / "dp4-20012" / "exit_code").read_text() == "0\n"
    assert not list(folder.rglob("pwned"))


def test_no_value_reaches_the_shell_unquoted(tmp_path):
    check_nothing_leaks(NASTY, NASTY, tmp_path)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(TEXT, max_size=6), st.lists(TEXT, max_size=3))
def test_no_text_at_all_reaches_the_shell_unquoted(tmp_path, arguments, environment):
    check_nothing_leaks(arguments, environment, tmp_path)


@pytest.mark.parametrize(
    ("line", "error"),
    [("echo {{ recipe.name }}", TypeError), ("echo {{ no_such_thing | word }}", UndefinedError)],
)
def test_the_template_prints_nothing_that_was_not_quoted(tmp_path, line, error):
    template = tmp_path / "careless.j2"
    template.write_text(f"{line}\n")
    with pytest.raises(error, match=r"quoted|no_such_thing"):
        render(training(), placed("box"), template)


def test_the_trap_keeps_the_exit_code_and_a_cancel_is_143(tmp_path):
    folder = tmp_path / "runs" / "dp4-20012"
    folder.mkdir(parents=True)
    where = placed("box").but(workspace=str(tmp_path), path="")
    for commands, code in (
        ("exit 3", "3"),
        ("false", "1"),
        ("kill -TERM $$", "143"),
        ("true", "0"),
    ):
        recipe = Recipe(name="dp4", commands=commands)
        run_script(render(recipe, where).text, tmp_path)
        assert (folder / "exit_code").read_text().strip() == code, commands


@pytest.mark.parametrize("getent", ["exit 2", "exec /no/such/getent"])
def test_processes_meet_on_loopback_if_nodes_have_no_names(tmp_path, getent):
    (tmp_path / "runs" / "dp4-20012").mkdir(parents=True)
    where = placed("box").but(workspace=str(tmp_path), path="", container=())
    done = run_script(render(training(), where).text, tmp_path, getent)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "MASTER_ADDR=127.0.0.1" in reported(tmp_path, "variables")


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "\x1b[0m"])
def test_a_line_break_cannot_get_into_a_directive(value):
    with pytest.raises(RecipeError, match="#SBATCH line"):
        render(training(directives={"comment": value}), placed("box"))


def test_percent_signs_of_a_folder_are_no_patterns():
    text = render(training(), placed("box").but(workspace="/w/100%j")).text
    assert "--output=/w/100%%j/runs/dp4-%j/out.log" in text


def test_a_site_may_leave_out_add_and_overrule_directives():
    where = placed("slurm").but(
        skip=("gpus-per-node",), directives={"constraint": "a100&ib", "time": "1:00"}
    )
    text = render(training(directives={"exclusive": "user"}), where).text
    assert "gpus-per-node" not in text
    assert "#SBATCH --constraint=a100&ib\n" in text
    assert "#SBATCH --time=1:00\n" in text
    assert "#SBATCH --exclusive=user\n" in text


@pytest.mark.parametrize(
    ("ask", "line"),
    [("gpus-per-node", "gpus-per-node=a100:2"), ("gres", "gres=gpu:a100:2"),
     ("gpus-per-task", "gpus-per-task=a100:2")],
)  # fmt: skip
def test_devices_are_asked_for_as_the_site_wants(ask, line):
    text = render(training(), placed("slurm").but(ask=ask, gres_type="a100")).text
    assert f"#SBATCH --{line}\n" in text


def test_a_site_without_devices_is_not_asked_for_any():
    text = render(training(), placed("slurm").but(ask="none")).text
    assert "gpu" not in text.partition("set -eo")[0]


def test_the_key_follows_what_is_run_and_where_but_not_from_which_folder():
    one = key(training(), placed("box"))
    assert key(training(note="seen"), placed("box").but(workspace="/other")) == one
    assert key(training(nodes=1), placed("box")) != one
    assert key(training(), placed("box").but(link_gbit=0.2)) != one


def test_a_whole_script_is_submitted_as_it_stands():
    text = "#!/bin/sh\n#SBATCH -N 2\necho $(hostname)\n"
    assert render(Recipe(name="own", script=text), placed("box")).text == text


def test_in_a_notebook_the_script_shows_its_colours_and_in_a_terminal_its_text():
    shown = render(training(), placed("box"))
    assert str(shown) == shown.text
    assert "<span" in shown._repr_html_()
    assert "pretrain_gpt.py" in shown._repr_html_()


def test_a_value_in_a_directive_is_quoted_as_sbatch_reads_it():
    assert quote.directive("gpu:2") == "gpu:2"
    assert quote.directive('a "b" \\c') == '"a \\"b\\" \\\\c"'


@pytest.mark.parametrize("nasty", NASTY)
def test_a_step_beside_a_job_is_prepared_as_its_script_is(tmp_path, nasty):
    there = tmp_path / "the nodes' bin"
    there.mkdir()
    (there / "python").write_text('#!/bin/sh\nprintf "%s|" "$SET" "$LOADED" "$WITHIN" "$@"\n')
    (there / "python").chmod(0o755)
    where = placed("box").but(
        path=str(there), environment={"SET": nasty}, commands=[["export", f"LOADED={nasty}"]],
        container=("env", f"WITHIN={nasty}"),
    )  # fmt: skip
    run = subprocess.run(
        step_beside(where, "a/b.py", nasty), capture_output=True, text=True, check=True
    )
    assert run.stdout == "|".join([nasty] * 3 + [f"{where.programs}/a/b.py", nasty, ""])
