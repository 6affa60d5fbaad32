"""The acceptance run on a GPU has all its parts, and a failed part does not stop the others."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

PATIENCE_S = 240
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def acceptance(monkeypatch):
    """Return the program as a module; it imports modules from its own folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    import gpu_acceptance

    yield gpu_acceptance
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("gpu_acceptance", "acceptance"):
            del sys.modules[name]


def part(acceptance, name):
    return next(part for part in acceptance.PARTS if part.name == name)


def test_the_parts_take_less_than_twenty_minutes_together(acceptance):
    from acceptance.parts import LONGEST_S

    names = ["machine", "equality", "speed", "readers", "wall", "prediction", "nodes"]
    assert [part.name for part in acceptance.PARTS] == names
    assert sum(part.limit_s for part in acceptance.PARTS) < LONGEST_S


def test_a_part_is_rehearsed_without_a_gpu_and_says_so(acceptance, tmp_path):
    patient = dataclasses.replace(part(acceptance, "machine"), limit_s=PATIENCE_S)
    result = acceptance.in_its_own_process(patient, tmp_path, rehearse=True)
    assert (result.status, result.error) == ("rehearsed", "")
    assert {check["what"]: check["ok"] for check in result.checks} == {
        "torch reaches a GPU": True,
        "the box finds what torch reaches": True,
        "a product comes out right": True,
    }


def test_a_part_whose_time_is_up_is_ended_and_reported(acceptance, tmp_path):
    short = dataclasses.replace(part(acceptance, "machine"), limit_s=0.05)
    result = acceptance.in_its_own_process(short, tmp_path, rehearse=True)
    assert (result.status, result.good) == ("out of time", False)


@pytest.mark.parametrize(
    ("name", "memory_gib", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", 79.2, "A100-80GB"),
        ("NVIDIA A100-PCIE-40GB", 39.4, "A100-40GB"),
        ("NVIDIA GH200 480GB", 94.5, "GH200-96GB"),
        ("NVIDIA H200", 139.8, "H200"),
        ("NVIDIA GeForce RTX 4090", 23.5, "A100-40GB"),
    ],
)
def test_the_planner_starts_from_the_figures_of_the_gpu_at_hand(
    acceptance, name, memory_gib, expected
):
    from acceptance.prediction import in_table

    assert in_table(name, memory_gib) == expected


def noted(acceptance, tmp_path, work, rehearse=False):
    notes = acceptance.Notes(rehearse, tmp_path)
    good = acceptance.notes.write(notes, work)
    return good, acceptance.notes.read("machine", tmp_path, 1.0, "out of time", "")


def fails_half_way(notes):
    notes.fact("before", 1)
    notes.check("a check", ok=True)
    raise RuntimeError("the device fell off the bus")


@pytest.mark.parametrize(
    ("work", "rehearse", "status"),
    [
        (lambda notes: notes.check("a check", ok=True), False, "passed"),
        (lambda notes: notes.check("a check", ok=True), True, "rehearsed"),
        (lambda notes: notes.check("a check", ok=False), True, "failed"),
        (lambda notes: notes.fact("nothing was checked", 1), False, "failed"),
        (fails_half_way, False, "failed"),
    ],
)
def test_a_part_passes_if_it_has_checks_and_all_hold(acceptance, tmp_path, work, rehearse, status):
    good, result = noted(acceptance, tmp_path, work, rehearse)
    assert (result.status, good) == (status, status != "failed")


def test_the_report_tells_what_was_found_before_an_error(acceptance, tmp_path):
    result = noted(acceptance, tmp_path, fails_half_way)[1]
    acceptance.report.write([result], {"rehearsal": False}, tmp_path)
    told = (tmp_path / "report.md").read_text()
    for words in ("| machine |", "- before: 1", "fell off the bus"):
        assert words in told
    assert json.loads((tmp_path / "report.json").read_text())["parts"][0]["status"] == "failed"


def test_collectives_of_an_older_torch_have_the_names_of_today(acceptance):
    import torch.distributed as dist
    from acceptance.older_torch import NEW_NAMES, name_collectives

    older = SimpleNamespace(**{old: f"the function {old}" for old in NEW_NAMES.values()})
    name_collectives(older)
    assert {name: getattr(older, name) for name in NEW_NAMES} == {
        name: f"the function {old}" for name, old in NEW_NAMES.items()
    }
    ours = {name: getattr(dist, name) for name in NEW_NAMES}
    name_collectives(dist)
    assert {name: getattr(dist, name) for name in NEW_NAMES} == ours
