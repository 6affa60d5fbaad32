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
CALLS = {"aten::mm": 6, "aten::item": 2}


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
    """Folder of a run of the lesson."""

    def make(calls=CALLS, ranks=(0, 1, 2, 3), exit_code=0, **values):
        values = {
            "nodes": 2, "gpus_per_node": 2, "micro_batch": 2, "iterations": 12,
            "profile": (8, 10), "planted_bottleneck": 1,
        } | values  # fmt: skip
        recipe = gpt.recipe("ill", profile_ranks=list(ranks), **values)
        run = finished(recipe, "", exit_code)
        (run.folder / "profile").mkdir()
        for rank in ranks if values["profile"] else ():
            (run.folder / "profile" / f"rank{rank}.pt.trace.json").write_text(trace(rank, calls))
        return run

    return make


def test_the_right_share_of_waiting_is_solved(recorded, capsys):
    """Waiting takes 6 of the 40 ms that four ranks need for a step."""
    lesson05.ex05_waiting(15, recorded(planted_bottleneck=1))
    assert "✗" not in capsys.readouterr().out


def test_what_exchanges_took_beyond_those_of_the_last_rank_is_waiting_too(recorded):
    """A second, small exchange, for which the straggler waits: the table counts its waiting."""
    ill = recorded(planted_bottleneck=1)
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
    alone = recorded(ranks=(0,))
    assert "cannot tell waiting from transfer" in hint_of(lesson05.ex05_waiting, 15, alone)


def test_waiting_holds_against_all_kinds_of_answers(recorded):
    ill = recorded(planted_bottleneck=1)
    shares = {
        0.15: "right in parts of 1", 20: "You left out the straggler", 45: "includes the transfer",
        2.0: "You answered 2 %. Add up waiting_ms", 60: "Add up",
    }  # fmt: skip
    hold("waiting_percent", lambda answer: lesson05.ex05_waiting(answer, ill), 15, shares)


def test_a_run_without_a_profile_is_told_what_is_missing(recorded):
    ill = recorded(planted_bottleneck=1)
    shutil.rmtree(ill.folder / "profile")
    assert "recorded its profile" in hint_of(lesson05.ex05_waiting, 15, ill)
    (ill.folder / "profile").mkdir()
    assert "has no profile" in hint_of(lesson05.ex05_waiting, 15, ill)
