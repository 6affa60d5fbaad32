"""Which nodes, tasks and CPUs of a job a step gets."""

from __future__ import annotations

import pytest

from course_lib.box.node.allot import Busy, Impossible, Request, allot
from course_lib.box.node.layout import share, spread

NAMES = ["node1", "node2"]


def test_tasks_are_numbered_by_block_or_in_turns():
    assert spread([2, 1], at_once=3) == ((0, 1), (2,))
    assert spread([2, 3], at_once=1) == ((0, 2), (1, 3, 4))
    assert spread([3, 1], at_once=2) == ((0, 1, 3), (2,))


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
    assert share(total, capacity) == counts


def test_a_step_gets_all_cpus_of_its_nodes_unless_it_asks_for_exact_ones():
    whole = allot(Request(nodes=2, tasks=2), NAMES, [4, 4], [4, 4], [0, 0])
    assert whole.cpus == (4, 4)
    exact = allot(Request(nodes=1, tasks=2, exact=True), NAMES, [4, 4], [4, 4], [0, 0])
    assert exact.cpus == (2,)
    assert exact.tasks == ((0, 1),)


def test_a_step_goes_where_there_is_room():
    assert allot(Request(nodes=1, tasks=1), NAMES, [1, 1], [0, 1], [0, 0]).places == (1,)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (Request(nodes=2, tasks=2), Busy),
        (Request(nodes=2, tasks=9), Impossible),
        (Request(nodes=3, tasks=3), Impossible),
        (Request(nodes=1, tasks=1, wanted=("node9",)), Impossible),
        (Request(nodes=1, tasks=3, devices_per_task=1), Impossible),
        (Request(nodes=1, tasks=1, devices_per_task=3), Impossible),
        (Request(nodes=1, tasks=1, no_devices=True), Impossible),
    ],
)
def test_what_cannot_be_now_differs_from_what_never_can(request_, error):
    with pytest.raises(error):
        allot(request_, NAMES, [4, 4], [0, 4], [2, 2])


def test_overlap_and_overcommit_look_at_no_other_step():
    for request in (
        Request(nodes=2, tasks=2, overlap=True),
        Request(nodes=1, tasks=9, overcommit=True),
    ):
        assert allot(request, NAMES, [1, 1], [0, 0], [0, 0]).total == request.tasks
