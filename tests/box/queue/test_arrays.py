"""Job arrays in the state file: one row for all waiting tasks, and one for each other task."""

from __future__ import annotations

import pytest

from course_lib.box.queue import arrays, state, store


def array(queue, tasks: str, **fields) -> int:
    listed, most = arrays.parse(tasks)
    return queue.submit(array_asked=tasks, array_waiting=listed, array_most=most, **fields)


def shown(job_id: int) -> dict[str, str]:
    """Return the state of each task, or of the tasks that wait together."""
    with store.snapshot() as db:
        jobs = arrays.members(db, job_id)
    return {job.array_waiting or str(job.array_task): job.state for job in jobs}


@pytest.mark.parametrize(
    ("text", "listed", "most"),
    [
        ("3,1,2", "1-3", 0),
        ("0-15:4", "0,4,8,12", 0),
        ("1-3,2-5%2", "1-5", 2),
        ("[7]%x", "7", 0),
        ("005-007%3%9", "5-7", 3),
        ("1,,3", "1,3", 0),
        ("0-1000", "0-1000", 0),
    ],
)
def test_lists_of_tasks(text, listed, most):
    assert arrays.parse(text) == (listed, most)
    assert arrays.written(arrays.numbers(listed)) == listed


@pytest.mark.parametrize(
    "text",
    ["x", "1-", "-3", "3-1", "1-3:0", "1001", "1-3;5", "1.5", "1-2-3", "1:2", "1_0-20", "١-٣", "²"],
)
def test_what_is_no_list_of_tasks(text):
    with pytest.raises(arrays.ArrayError):
        arrays.parse(text)


def test_an_array_is_one_row_until_its_tasks_begin(queue):
    job = array(queue, "1-500", exclusive=1, nodes_min=1)
    with store.snapshot() as db:
        assert len(store.jobs(db)) == 1
    assert len(queue.run_pass()) == 2
    assert shown(job) == {"1": "RUNNING", "2": "RUNNING", "3-500": "PENDING"}
    assert queue.job(job).array_waiting == "3-500"


def test_a_task_that_is_held_alone_parts_from_the_others(queue):
    job = array(queue, "1-3", hold="user")
    with store.transaction() as db:
        (two,) = arrays.split_off(db, job, {2})
    state.release(two.id)
    assert queue.run_pass() == [two.id]
    assert shown(job) == {"2": "RUNNING", "1,3": "PENDING"}


def test_waiting_tasks_that_are_cancelled_are_gone(queue):
    job = array(queue, "1-5", hold="user")
    state.mark_cancelled(job, 0, {2, 3})
    assert shown(job) == {"1,4-5": "PENDING"}
    state.mark_cancelled(job, 0, {1, 4, 5})
    assert queue.job(job).state == "CANCELLED"


@pytest.mark.parametrize(
    ("kind", "codes", "verdict"),
    [
        ("afterok", (0, 0), None),
        ("afterok", (0, 1), "DependencyNeverSatisfied"),
        ("afternotok", (0, 1), None),
        ("afternotok", (0, 0), "DependencyNeverSatisfied"),
        ("afterany", (1, 1), None),
    ],
)
def test_what_waits_for_an_array_waits_for_all_of_it(queue, kind, codes, verdict):
    job = array(queue, "1-2%1")
    waits = queue.submit(dependency=f"{kind}:{job}")
    for code in codes:
        (task,) = queue.run_pass()
        assert queue.reason(waits) == "Dependency"
        queue.finish(task, "FAILED" if code else "COMPLETED", code)
    begun = queue.run_pass()
    assert begun == ([] if verdict else [waits])
    assert queue.reason(waits) == (verdict or "None")
