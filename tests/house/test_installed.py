"""`pip install .` brings what a clone has: the box, sites, templates and programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def site_packages(repository, tmp_path_factory) -> Path:
    """The package as pip installs it, in a folder of its own."""
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
    assert str(site_packages / "course_lib" / "programs" / "pretrain_gpt.py") in printed


def test_every_program_of_a_job_is_installed(site_packages, repository):
    def files(folder):
        return {path.relative_to(folder) for path in folder.rglob("*.py")}

    assert files(site_packages / "course_lib" / "programs") == files(repository / "code")
