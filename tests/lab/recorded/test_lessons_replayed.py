"""Every lesson runs on the recordings that come with the course, where nothing else can run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from course_lib.teach.run import run_lesson
from course_lib.teach.source import lessons_in

SOLUTIONS = Path(__file__).parents[3] / "solutions"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", lessons_in(SOLUTIONS, "ipynb"), ids=lambda path: path.stem)
def test_a_lesson_finds_each_of_its_runs_and_its_claims_hold(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin:/usr/bin:/bin")
    monkeypatch.setenv("COURSE_BOX_HOME", "/proc/no-box")
    monkeypatch.setenv("COURSE_SITE", "recorded")
    monkeypatch.delenv("COURSE_RECORDINGS", raising=False)
    result = run_lesson(path, tmp_path)
    assert result.failure == ""
    assert result.jobs > 0
    assert not [claim.text for claim in result.claims if not claim.holds]
