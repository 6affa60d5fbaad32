"""The command `course` answers quickly, and its exit codes are clear."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib import cli
from course_lib.lab import clusters
from course_lib.lab.job import site
from course_lib.lab.job.recipes import shell

from .conftest import PATIENCE_S

LIGHT = ["torch", "pandas", "numpy", "jinja2", "ipywidgets", "matplotlib"]


@pytest.fixture
def course(lab, monkeypatch, capsys):
    """`course("runs")` → exit code, standard output, standard error, in an empty workspace."""
    lab.workspace.folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("COURSE_WORKSPACE", str(lab.workspace))
    if lab.site.name == "box":
        (lab.workspace.folder / "site.toml").write_text(
            site.preset_path("box").read_text(encoding="utf-8"), encoding="utf-8"
        )

    def call(*words):
        capsys.readouterr()
        try:
            code = cli.main(list(words))
        except SystemExit as left:
            code = left.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def script(tmp_path):
    """`script("hi", "echo hi")` → the path of a batch script of this name."""

    def write(name, *lines):
        path = tmp_path / f"{name}.sbatch"
        path.write_text("\n".join(["#!/bin/bash", *lines, ""]), encoding="utf-8")
        return str(path)

    return write


def test_help_lists_every_command_and_loads_next_to_nothing():
    program = (
        "import sys; from course_lib import cli; cli.main(['--help']); "
        f"sys.exit(str([m for m in {LIGHT} if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == "[]"
    for name in cli.COMMANDS:
        assert f"  {name} " in done.stdout


OURS = [name for name, (module, _) in cli.COMMANDS.items() if module.startswith("lab.")]


@pytest.mark.parametrize("name", OURS)
def test_every_command_explains_itself(course, name):
    code, out, _ = course(name, "--help")
    assert code == 0
    assert f"usage: course {name}" in out


def test_no_command_or_an_unknown_one_is_a_usage_error(course):
    assert course()[0] == 2
    code, _, err = course("sumbit")
    assert code == 2
    assert "no command 'sumbit'" in err


def test_a_job_from_submission_to_cleaning(course, script):
    code, out, _ = course("submit", script("hi", "echo hi"), "--watch")
    assert (code, out.splitlines()[-1]) == (0, "hi: completed")
    assert "is returned" in course("submit", script("hi", "echo hi"))[1]
    assert course("log", "hi")[:2] == (0, "hi\n")
    assert course("log", "hi", "-f")[:2] == (0, "hi\n")
    assert "COMPLETED" in course("runs")[1]
    said = course("clean", "hi")[1]
    assert "would delete hi-" in said
    assert "the same command with --yes deletes it" in said
    assert "deleted hi-" in course("clean", "hi", "--yes")[1]
    assert course("log", "hi")[0] == 2


def test_the_box_of_another_clone_is_no_cluster(tmp_path, monkeypatch):
    package = Path(clusters.__file__).parents[1]
    other = tmp_path / "clone" / "course_lib"
    shutil.copytree(package / "box", other / "box", symlinks=True)
    (other / "__init__.py").touch()
    monkeypatch.setenv("PATH", f"{other / 'box' / 'bin'}:{os.environ['PATH']}")
    assert Path(shutil.which("sinfo")).is_relative_to(other)
    assert not clusters.slurm_answers()


def test_a_failed_run_is_exit_code_1_with_its_cause(course, script):
    code, out, _ = course("submit", script("bad", "echo why; exit 3"), "--watch")
    assert code == 1
    assert out.endswith("  why\n")
    assert course("log", "bad")[0] == 1


HOSTILE = (
    r"printf '\033]52;c;cm0=\007 \033[2J\033[8mhidden\033[0m\n10 %%\r20 %%\n\033'; sleep 1; "
    r"printf '[1;31mred\302'; sleep 1; printf '\251 \033\033[m[2J \342\200\256evil\b\r'; sleep 1; "
    r"printf '\nlast\n'; exit 3"
)
NEUTRAL = r"""\x1b]52;c;cm0=\x07 hidden
10 %
20 %
red© \x1b[2J \u202eevil\x08
last
"""


def test_a_log_does_nothing_to_the_terminal(course, script):
    course("submit", script("wild", HOSTILE))
    assert course("log", "wild", "-f")[:2] == (1, NEUTRAL)
    assert course("log", "wild")[:2] == (1, NEUTRAL)
    assert course("log", "wild", "-n", "2")[1] == "".join(NEUTRAL.splitlines(True)[-2:])
    assert course("submit", script("wild", HOSTILE), "--watch")[0] == 1
    for said in course("submit", script("wild2", HOSTILE), "--watch"):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", str(said))


def test_a_recipe_can_be_named_in_every_way(course, lab, tmp_path):
    run = lab.submit(shell.recipe("x", "hostname", nodes=2))
    run.wait(PATIENCE_S)
    for word in (str(run.folder / "recipe.toml"), "x", str(run.job_id)):
        assert "#SBATCH --nodes=2" in course("render", word)[1]
    own = tmp_path / "own.sbatch"
    own.write_text("#!/bin/sh\n#SBATCH -N 1\ntrue\n")
    assert course("render", str(own))[1] == own.read_text()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["render", "nothing"], "no run 'nothing'"),
        (["cancel", "nothing"], "scancel nothing"),
        (["site", "show", "nowhere"], "no site preset"),
    ],
)
def test_what_is_refused_is_exit_code_2_with_the_reason(course, words, part):
    code, _, err = course(*words)
    assert code == 2
    assert part in err


def test_cancelling_and_following(course, script):
    course("submit", script("slow", "echo begun; sleep 100"))
    assert "slow" in course("runs")[1]
    assert "is being cancelled" in course("cancel", "slow")[1]
    code, _, err = course("log", "slow", "--follow")
    assert code == 1
    assert "slow: cancelled" in err


def test_a_shell_finds_the_commands_of_the_cluster(course, lab):
    look = "command -v sbatch; command -v course"
    done = subprocess.run(
        [sys.executable, "-m", "course_lib.cli", "shell", "-c", look],
        env=os.environ | {"SHELL": "/bin/sh"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = [Path(line) for line in done.stdout.splitlines()]
    assert [path.name for path in found] == ["sbatch", "course"]
    if lab.site.name == "box":
        assert found[0].parent.parent.name == "box"


def test_a_site_is_chosen_and_completed(course, lab):
    (lab.workspace.folder / "site.toml").unlink(missing_ok=True)
    assert "juwels-booster" in course("site", "list")[1]
    code, out, _ = course("site", "use", "leonardo")
    assert code == 0
    assert "fill in account" in out
    path = lab.workspace.folder / "site.toml"
    path.write_text(path.read_text().replace('account = ""', 'account = "mine"'))
    assert "* leonardo" in course("site", "list")[1]
    assert course("site", "use", "lumi")[0] == 2


def test_the_budget_is_shown_and_set(course):
    assert "no limit set" in course("budget")[1]
    assert "left of 2.50" in course("budget", "2.5")[1]
    assert course("budget", "much")[0] == 2
    assert "no limit set" in course("budget", "none")[1]
