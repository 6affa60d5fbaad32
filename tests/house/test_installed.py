"""`pip install .` brings what a clone has: the box, sites, templates and programs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def site_packages(repository, tmp_path_factory) -> Path:
    """Package as pip installs it, in its own folder."""
    target = tmp_path_factory.mktemp("site-packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", target, repository], check=True)
    return target


def run_installed(site_packages, folder, *command):
    environment = {**os.environ, "PYTHONPATH": str(site_packages)}
    environment["COURSE_BOX_HOME"] = str(folder / "box")
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_installed_library_is_not_the_clone(site_packages, tmp_path):
    program = "import course_lib; print(course_lib.__file__)"
    printed = run_installed(site_packages, tmp_path, sys.executable, "-P", "-c", program)
    assert Path(printed.strip()).is_relative_to(site_packages)


def test_the_installed_box_answers(site_packages, tmp_path):
    sinfo = site_packages / "course_lib" / "box" / "bin" / "sinfo"
    printed = run_installed(site_packages, tmp_path, str(sinfo), "--noheader", "-N")
    assert len(printed.splitlines()) == 2


def test_the_installed_course_renders_a_training_job(site_packages, tmp_path):
    program = (
        "from course_lib import Lab, gpt\n"
        "print(Lab(site='box').script(gpt.recipe('dp4', nodes=2, gpus_per_node=2)))"
    )
    printed = run_installed(site_packages, tmp_path, sys.executable, "-P", "-c", program)
    assert str(site_packages / "course_lib" / "course" / "code" / "pretrain_gpt.py") in printed


def test_every_program_of_a_job_is_installed(site_packages, repository):
    def files(folder):
        return {path.relative_to(folder) for path in folder.rglob("*.py")}

    assert files(site_packages / "course_lib" / "course" / "code") == files(repository / "code")


def test_course_start_makes_a_folder_of_lessons_and_keeps_what_the_learner_changed(
    site_packages, repository, tmp_path
):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "data").symlink_to(repository / "data")  # else half a minute to make it
    start = [sys.executable, "-P", "-m", "course_lib.cli", "start", str(mine)]
    run_installed(site_packages, tmp_path, *start, "--no-lab")
    lesson = mine / "notebooks" / "03_data_parallelism.ipynb"
    for kind, folder in (("notebooks", lesson.parent), ("solutions", lesson.parent / "solutions")):
        shipped = {path.name: path.read_text() for path in (repository / kind).glob("*.ipynb")}
        assert {path.name: path.read_text() for path in folder.glob("*.ipynb")} == shipped
        assert (folder / "../images/overview.svg").is_file()
    changed = lesson.read_text().replace("# ", "# mine ", 1)
    lesson.write_text(changed)
    (mine / "notebooks" / "04_topology.ipynb").unlink()
    printed = run_installed(site_packages, tmp_path, *start, "--language", "ko", "--no-lab")
    assert "실습실" in (mine / "notebooks" / "ko" / "00_the_lab.ipynb").read_text(), printed
    printed = run_installed(site_packages, tmp_path, *start, "--no-browser", "--version")
    assert printed.splitlines()[-1] == version("jupyterlab"), "JupyterLab has got the options"
    assert lesson.read_text() == changed
    assert (mine / "notebooks" / "04_topology.ipynb").is_file()


def test_the_installed_course_hands_out_the_recorded_runs_that_it_brings(site_packages, tmp_path):
    program = (
        "from course_lib import Lab, gpt\n"
        "lab = Lab(site='recorded', quiet=True)\n"
        "one = dict(nodes=1, gpus_per_node=1, micro_batch=8, global_batch=8, iterations=12)\n"
        "print(lab.submit(gpt.recipe('dp1', **one)).state)"
    )
    printed = run_installed(site_packages, tmp_path, sys.executable, "-P", "-c", program)
    assert "COMPLETED" in printed
