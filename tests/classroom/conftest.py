"""A class folder as an instructor makes it, and learners with accounts of their own."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from course_lib.classroom import folder

from . import learners


@pytest.fixture
def open_place():
    """Folder that learners' accounts may enter, unlike the folders of pytest."""
    place = Path(tempfile.mkdtemp(prefix="course-class-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def classroom(open_place, lacking, monkeypatch):
    """The class folder, made for the group of instructors."""
    if os.getuid() != 0:
        lacking("only root can be several accounts")
    made = open_place / "class"
    made.mkdir()
    os.chown(made, 0, learners.INSTRUCTORS)
    folder.make(made, "")
    monkeypatch.setenv("COURSE_CLASS", str(made))
    return made


@pytest.fixture
def enrol(open_place, classroom):
    def make(number: int) -> learners.Learner:
        return learners.learner(number, open_place)

    return make


@pytest.fixture
def ada(enrol):
    return enrol(0)


@pytest.fixture
def eve(enrol):
    return enrol(1)
