"""Lesson 16b: a simulator of failures, and the best interval that is found with it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from course_lib import plan
from course_lib.publish.building.gaps import answered
from course_lib.teach.checks import lesson16b

from .finished_runs import hint_of
from .own_trials import cell_of, swapped

OWN = answered(cell_of("16b_keep_going", "ex2-gap"), "")
BY_EVENTS = """
import math

def time_needed(work_s, interval_s, save_s, start_s, lives):
    now, saved, ends = 0, 0, iter(lives)
    try:
        fails = next(ends)
        ready = now + start_s
        while saved < work_s:
            until = ready + min(interval_s, work_s - saved) + save_s
            if until <= fails:
                saved, ready = min(work_s, saved + interval_s), until
            else:
                now, fails = fails, fails + next(ends)
                ready = now + start_s
    except StopIteration:
        return float("inf")
    return ready

def best_interval(work_s, save_s, start_s, lives):
    low, high = 10.0, float(max(lives))
    for _ in range(3):
        grid = np.geomspace(low, high, 25)
        best = grid[np.argmin([time_needed(work_s, g, save_s, start_s, lives) for g in grid])]
        low, high = best / 1.5, best * 1.5
    return best
"""
IN_WHOLE_PIECES = """
import math

def time_needed(work_s, interval_s, save_s, start_s, lives):
    left = work_s
    total = 0
    for life in lives:
        time = max(0, life - start_s)
        pieces = min(int(time // (interval_s + save_s)), math.ceil(left / interval_s) - 1)
        rest = left - pieces * interval_s
        used = pieces * (interval_s + save_s)
        if rest <= interval_s and life >= start_s and used + rest + save_s <= time:
            return total + start_s + used + rest + save_s
        left = rest
        total += life
    return math.inf

def best_interval(work_s, save_s, start_s, lives):
    times = {t: time_needed(work_s, t, save_s, start_s, lives) for t in range(100, 9000, 60)}
    return min(times, key=times.get)
"""
BY_SECTION = """
import math

def life_of(job, life):
    \"\"\"Work that one life saves, and the time that it takes.\"\"\"
    work, interval, save, start = job
    clock, saved = start, 0
    while saved < work and clock + min(interval, work - saved) + save <= life:
        piece = min(interval, work - saved)
        clock, saved = clock + piece + save, saved + piece
    return saved, clock if saved >= work else life

def time_needed(work_s, interval_s, save_s, start_s, lives):
    times = []
    for life in lives:
        saved, took = life_of((work_s, interval_s, save_s, start_s), life)
        times.append(took)
        work_s -= saved
        if work_s <= 0:
            return sum(times)
    return math.inf

def best_interval(work_s, save_s, start_s, lives):
    ordered = sorted(lives)
    grid = [max(lives) / 2 ** (n / 4) for n in range(40)]
    return min(grid, key=lambda each: time_needed(work_s, each, save_s, start_s, lives))
"""
RIGHT = {"solution": OWN, "events": BY_EVENTS, "pieces": IN_WHOLE_PIECES, "section": BY_SECTION}


def judged(text):
    names = {"np": np, "plan": plan}
    exec(text, names)
    lesson16b.ex16b_interval(names["time_needed"], names["best_interval"])


@pytest.mark.parametrize("name", RIGHT)
def test_simulators_in_any_style_pass(workspace, capsys, name):
    judged(RIGHT[name])
    assert capsys.readouterr().out.count("✓") == 8


def test_the_solution_passes_for_every_learner(tmp_path, monkeypatch, capsys):
    for learner in range(4):
        monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path / str(learner)))
        (tmp_path / str(learner)).mkdir()
        judged(OWN)
    assert "✗" not in capsys.readouterr().out


LOST = "        passed_s += life_s\n"
TAKES = "            left_s -= piece_s + save_s\n"
LEFT = "left_s = life_s - start_s"
SEARCH = OWN[OWN.index("    young_s") :]
WRONG = {
    "saves are free": ([("piece_s + save_s", "piece_s")], "each with its save"),
    "starts are free": ([(LEFT, "left_s = life_s")], "One start, then"),
    "the first start is free": ([(LEFT, "left_s = life_s - start_s * (passed_s > 0)")],
                                "One start, then"),
    "later starts are free": ([(LEFT, "left_s = life_s - start_s * (not passed_s)")],
                              "needs its own start"),
    "saves are lost": (
        [("    for life_s in lives:\n", "    for life_s in lives:\n        saved_s = 0\n")],
        "repeats the work since the last save"),
    "one life alone": ([(LOST, "")], "The whole first life has passed"),
    "the last piece is whole": ([("min(interval_s, work_s - saved_s)", "interval_s")],
                                "The last piece is only what is left"),
    "the last piece is not saved": (
        [("piece_s + save_s:", "piece_s + save_s * (saved_s + piece_s < work_s):"),
         (TAKES, "            left_s -= piece_s + save_s * (saved_s + piece_s < work_s)\n")],
        "it is saved too"),
    "nothing is lost": ([(LOST, LOST + "        saved_s += max(0, left_s)\n")],
                        "repeats the work since the last save"),
    "lost time": ([(LOST, "        passed_s += life_s - left_s\n")],
                  "The whole first life has passed"),
    "saved in time": ([("left_s < piece_s + save_s", "left_s < piece_s")],
                      "If a save fails, its piece is lost"),
    "lives of work": ([(LEFT, "left_s = life_s"), ("return passed_s", "return passed_s + start_s"),
                       (LOST, "        passed_s += life_s + start_s\n")],
                      "its start included"),
    "times of failures": ([(LEFT, "life_s = life_s - passed_s\n        " + LEFT)],
                          "counts from its own start"),
    "one failure": ([("    return math.inf", "    return passed_s")], "return math.inf"),
    "half": ([("return passed_s + life_s - left_s", "return (passed_s + life_s - left_s) / 2")],
             "One start, then"),
    "young": ([(SEARCH, "    return math.sqrt(2 * save_s * sum(lives) / len(lives))\n")],
              "That is Young's formula with the mean life"),
    "with the start": (
        [(SEARCH, "    return math.sqrt(2 * (save_s + start_s) * sum(lives) / len(lives))\n")],
        "Try about twenty intervals"),
    "no factor": ([(SEARCH, "    return math.sqrt(save_s * sum(lives) / len(lives))\n")],
                  "Try about twenty intervals"),
    "three intervals": ([("range(-12, 16)", "range(-12, 16, 12)")], "Try about twenty intervals"),
    "whole and parts": (
        [("if left_s < piece_s + save_s", "piece_s = min(piece_s, max(0, left_s - save_s))\n"
          "            if not piece_s")], "counts whole or not at all"),
    "the shortest": ([(SEARCH, "    return 60\n")], "The interval is too short"),
    "the longest": ([(SEARCH, "    return max(lives)\n")], "The interval is too long"),
    "the time": ([(SEARCH, "    return 2 * work_s\n")], "Is it the time, not the interval?"),
    "minutes": ([("1.15**power", "1.15**power / 60")], "The interval is too short"),
    "the worst": ([("return min(", "return max(")], "An interval of"),
    "nothing": ([(SEARCH, "    ...\n")], "Your function returned nothing"),
    "below zero": ([(SEARCH, "    return -1\n")], "longer than 0 seconds"),
    "of the course": ([(SEARCH, "    return plan.checkpoint_interval(save_s, 5000)\n")],
                      "of the course. Write this function yourself"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_simulator_or_search_is_told_its_mistake(workspace, name):
    pairs, words = WRONG[name]
    assert words in hint_of(judged, swapped(OWN, *pairs))


def test_young_is_right_for_failures_at_random(workspace):
    said = hint_of(judged, swapped(OWN, *WRONG["young"][0]))
    assert "✓ the best interval: nodes that fail at random" in said
    assert "✗ the best interval: starts that often fail early" in said


def test_the_simulator_agrees_with_daly_for_random_failures():
    draw = np.random.default_rng(0)
    lives, rate = draw.exponential(5000, 20_000), plan.Failures(5000 / 3600, 60, 300)
    for interval_s in (200, 700, 2500):
        kept = plan.goodput(1, rate, interval_s).useful
        work_s = kept * sum(lives) / 2
        needed_s = lesson16b._needed_s(work_s, interval_s, 60, 300, lives)
        assert work_s / needed_s == pytest.approx(kept, rel=0.02)
    assert math.isinf(lesson16b._needed_s(1e12, 700, 60, 300, lives))
