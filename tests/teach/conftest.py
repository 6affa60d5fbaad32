"""Fixtures for tests of checks: a separate workspace, and runs as jobs leave them."""

from __future__ import annotations

import pytest

from course_lib.lab.job.recipes import trial
from course_lib.lab.lab import Lab

from .finished_runs import Finished
from .own_trials import on_four_ranks


@pytest.fixture(autouse=True)
def whole_hints(monkeypatch):
    monkeypatch.setenv("COURSE_HINTS", "all")


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    monkeypatch.setenv("COURSE_BOX_HOME", str(tmp_path / "box"))
    return tmp_path


@pytest.fixture
def lab(workspace):
    return Lab(workspace, site="box", quiet=True)


@pytest.fixture
def finished(lab):
    return Finished(lab.workspace.folder / "elsewhere", lab)


@pytest.fixture
def tried(finished):
    """The run that this text leaves behind as a trial of an exercise."""

    def make(text, exercise):
        run = finished(trial.recipe("own", "work/own.py", exercise), "", exit_code=None)
        on_four_ranks(run.folder, text, exercise)
        (run.folder / "exit_code").write_text("0\n")
        return finished.lab.open(run.folder)

    return make
