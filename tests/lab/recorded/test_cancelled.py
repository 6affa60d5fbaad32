"""No lesson uses a cancelled run as a result. Every cell stops with a sentence of the course, or
prints only what it also prints for a complete run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.publish.building.source import lessons_in

HERE = Path(__file__).parent
SOLUTIONS = HERE.parents[2] / "solutions"
VERDICT = re.compile(r"you guessed|no guess|\bnan\b|✓|✗", re.IGNORECASE)


def verdicts(text: str) -> set[str]:
    return {line for line in text.splitlines() if VERDICT.search(line)}


def is_honest(said: dict) -> bool:
    if not said["kind"]:
        return verdicts(said["out"]) <= verdicts(said["as_it_is"])
    if said["kind"] == "NotYet":
        return "was cancelled" in said["error"] or "is not of the last run" in said["error"]
    not_recorded = said["kind"] == "NoRecordingError"  # a later recipe names the folder of the run
    return said["is_told"] and (not_recorded or "\n" not in said["error"])


@pytest.mark.slow
@pytest.mark.many(6)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", lessons_in(SOLUTIONS, "ipynb"), ids=lambda path: path.stem)
def test_no_cell_takes_a_cancelled_run_for_a_result(path, cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_SITE", "recorded")
    monkeypatch.setenv("MPLBACKEND", "agg")
    command = [sys.executable, HERE / "cancel_each.py", path, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said
    assert [one for one in said if not one["cancelled"]] == []
    assert [one for one in said if not is_honest(one)] == []
