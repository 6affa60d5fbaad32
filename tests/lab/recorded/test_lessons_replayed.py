"""Every lesson runs on the course's recordings, on a machine that cannot run jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import course_lib.lab.job
from course_lib.lab.recorded.recording import Recording
from course_lib.publish.building.source import lessons_in
from course_lib.publish.run import run_lesson

SOLUTIONS = Path(__file__).parents[3] / "solutions"
LEARNERS = SOLUTIONS.parent / "notebooks"


@pytest.fixture
def nowhere_to_run(monkeypatch):
    monkeypatch.setenv("PATH", f"{sys.prefix}/bin:/usr/bin:/bin")
    monkeypatch.setenv("COURSE_BOX_HOME", "/proc/no-box")
    monkeypatch.setenv("COURSE_SITE", "recorded")
    monkeypatch.delenv("COURSE_RECORDINGS", raising=False)


@pytest.mark.slow
@pytest.mark.many(3)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", lessons_in(SOLUTIONS, "ipynb"), ids=lambda path: path.stem)
def test_a_lesson_finds_each_of_its_runs_and_its_claims_hold(
    path, nowhere_to_run, tmp_path, monkeypatch
):
    """Replay lessons in Korean, because cells must not depend on the library's words. In English,
    all lessons run with real jobs."""
    monkeypatch.setenv("COURSE_LANGUAGE", "ko")
    result = run_lesson(path, tmp_path / "Jane Doe")
    assert result.failure == ""
    assert result.jobs > 0
    assert not [claim.text for claim in result.claims if not claim.holds]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("lesson", ["02b_fifteen_edits", "13_parallel_layers_by_hand"])
def test_files_with_empty_gaps_are_recorded_too(lesson, nowhere_to_run, tmp_path):
    """A lesson continues below a submission with empty gaps."""
    words = ["-q", "-p", "course_lib.publish.nbval_checks", "-p", "no:cacheprovider", "--nbval-lax"]
    notebook = LEARNERS / f"{lesson}.ipynb"
    command = [sys.executable, "-m", "pytest", *words, "--nbval-cell-timeout=120", str(notebook)]
    elsewhere = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    elsewhere["COURSE_WORKSPACE"] = str(tmp_path)
    done = subprocess.run(command, env=elsewhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]


TEMPLATE = Path(course_lib.lab.job.__file__).parent / "job.sbatch.j2"
RECORDINGS = [Recording(path) for path in sorted((SOLUTIONS.parent / "recordings").glob("*.runs"))]


def written_by_the_template(recipe):
    """Return the comments of a script that a lesson took from the lab and submitted as its own."""
    script = str(recipe.get("script") or "")
    begun = script.startswith("#!/bin/bash\n# What the job asks of the cluster.")
    return {line for line in script.splitlines() if begun and line.startswith("# ")}


def test_scripts_in_recordings_are_those_that_the_lab_writes_today():
    """Otherwise a changed script would ask for a run without a recording."""
    runs = [run for recording in RECORDINGS for run in recording.manifest.runs]
    remarks = {run.name: written_by_the_template(run.recipe) for run in runs}
    assert {name for name, lines in remarks.items() if lines} >= {"one-too-few"}
    known = set(TEMPLATE.read_text().splitlines())
    assert {name: lines - known for name, lines in remarks.items() if lines - known} == {}
