"""First come, first served, and the reason why each other job waits."""

from __future__ import annotations

import pytest

from course_lib.box.queue import state


def test_the_first_that_does_not_fit_keeps_all_later_ones_waiting(queue):
    running = queue.whole()
    waits = queue.whole()
    small = queue.submit()
    assert queue.run_pass() == [running]
    assert queue.reason(waits) == "Resources"
    assert queue.reason(small) == "Priority"
    queue.finish(running)
    assert queue.run_pass() == [waits]
    assert queue.reason(small) == "Resources"


def test_a_held_job_lets_others_pass_and_queues_at_the_end_when_released(queue):
    held = queue.whole(hold="user")
    running = queue.whole()
    later = queue.whole()
    assert queue.run_pass() == [running]
    assert queue.reason(held) == "JobHeldUser"
    state.release(held)
    queue.finish(running)
    assert queue.run_pass() == [later]
    queue.finish(later)
    assert queue.run_pass() == [held]


@pytest.mark.parametrize(
    ("kind", "ended", "code", "verdict"),
    [
        ("afterok", "COMPLETED", 0, "runs"),
        ("afterok", "FAILED", 3, "DependencyNeverSatisfied"),
        ("afterany", "FAILED", 3, "runs"),
        ("afternotok", "FAILED", 3, "runs"),
        ("afternotok", "COMPLETED", 0, "DependencyNeverSatisfied"),
    ],
)
def test_a_dependency_is_judged_by_how_the_other_job_ended(queue, kind, ended, code, verdict):
    other = queue.submit()
    dependent = queue.submit(dependency=f"{kind}:{other}")
    assert queue.run_pass() == [other]
    assert queue.reason(dependent) == "Dependency"
    queue.finish(other, ended, code)
    started = queue.run_pass()
    assert ("runs" if started == [dependent] else queue.reason(dependent)) == verdict


def test_a_completing_job_still_holds_its_nodes(queue):
    running, waits = queue.whole(), queue.whole()
    queue.run_pass()
    state.claim(running, 1, 1)
    state.mark_completing(running, "TIMEOUT")
    assert queue.run_pass() == []
    state.finish(running)
    assert queue.run_pass() == [waits]
    assert queue.job(running).state == "TIMEOUT"


@pytest.mark.parametrize(
    "never",
    [{"gpus_per_node": 16}, {"memory": "10000000"}],
    ids=str,
)
def test_a_released_job_that_no_node_could_run_says_so_and_lets_others_pass(queue, never):
    held = queue.submit(hold="user", **never)
    assert queue.run_pass() == []
    assert queue.reason(held) == "JobHeldUser"
    state.release(held)
    later = queue.whole()
    assert queue.run_pass() == [later]
    assert queue.reason(held) == "BadConstraints"
