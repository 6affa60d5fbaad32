"""The parts of two nodes with 8 CPUs and 2 devices that a job gets."""

from __future__ import annotations

import pytest

from course_lib.box.queue.records import Allocation, Job
from course_lib.box.scheduling.job_placement import empty_nodes, place
from course_lib.box.settings import Settings

BOX = Settings(cpus_per_node=8)


def job(**wanted) -> Job:
    given = dict(wanted)
    if "nodes" in given:
        given |= {"nodes_min": given.pop("nodes"), "nodes_given": 1}
    if "tasks" in given:
        given["tasks_given"] = 1
    return Job(id=1, **given)


def shares(wanted: Job, taken: list[Allocation] | None = None) -> list[tuple] | None:
    nodes = empty_nodes(BOX)
    for part in taken or []:
        next(node for node in nodes if node.name == part.node).take(part, False)
    parts = place(wanted, nodes)
    if parts is None:
        return None
    return [(p.node, p.tasks, len(p.cpus), len(p.devices)) for p in parts]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, [("node1", 1, 1, 0)]),
        ({"nodes": 2}, [("node1", 1, 1, 0), ("node2", 1, 1, 0)]),
        ({"nodes": 2, "tasks": 5}, [("node1", 4, 4, 0), ("node2", 1, 1, 0)]),
        ({"tasks": 9}, [("node1", 8, 8, 0), ("node2", 1, 1, 0)]),
        ({"nodes": 2, "tasks_per_node": 2}, [("node1", 2, 2, 0), ("node2", 2, 2, 0)]),
        ({"gpus": 3}, [("node1", 1, 1, 2), ("node2", 1, 1, 1)]),
        ({"gpus_per_node": 2, "nodes": 2}, [("node1", 1, 1, 2), ("node2", 1, 1, 2)]),
        ({"gres": 1}, [("node1", 1, 1, 1)]),
        ({"gpus_per_task": 1, "tasks": 4}, [("node1", 2, 2, 2), ("node2", 2, 2, 2)]),
        (
            {"gpus_per_task": 1, "tasks": 2, "gpus_per_node": 1},
            [("node1", 1, 1, 1), ("node2", 1, 1, 1)],
        ),
        ({"exclusive": 1}, [("node1", 8, 8, 0)]),
        ({"nodes": 2, "tasks": 5, "tasks_per_node": 4}, [("node1", 4, 4, 0), ("node2", 4, 4, 0)]),
        ({"want_nodes": "node2"}, [("node2", 1, 1, 0)]),
        ({"exclude_nodes": "node1"}, [("node2", 1, 1, 0)]),
    ],
)
def test_a_job_gets_the_parts_it_asked_for(wanted, expected):
    assert shares(job(**wanted)) == expected


@pytest.mark.parametrize(
    "wanted",
    [
        {"nodes": 3},
        {"tasks": 17},
        {"gpus": 5},
        {"gpus_per_node": 3},
        {"gpus_per_task": 1, "tasks": 1, "gpus_per_node": 2},
        {"nodes": 1, "tasks": 5, "tasks_per_node": 4},
        {"want_nodes": "node1", "exclude_nodes": "node1"},
        {"cpus_per_task": 9},
    ],
)
def test_a_job_that_does_not_fit_gets_nothing(wanted):
    assert shares(job(**wanted)) is None


def test_what_one_job_holds_no_other_gets():
    first = Allocation(node="node1", cpus=(0, 1, 2, 3, 4, 5, 6), devices=(0,), tasks=7)
    assert shares(job(tasks=2), [first]) == [("node2", 2, 2, 0)]
    assert shares(job(gpus=2), [first]) == [("node2", 1, 1, 2)]
    assert shares(job(exclusive=1), [first]) == [("node2", 8, 8, 0)]
    assert shares(job(nodes=2, exclusive=1), [first]) is None
    parts = place(job(gpus=1), _with(first))
    assert parts == [Allocation(node="node1", cpus=(7,), devices=(1,), tasks=1)]


def _with(part: Allocation):
    nodes = empty_nodes(BOX)
    nodes[0].take(part, False)
    return nodes
