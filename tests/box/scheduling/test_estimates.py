"""When waiting jobs begin at the latest."""

from __future__ import annotations

from course_lib.box.queue import rows
from course_lib.box.scheduling import estimates


def starts(queue) -> dict[int, float]:
    queue.run_pass()
    with rows.snapshot() as db:
        return estimates.starts(db, queue.box)


def test_a_job_begins_when_what_runs_has_used_its_time(queue):
    first = queue.whole(time_limit_min=10)
    second, third = queue.submit(time_limit_min=20), queue.submit(time_limit_min=20)
    found = starts(queue)
    begun_s = queue.job(first).start_s
    assert found == {second: begun_s + 600, third: begun_s + 1800}


def test_of_held_and_later_jobs_nothing_is_said(queue):
    queue.whole()
    queue.submit(hold="user")
    queue.submit(begin_s=4e9)
    assert starts(queue) == {}


def test_a_job_without_a_limit_is_taken_to_need_a_year(queue):
    first = queue.whole(time_limit_min=-1)
    second = queue.submit()
    assert starts(queue)[second] == queue.job(first).start_s + estimates.YEAR_S
