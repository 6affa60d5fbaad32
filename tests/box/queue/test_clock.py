"""A clock that is set back neither keeps nodes forever nor lengthens a job."""

from __future__ import annotations

import time

import pytest

from course_lib.box.dispatch import upkeep
from course_lib.box.queue import store
from course_lib.box.supervisor import ending

HOUR_S = 3600.0


@pytest.fixture
def started(monkeypatch):
    """Collect the jobs whose supervisor would start, without starting a supervisor."""
    found: list[int] = []
    monkeypatch.setattr(upkeep, "start_supervisor", found.append)
    monkeypatch.setattr(upkeep, "ensure_dispatcher", lambda: None)
    return found


@pytest.mark.parametrize(
    ("ago_s", "state", "starts"),
    [
        (0.0, "RUNNING", 0),
        (10.0, "RUNNING", 1),
        (HOUR_S, "NODE_FAIL", 0),
        (-HOUR_S, "NODE_FAIL", 0),
    ],
)
def test_a_job_without_supervisor_is_started_again_for_a_while(
    queue, started, ago_s, state, starts
):
    job_id = queue.submit()
    assert queue.run_pass() == [job_id]
    with store.transaction() as db:
        store.change(db, job_id, start_s=time.time() - ago_s)
    upkeep.end_dead_jobs()
    assert queue.job(job_id).state == state
    assert started == [job_id] * starts


def test_a_time_limit_is_not_longer_if_the_clock_is_set_back():
    class Context:
        class job:
            time_limit_min, signal_number, start_s = 1, 0, time.time() + HOUR_S

        class loop:
            alarms: list[float] = []  # noqa: RUF012

            @classmethod
            def after(cls, seconds, action):
                cls.alarms.append(seconds)

        outcome = None

    class Steps:
        pass

    ending.Ending(Context, Steps(), None).set_alarms()  # type: ignore[arg-type]
    assert Context.loop.alarms[0] <= 60
    assert Context.loop.alarms[0] > 50
