"""The text that trainings read is made once, and whoever waits for it hears of it."""

from __future__ import annotations

import pytest

from course_lib.lab.errors import LabError
from course_lib.lab.job import sample_text
from course_lib.lab.job.recipes import gpt
from course_lib.lab.job.site import Site


def prepare(tmp_path, monkeypatch, program):
    monkeypatch.setattr(sample_text, "SIGN_OF_LIFE_S", 1)
    (tmp_path / "sample_text.py").write_text(program, encoding="utf-8")
    site = Site(name="here", programs=str(tmp_path), data=str(tmp_path))
    said: list[str] = []
    sample_text.prepare(gpt.recipe("first", iterations=1), site, said.append)
    return said


def test_waiting_is_not_silent(tmp_path, monkeypatch):
    said = prepare(tmp_path, monkeypatch, "import time; time.sleep(1.5)")
    assert said[0].startswith("first: preparing the sample text in ")
    assert said[1] == "  still preparing, 1 s so far"


def test_what_went_wrong_is_told(tmp_path, monkeypatch):
    with pytest.raises(LabError, match="could not be made: no room"):
        prepare(tmp_path, monkeypatch, "import sys; sys.exit('no room')")
