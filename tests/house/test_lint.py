"""`make lint` finds no problem. These are tests so that they run on several processors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


@pytest.mark.parametrize("command", ["ruff check .", "ruff format --check .", "mypy"])
def test_nothing_to_complain(repository, command):
    name, *arguments = command.split()
    done = subprocess.run(
        [BIN / name, *arguments], cwd=repository, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
