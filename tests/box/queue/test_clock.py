"""A clock that is set back neither keeps nodes for ever nor lengthens a job."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from course_lib.box import settings
from course_lib.box.dispatch import upkeep
from course_lib.box.queue import store
from course_lib.box.supervisor import ending

HOUR_S = 3600.0


@pytest.fixture
def started(monkeypatch):
    """Numbers of the jobs for which a supervisor was started; none is."""
    found: list[int] = []
    monkeypatch.setattr(upkeep, "start_supervisor", lambda job_id: bool(found.append(job_id)))
    monkeypatch.setattr(upkeep, "ensure_dispatcher", lambda: None)
    return found


def begun(queue, ago_s: float, has_folder: bool) -> int:
    """A job that has its nodes and no supervisor; `has_folder`: a first one could be started."""
    job_id = queue.submit()
    assert queue.run_pass() == [job_id]
    with store.transaction() as db:
        store.change(db, job_id, start_s=time.time() - ago_s)
    if has_folder:
        folder = Path(settings.job_folder(job_id))
        folder.mkdir(parents=True)
        (folder / upkeep.ALIVE).touch()
    return job_id


def test_a_job_allotted_in_the_future_is_ended(queue, started):
    job_id = begun(queue, -HOUR_S, True)
    upkeep.end_dead_jobs()
    assert queue.job(job_id).state == "NODE_FAIL"
    assert started == []


@pytest.mark.parametrize("ago_s", [0.0, HOUR_S, -HOUR_S])
def test_a_job_for_whose_folder_there_was_no_room_is_started_when_there_is(queue, started, ago_s):
    job_id = begun(queue, ago_s, False)
    upkeep.end_dead_jobs()
    assert queue.job(job_id).state == "RUNNING"
    assert started == [job_id]


def test_a_time_limit_is_no_longer_where_the_clock_is_set_back():
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
