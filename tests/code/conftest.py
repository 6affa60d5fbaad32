"""Run and import the programs of code/ as a job does, with code/ on the path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
for folder in ("code", "tests/code"):
    sys.path.insert(0, str(REPOSITORY / folder))


@pytest.fixture(scope="module")
def worlds():
    """`worlds(4)` is a process group of four ranks that lives until the module's tests end."""
    from worlds import Worlds

    with Worlds() as made:
        yield made
