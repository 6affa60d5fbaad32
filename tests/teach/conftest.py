"""For the tests of checks: a workspace of their own, and runs as jobs leave them behind."""

from __future__ import annotations

import pytest

from course_lib.lab.lab import Lab

from .finished_runs import Finished


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
