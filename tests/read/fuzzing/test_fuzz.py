"""Some seconds of what `fuzz.py` does for hours: the same cases every time."""

from __future__ import annotations

import fuzz
import pytest
from fuzz_seeds import seeds_of


@pytest.mark.parametrize("reader", fuzz.KINDS)
def test_damaged_files_do_not_raise(tmp_path, reader):
    seeds = seeds_of(reader, None)
    for number in range(25):
        path = fuzz.make(reader, seeds, number, tmp_path)
        fuzz.KINDS[reader].use(path)
        path.unlink()
