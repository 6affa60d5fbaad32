"""The time use of a job that was started several times."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from course_lib import read

BEGAN = datetime(2026, 1, 1, 12)


def at(seconds):
    return (BEGAN + timedelta(seconds=seconds)).timestamp()


def step(number, ends_s, took_ms):
    stamp = (BEGAN + timedelta(seconds=ends_s)).strftime("%Y-%m-%d %H:%M:%S.%f")
    return f" [{stamp}] iteration {number:8d}/ 4 | elapsed time per iteration (ms): {took_ms} | "


LOG = "\n".join([
    f"attempt 1 begins at {at(0):.6f}",
    step(1, 3.0, 1000.0),  # two seconds to start
    step(2, 4.0, 1000.0),
    step(3, 6.0, 1000.0),  # one to save
    f"attempt 1 ends at {at(7):.6f}",
    f"attempt 2 begins at {at(7):.6f}",
    step(3, 10.0, 1000.0),  # again
    step(4, 11.0, 1000.0),
    f"attempt 2 has done the work at {at(12):.6f}",
])  # fmt: skip


def test_each_second_has_its_place(write):
    found = read.attempts(write("out.log", LOG))
    assert (found.count, found.finished, found.iterations, found.repeated) == (2, True, 4, 1)
    assert found.total_s == pytest.approx(12)
    assert found.useful_s == pytest.approx(4)
    assert found.repeated_s == pytest.approx(1)
    assert found.starting_s == pytest.approx(4)
    assert found.saving_s == pytest.approx(1)
    assert found.useful == pytest.approx(1 / 3)


@pytest.mark.parametrize("text", ["", "attempt x", "attempt 1 begins at 5.0\n", "\x00"])
def test_what_says_nothing_has_taken_no_time(write, text):
    found = read.attempts(write("out.log", text))
    assert (found.total_s, found.useful, found.finished) == (0.0, 0.0, False)
