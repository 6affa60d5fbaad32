"""Every program starts wherever it is called from, also where Python adds no folder to its path."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).resolve().parents[2] / "code").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_finds_its_modules(program, tmp_path):
    (tmp_path / "dataset").mkdir()  # as `data`, `training` … may be called where a learner works
    done = subprocess.run(
        [sys.executable, "-P", str(program), "--help"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {program.name}")
