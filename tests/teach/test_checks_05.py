"""Lesson 05: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

import json
import shutil

import pytest

from course_lib.lab.job.recipes import gpt
from course_lib.teach.checks import lesson05

from .answers_to_try import hold
from .finished_runs import hint_of

STEP_US = 10_000
TRANSFER_US = 3000
# Per step and rank; rank 2 is the straggler.
WAITS_US = (2000, 2200, 0, 1800)
ROWS = 40
FEW = {"aten::mm": 6, "aten::item": 2}
MANY = {"aten::mm": 6, "aten::item": 2 + ROWS, "aten::sum": ROWS, "aten::as_strided": ROWS}


def event(category, name, start_us, duration_us):
    return {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start_us,
        "dur": duration_us, "args": {},
    }  # fmt: skip


def trace(rank, calls, steps=2):
    """Each step: operators one after the other, then one all-reduce that ends the step."""
    events = []
    for step in range(steps):
        begin = step * STEP_US
        events.append(event("user_annotation", f"ProfilerStep#{step + 1}", begin, STEP_US))
        names = [name for name, count in calls.items() for _ in range(count)]
        events += [event("cpu_op", name, begin + 10 * at, 8) for at, name in enumerate(names)]
        took = TRANSFER_US + WAITS_US[rank]
        end = begin + STEP_US
        events.append(event("user_annotation", "gloo:all_reduce", end - took, took))
    where = {"backend": "gloo", "rank": rank, "world_size": 4}
    return json.dumps({"distributedInfo": where, "traceEvents": events})


@pytest.fixture
def recorded(finished):
    """A run of the lesson, as it lies in its folder."""

    def make(name="second", calls=MANY, ranks=(0, 1, 2, 3), exit_code=0, **values):
        values = {
            "nodes": 2, "gpus_per_node": 2, "micro_batch": 2, "iterations": 12,
            "profile": (8, 10), "planted_bottleneck": 2,
        } | values  # fmt: skip
        recipe = gpt.recipe(name, profile_ranks=list(ranks), **values)
        run = finished(recipe, "", exit_code)
        (run.folder / "profile").mkdir()
        for rank in ranks if values["profile"] else ():
            (run.folder / "profile" / f"rank{rank}.pt.trace.json").write_text(trace(rank, calls))
        return run

    return make


@pytest.fixture
def healthy(recorded):
    return recorded("healthy", FEW, planted_bottleneck=None)


def test_the_right_run_is_solved(recorded, capsys):
    lesson05.ex05_second(recorded())
    assert "✗" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"planted_bottleneck": 1},
            "--planted-bottleneck of second is 1. The exercise asks for the second fault",
        ),
        ({"planted_bottleneck": None}, "--planted-bottleneck of second is missing"),
        ({"nodes": 1, "gpus_per_node": 4}, "It had 1 × 4"),
        ({"profile": False}, "No step was recorded"),
        ({"profile": (8, 9)}, "the first that is *not* recorded"),
        ({"profile": (9, 11)}, "The log counts steps from 1, and the flags from 0"),
        ({"micro_batch": 4, "global_batch": 16}, "micro_batch=4"),
        ({"num_layers": 2}, "A different model, batch or layout"),
        ({"ranks": (1, 2, 3)}, "There are records of ranks [1, 2, 3]"),
    ],
)
def test_a_run_that_does_not_show_the_plant_is_told_why(recorded, wrong, words):
    assert words in hint_of(lesson05.ex05_second, recorded(**wrong))


def test_a_failed_run_and_a_gap_are_told_apart(recorded):
    assert "✗ the run ended well" in hint_of(lesson05.ex05_second, recorded(exit_code=1))
    gap = gpt.recipe("second", profile=..., planted_bottleneck=2)
    assert "Still to fill in: profile" in hint_of(lesson05.ex05_second, gap)


@pytest.mark.parametrize(
    ("name", "calls"),
    [("aten::item", 42), ("aten::sum", 40), ("Tensor.item", 42),
     ("torch.Tensor.item()", 42)],
)  # fmt: skip
def test_the_right_operator_is_solved(recorded, healthy, capsys, name, calls):
    lesson05.ex05_operator(name, calls, recorded(), healthy)
    assert "✗" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (..., "operator is filled in"),
        (5, "operator is a text"),
        ("items", "which begin with `aten::`"),
        ("aten::mm", "6 times per step of a rank here, and 6 times in the healthy run"),
        ("aten::as_strided", "only because another operator is"),
    ],
)
def test_a_wrong_operator_is_met_by_its_hint(recorded, healthy, name, words):
    assert words in hint_of(lesson05.ex05_operator, name, 42, recorded(), healthy)


def test_the_right_share_of_waiting_is_solved(recorded, capsys):
    """6 of the 40 ms that four ranks need for a step."""
    lesson05.ex05_waiting(15, recorded("ill", FEW, planted_bottleneck=1))
    assert "✗" not in capsys.readouterr().out


def test_what_exchanges_took_beyond_those_of_the_last_rank_is_waiting_too(recorded):
    """A second, small exchange, for which the straggler waits: the table counts its waiting."""
    ill = recorded("ill", FEW, planted_bottleneck=1)
    for rank in range(4):
        file = ill.folder / "profile" / f"rank{rank}.pt.trace.json"
        found = json.loads(file.read_text())
        for step in range(2):
            took = 1000 if rank == 2 else 100
            end = step * STEP_US + 4000
            found["traceEvents"].append(
                event("user_annotation", "gloo:all_reduce", end - took, took)
            )
        file.write_text(json.dumps(found))
    lesson05.ex05_waiting(100 * 6.9 / 40, ill)
    beyond = 100 * (2 + 2.2 + 1.8 - 3 * 0.9) / 40
    lesson05.ex05_waiting(beyond, ill)
    assert "You answered" in hint_of(lesson05.ex05_waiting, beyond * 1.12, ill)
    assert hint_of(lesson05.ex05_waiting, beyond * 1.03, ill), "only the mean is measured roughly"


def test_one_record_cannot_tell_waiting_from_transfer(recorded):
    alone = recorded("ill", FEW, ranks=(0,), planted_bottleneck=1)
    assert "cannot tell waiting from transfer" in hint_of(lesson05.ex05_waiting, 15, alone)


def test_calls_and_waiting_hold_against_all_kinds_of_answers(recorded, healthy):
    second, ill = recorded(), recorded("ill", FEW, planted_bottleneck=1)
    calls = {
        84: "all recorded steps of one rank", 42 * 8: "all recorded steps of all ranks",
        40: "the difference to the healthy run", 7: "You divided by all 12 iterations",
        9: "You answered 9. The table has one row for each rank",
    }  # fmt: skip
    shares = {
        0.15: "right in parts of 1", 20: "You left out the straggler", 45: "The transfer is a part",
        2.0: "You answered 2 %. Add up waiting_ms", 60: "Add up",
    }  # fmt: skip
    hold(
        "calls_per_step",
        lambda answer: lesson05.ex05_operator("aten::item", answer, second, healthy),
        42,
        calls,
    )
    hold("waiting_percent", lambda answer: lesson05.ex05_waiting(answer, ill), 15, shares)


def test_runs_without_a_profile_or_without_rank_0_are_told_what_is_missing(recorded, healthy):
    second, ill = recorded(), recorded("ill", FEW, planted_bottleneck=1)
    second_alone = recorded(ranks=(1, 2))
    assert "rank 0 of `second` was recorded" in hint_of(
        lesson05.ex05_operator, "aten::item", 42, second_alone, healthy
    )
    for run in (second, healthy, ill):
        shutil.rmtree(run.folder / "profile")
    for check, *given in (
        (lesson05.ex05_second, second),
        (lesson05.ex05_operator, "aten::item", 42, second, healthy),
        (lesson05.ex05_waiting, 15, ill),
    ):
        assert "left its profile" in hint_of(check, *given)
    for run in (second, healthy, ill):
        (run.folder / "profile").mkdir()
    assert "has no profile" in hint_of(lesson05.ex05_second, second)
    assert "has no profile" in hint_of(lesson05.ex05_waiting, 15, ill)
