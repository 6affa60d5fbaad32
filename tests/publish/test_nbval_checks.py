"""Under nbval, a learner's check cells must fail for the right reason, and no other cell may
fail."""

from __future__ import annotations

import os
import subprocess
import sys

import nbformat
import pytest

SET_UP = """
from course_lib.teach.checklist import Checklist
def check(met):
    with Checklist("00.1") as checklist:
        checklist.that(met, "two nodes", hint="one more")
"""


def write_notebook(folder, cells):
    made = []
    for number, (source, tags) in enumerate([(SET_UP, []), *cells]):
        cell = nbformat.v4.new_code_cell(source, id=f"c{number}")
        cell.metadata.tags = tags
        made.append(cell)
    notebook = nbformat.v4.new_notebook(cells=made)
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "", "language": "python"}
    folder.mkdir()
    nbformat.write(notebook, folder / "99_test.ipynb")


def run_nbval(folder, *arguments):
    plugins = ["-p", "course_lib.publish.nbval_checks", "-p", "no:cacheprovider"]
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-rA",
            "--nbval-lax",
            *plugins,
            f"--rootdir={folder}",
            *arguments,
        ],
        cwd=folder,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_failing_check_is_expected_of_a_learner(tmp_path):
    write_notebook(tmp_path / "notebooks", [("check(False)", ["check"]), ("1 + 1", [])])
    done = run_nbval(tmp_path, "notebooks")
    assert done.returncode == 0, done.stdout
    assert "2 passed, 1 xfailed" in done.stdout


@pytest.mark.many(2)
@pytest.mark.parametrize(
    ("folder", "cell", "why"),
    [
        ("notebooks", ("check(True)", ["check"]), "XPASS(strict)"),
        ("notebooks", ("check(1 / 0)", ["check"]), "failed by accident"),
        ("notebooks", ("check(False)", []), "✗ two nodes"),
        ("solutions", ("check(False)", ["check"]), "✗ two nodes"),
    ],
)
def test_anything_else_fails(tmp_path, folder, cell, why):
    write_notebook(tmp_path / folder, [cell])
    done = run_nbval(tmp_path, folder)
    assert done.returncode == 1
    assert why in done.stdout


def test_a_notebook_under_test_is_told_to_print_plain_text(tmp_path):
    cell = "import os; assert os.environ['COURSE_PLAIN'] == '1'"
    write_notebook(tmp_path / "solutions", [(cell, [])])
    done = run_nbval(tmp_path, "solutions")
    assert "2 passed" in done.stdout


def test_the_kernel_has_no_port_that_another_account_could_reach(tmp_path):
    no_port = "import psutil\nassert psutil.Process().net_connections('inet') == []"
    write_notebook(tmp_path / "solutions", [(no_port, [])])
    done = run_nbval(tmp_path, "solutions")
    assert done.returncode == 0, done.stdout


def test_a_solution_comes_after_and_finds_the_runs_of_its_lesson(tmp_path):
    where = "import os, pathlib\nleft = pathlib.Path(os.environ['COURSE_WORKSPACE']) / 'left'\n"
    write_notebook(tmp_path / "notebooks", [(where + "left.touch()", [])])
    write_notebook(tmp_path / "solutions", [(where + "assert left.exists()", [])])
    done = run_nbval(tmp_path, "notebooks", "solutions")
    assert done.returncode == 0, done.stdout


def test_a_learner_s_notebook_leaves_its_runs_to_its_solution(tmp_path):
    write_notebook(tmp_path / "notebooks", [("1 / 0", [])])
    cells = nbformat.read(tmp_path / "notebooks/99_test.ipynb", as_version=4)
    cells.cells[-1].id = "clean"
    nbformat.write(cells, tmp_path / "notebooks/99_test.ipynb")
    done = run_nbval(tmp_path, "notebooks")
    assert "1 passed, 1 skipped" in done.stdout
    (tmp_path / "notebooks").rename(tmp_path / "solutions")
    assert "1 failed, 1 passed" in run_nbval(tmp_path, "solutions").stdout


@pytest.mark.parametrize(("asked", "found"), [("", 0), ("ko", 2), ("ko/99_test.ipynb", 2)])
def test_a_translation_runs_only_on_request(tmp_path, asked, found):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    write_notebook(folder / "ko", [("1", [])])
    run = run_nbval(tmp_path, f"notebooks/{asked}", "--collect-only", "-q")
    assert run.stdout.count("99_test.ipynb::") == found, run.stdout
