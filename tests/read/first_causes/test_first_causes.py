"""Whole ends of logs, each with its first cause, rank and node.

`first_causes.txt` holds them: a line `@@@ name: cause key=value …`, then the log.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from course_lib import read

BLOCKS = (Path(__file__).parent / "first_causes.txt").read_text().split("@@@ ")[1:]
CASES = {block.split(":")[0]: block.split(": ", 1)[1] for block in BLOCKS}


@pytest.mark.parametrize("name", CASES)
def test_first_cause(write, name):
    facts, _, log = CASES[name].partition("\n")
    cause, *known = facts.split()
    expected = dict(re.fullmatch(r"(\w+)=(.+)", fact).groups() for fact in known)
    found = read.failure(write("out.log", log))
    if cause == "nothing":
        assert found is None
        return
    facts_found = {"rank": found.rank, "node": found.node, **found.details}
    assert found.cause == cause
    assert {key: str(facts_found.get(key)) for key in expected} == expected
    assert found.rank is None or "rank" in expected
