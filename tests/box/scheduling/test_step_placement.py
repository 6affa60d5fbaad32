"""The nodes, CPUs and tasks that a step gets of its job."""

from __future__ import annotations

import pytest

from course_lib.box.scheduling.step_placement import (
    Busy,
    Impossible,
    JobNode,
    StepRequest,
    allot,
    number_tasks,
    share_tasks,
)


def test_tasks_are_numbered_by_block_or_in_turns():
    assert number_tasks([2, 1], at_once=3) == ((0, 1), (2,))
    assert number_tasks([2, 3], at_once=1) == ((0, 2), (1, 3, 4))
    assert number_tasks([3, 1], at_once=2) == ((0, 1, 3), (2,))


@pytest.mark.parametrize(
    ("total", "capacity", "counts"),
    [
        (2, [2, 2], [1, 1]),
        (3, [2, 2], [2, 1]),
        (7, [2, 2], [4, 3]),
        (4, [3, 1], [3, 1]),
        (5, [8, 2], [3, 2]),
        (10, [8, 2], [8, 2]),
    ],
)
def test_tasks_go_to_nodes_in_turn_as_long_as_there_is_room(total, capacity, counts):
    assert share_tasks(total, capacity) == counts


def nodes(free=(4, 4), busy=()) -> list[JobNode]:
    return [JobNode(f"node{n + 1}", 4, left, busy=n in busy) for n, left in enumerate(free)]


def test_a_step_gets_all_cpus_of_its_nodes_unless_it_asks_for_exact_ones():
    whole = allot(StepRequest(nodes=2, tasks=2), nodes())
    assert whole.cpus == (4, 4)
    exact = allot(StepRequest(nodes=1, tasks=2, exact=True), nodes())
    assert exact.cpus == (2,)
    assert exact.tasks == ((0, 1),)


def test_a_step_goes_first_to_a_node_without_one():
    request = StepRequest(nodes=1, tasks=1, exact=True)
    for busy, place in ((set(), 0), ({0}, 1), ({1}, 0), ({0, 1}, 0)):
        assert allot(request, nodes((3, 4), busy)).places == (place,)


def test_a_step_goes_where_devices_are_left():
    request = StepRequest(nodes=1, tasks=1, exact=True, gpus_per_node=1)
    of_job = [
        JobNode("node1", 4, 2, (0, 1), (), busy=True),
        JobNode("node2", 4, 3, (0, 1), (1,), busy=True),
    ]
    found = allot(request, of_job)
    assert (found.places, found.devices) == ((1,), ((1,),))


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (StepRequest(nodes=2, tasks=2), Busy),
        (StepRequest(nodes=2, tasks=9), Impossible),
        (StepRequest(nodes=3, tasks=3), Impossible),
        (StepRequest(nodes=1, tasks=1, wanted=("node9",)), Impossible),
    ],
)
def test_what_cannot_be_now_differs_from_what_never_can(request_, error):
    with pytest.raises(error):
        allot(request_, nodes((0, 4)))
