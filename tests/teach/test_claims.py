"""The claims of lessons are evaluated when they run, and shown in one table."""

from __future__ import annotations

import json
from fractions import Fraction

import nbformat
import numpy as np
import pytest

from course_lib import claim
from course_lib.publish import run as course_run
from course_lib.teach import claims


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("value", "bounds", "holds"),
    [
        (1.5, {"least": 1.2, "most": 2}, True),
        (1.1, {"least": 1.2, "most": 2}, False),
        (2.1, {"least": 1.2, "most": 2}, False),
        (2, {"most": 2}, True),
        (np.float32(1.2), {"least": 1}, True),
        (np.array(0.5), {"least": 1}, False),
        (Fraction(3, 2), {"least": 1.5}, True),
        (float("nan"), {"least": 0}, False),
        (None, {"least": 0}, False),
        ("fast", {"most": 5}, False),
        (True, {}, True),
        (np.bool_(False), {}, False),
    ],
)
def test_a_claim_holds_if_its_value_lies_within_the_bounds(workspace, capsys, value, bounds, holds):
    claim("four devices are faster than two", value, **bounds)
    (kept,) = claims.kept(workspace)
    assert kept.holds == holds
    assert capsys.readouterr().out.startswith("✓ holds here" if holds else "✗ not here")


def test_a_claim_without_a_bound_is_none(workspace):
    with pytest.raises(ValueError, match="has no bound"):
        claim("it is fast", 3.0)


def test_a_line_cut_by_a_kill_hides_no_other(workspace):
    claim("first", 1.0, least=0)
    path = workspace / claims.FILE
    path.write_text(path.read_text() + '{"text": "cut', encoding="utf-8")
    with path.open("a") as file:
        file.write("\n" + json.dumps({"unknown": 1}) + "\n")
    claim("second", 2.0, least=0)
    assert [made.text for made in claims.kept(workspace)] == ["first", "second"]


def test_a_workspace_that_cannot_be_written_stops_no_lesson(workspace, capsys):
    (workspace / ".course").write_text("in the way")
    claim("the lesson goes on", 1.0, least=0)
    assert "could not be saved" in capsys.readouterr().out


def test_course_run_gives_each_lesson_its_own_claims(tmp_path):
    results = []
    for name, value in (("77_one", 1.0), ("78_two", 9.0)):
        path = tmp_path / f"{name}.ipynb"
        source = f"from course_lib import claim\nclaim('small', {value}, most=5, unit='ms')"
        cells = [nbformat.v4.new_code_cell(source, id="c0")]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
        results.append(course_run.run_lesson(path, tmp_path / "work"))
    assert [[made.holds for made in result.claims] for result in results] == [[True], [False]]
    table = claims.table([(r.lesson, made) for r in results for made in r.claims])
    assert "78_two  NO" in table
    assert table.endswith("1 of 2 claims hold")
