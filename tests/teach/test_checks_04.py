"""Lesson 04: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import json

import pytest

from course_lib.lab.job.recipes import links, shell
from course_lib.teach.checks import lesson04

from .answers_to_try import hold
from .finished_runs import hint_of

GRADIENT_BYTES = 7_433_216
NODES = ("node1", "node1", "node2", "node2")
# Milliseconds and GB/s.
ROADS = {"inside": (0.05, 2.0), "between": (0.1, 0.125)}


@pytest.fixture
def finished(finished):
    """`finished(recipe, links)` is a run of this recipe that measured these links."""

    def make(recipe, measured=None, exit_code=0):
        run = finished(recipe, "written to links.json\n", exit_code)
        if measured:
            (run.folder / "links.json").write_text(json.dumps(measured))
        return run

    return make


@pytest.fixture
def timed(finished):
    def make(name="hierarchical", size=GRADIENT_BYTES, repeat=10, algorithm="hierarchical", **more):
        recipe = links.recipe(name, bytes=size, repeat=repeat, algorithm=algorithm, **more)
        repeated = {"size_bytes": size, "algorithm": algorithm, "times_us": [90_000.0] * repeat}
        return finished(recipe, {"world_size": 4, "samples": [], "all_reduce": repeated})

    return make


@pytest.fixture
def ring(timed):
    return timed("ring", algorithm="ring")


@pytest.fixture
def roads(finished):
    ranks = [{"rank": rank, "node": node} for rank, node in enumerate(NODES)]
    samples = [
        {
            "kind": "point_to_point",
            "source": a,
            "destination": b,
            "size_bytes": size,
            "time_us": 1e3 * latency_ms + size / bandwidth_gb_s / 1e3,
        }
        for a in range(4)
        for b in range(a + 1, 4)
        for latency_ms, bandwidth_gb_s in [ROADS["inside" if NODES[a] == NODES[b] else "between"]]
        for size in (1024, 65536, 4194304)
    ]
    measured = {"world_size": 4, "ranks": ranks, "samples": samples}
    return finished(links.recipe("roads"), measured)


def test_the_right_timing_is_solved(timed, ring, capsys):
    lesson04.ex04_hierarchical(timed(), ring, 1.5)
    assert "✗" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"algorithm": "ring"}, "✗ algorithm: hierarchical\n  It is ring."),
        ({"size": GRADIENT_BYTES // 4}, "✗ bytes: 7433216\n  It is 1858304. Give the size"),
        ({"repeat": 1}, "Set `repeat`"),
        ({"nodes": 1, "gpus_per_node": 4}, "It is 1 × 4."),
    ],
)
def test_a_wrong_timing_is_told_apart(timed, ring, wrong, words):
    assert words in hint_of(lesson04.ex04_hierarchical, timed(**wrong), ring, 1.5)


def test_a_sweep_or_another_program_is_not_a_timing(finished, ring, roads):
    sweep = hint_of(lesson04.ex04_hierarchical, roads, ring, 1.5)
    assert "It is missing. Give the size" in sweep
    other = finished(shell.recipe("hello", "echo", nodes=2, gpus_per_node=2))
    assert "started something else" in hint_of(lesson04.ex04_hierarchical, other, ring, 1.5)


def test_a_gap_that_was_left_is_named(ring):
    unfinished = links.recipe("hierarchical", bytes=..., repeat=10, algorithm="hierarchical")
    assert "Still to fill in: bytes" in hint_of(lesson04.ex04_hierarchical, unfinished, ring, 1.5)


def test_the_expected_factor_holds_against_all_kinds_of_answers(timed, ring):
    run = timed()
    wrong = {
        2: "Count how often", 150: "Count how often", 3: "Compare bytes, not steps",
        2 / 3: "the remaining share", 1 / 3: "the saved share of the time",
        1.2: "You answered 1.2. By what factor",
    }  # fmt: skip
    check = lambda answer: lesson04.ex04_hierarchical(run, ring, answer)  # noqa: E731
    hold("expected_factor", check, 1.5, wrong, accepted=["1.5×"])
