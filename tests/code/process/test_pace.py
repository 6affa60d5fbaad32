"""A slot's stretch of computing lasts as long as its processor time asks for, and never less."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from worlds import ROOT

from process import pace


def compute(seconds):
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass


@pytest.fixture
def paced(monkeypatch):
    monkeypatch.setattr(pace, "PACE", pace.Pace(3.0))


def test_a_stretch_lasts_its_processor_time_times_the_factor(paced):
    with pace.computing("forward"):
        began, used = time.perf_counter(), time.thread_time()
        compute(0.02)
        used = time.thread_time() - used
    assert time.perf_counter() - began >= 3 * used - 1e-3


def test_the_message_leaves_after_the_computing_before_it(paced):
    with pace.computing("backward"):
        began, used = time.perf_counter(), time.thread_time()
        compute(0.02)
        used = time.thread_time() - used
        with pace.communicating("communication: all-reduce"):
            assert time.perf_counter() - began >= 3 * used - 1e-3


def test_waiting_is_not_paced(paced, monkeypatch):
    slept = []
    monkeypatch.setattr(pace.time, "sleep", slept.append)
    with pace.communicating("communication: receive"):
        compute(0.02)  # what the library computes to send is no computing of the device
    pace.catch_up()
    assert sum(slept) < 0.01


def test_a_sleep_that_was_too_long_is_taken_off_the_next(paced, monkeypatch):
    slept, now = [], [100.0]
    used = [5.0]
    monkeypatch.setattr(pace.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(pace.time, "thread_time", lambda: used[0])

    def sleep(seconds):
        slept.append(round(seconds, 6))
        now[0] += seconds + 0.004

    monkeypatch.setattr(pace.time, "sleep", sleep)
    pace.resume()
    for _ in range(2):
        now[0] += 0.01
        used[0] += 0.01
        pace.catch_up()
    assert slept == [0.02, 0.016]


@pytest.mark.parametrize("given", ["", "1", "0", "-3", "nan", "inf", "fast", None])
def test_without_a_factor_above_one_nothing_is_paced(given, monkeypatch):
    monkeypatch.delenv("COURSE_DEVICE_PACE", raising=False)
    if given is not None:
        monkeypatch.setenv("COURSE_DEVICE_PACE", given)
    assert pace.factor_asked() == 1.0


def test_the_variable_sets_the_pace_of_a_program():
    program = "from process import pace; print(pace.PACE and pace.PACE.factor)"
    answers = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT / "code",
            env={"PATH": "/usr/bin:/bin", **asked},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for asked in ({}, {"COURSE_DEVICE_PACE": "2.5"})
    ]
    assert answers == ["None", "2.5"]
