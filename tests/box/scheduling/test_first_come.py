"""First come, first served, and why each of the others waits."""

from __future__ import annotations

import time

import pytest

from course_lib.box.queue import pending_jobs, rows, state


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


def test_a_job_waiting_for_one_node_blocks_only_that_node(queue):
    queue.submit(exclusive=1, want_nodes="node1")
    queue.run_pass()
    second = queue.submit(exclusive=1, want_nodes="node1")
    third = queue.submit(want_nodes="node2")
    assert queue.run_pass() == [third]
    assert queue.reason(second) == "Resources"


def test_a_higher_priority_goes_first_and_nice_makes_it_lower(queue):
    first, second, third = queue.whole(), queue.whole(nice=10), queue.whole()
    assert queue.run_pass() == [first]
    queue.finish(first)
    assert queue.run_pass() == [third]
    queue.finish(third)
    assert queue.run_pass() == [second]


def test_a_held_job_lets_others_pass_and_queues_at_the_end_when_released(queue):
    held = queue.whole(hold="user")
    running = queue.whole()
    later = queue.whole()
    assert queue.run_pass() == [running]
    assert queue.reason(held) == "JobHeldUser"
    pending_jobs.release(held)
    queue.finish(running)
    assert queue.run_pass() == [later]
    queue.finish(later)
    assert queue.run_pass() == [held]


def test_a_begin_time_holds_a_job_back_until_then(queue):
    late = queue.submit(begin_s=time.time() + 3600)
    now = queue.submit()
    assert queue.run_pass() == [now]
    assert queue.reason(late) == "BeginTime"
    with rows.transaction() as db:
        rows.change(db, late, begin_s=time.time() - 1)
    assert queue.run_pass() == [late]


@pytest.mark.parametrize(
    ("kind", "ended", "code", "verdict"),
    [
        ("afterok", "COMPLETED", 0, "runs"),
        ("afterok", "FAILED", 3, "DependencyNeverSatisfied"),
        ("afterok", "TIMEOUT", 0, "DependencyNeverSatisfied"),
        ("afterany", "FAILED", 3, "runs"),
        ("afterany", "COMPLETED", 0, "runs"),
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


def test_a_dependency_on_a_start_is_met_when_the_other_runs(queue):
    other = queue.submit(hold="user")
    dependent = queue.submit(dependency=f"after:{other}")
    assert queue.run_pass() == []
    pending_jobs.release(other)
    assert queue.run_pass() == [other]
    assert queue.run_pass() == [dependent]


def test_any_of_several_dependencies_is_enough_where_they_are_joined_by_a_question_mark(queue):
    bad, good = queue.submit(), queue.submit()
    either = queue.submit(dependency=f"afterok:{bad}?afterok:{good}")
    queue.run_pass()
    queue.finish(bad, "FAILED", 1)
    assert queue.run_pass() == []
    queue.finish(good)
    assert queue.run_pass() == [either]


def test_a_singleton_waits_for_earlier_jobs_of_its_name(queue):
    first = queue.submit(name="one")
    single = queue.submit(name="one", dependency="singleton")
    other = queue.submit(name="two", dependency="singleton")
    assert queue.run_pass() == [first, other]
    queue.finish(first)
    assert queue.run_pass() == [single]


def test_a_dependency_that_can_never_be_met_ends_a_job_that_asked_for_it(queue):
    other = queue.submit()
    doomed = queue.submit(dependency=f"afterok:{other}", kill_on_invalid_dependency=1)
    queue.run_pass()
    queue.finish(other, "FAILED", 1)
    queue.run_pass()
    assert queue.job(doomed).state == "CANCELLED"


def test_a_job_that_slurm_no_longer_knows_counts_as_ended_well(queue):
    assert queue.run_pass() == []
    job = queue.submit(dependency="afterok:9999")
    assert queue.run_pass() == [job]


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
    [
        {"gpus_per_node": "16"},
        {"nodes_min": 2, "nodes_max": 2, "nodes_given": 1, "gres": "gpu:3"},
        {"memory": "10000000"},
        {"memory_per_cpu": "10000000"},
        {"cpus_min": 9},
        {"threads_per_core": 2},
        {"gpus": "a100:1"},
    ],
    ids=str,
)
def test_a_released_job_that_no_node_could_run_says_so_and_lets_others_pass(queue, never):
    held = queue.submit(hold="user", **never)
    assert queue.run_pass() == []
    assert queue.reason(held) == "JobHeldUser"
    pending_jobs.release(held)
    later = queue.whole()
    assert queue.run_pass() == [later]
    assert queue.reason(held) == "BadConstraints"
