"""The parts of the node room that need no process."""

from __future__ import annotations

import pytest

from course_lib.box.node.allot import Busy, Impossible, Request, allot
from course_lib.box.node.layout import share, spread
from course_lib.box.nodes import link
from course_lib.box.nodes.namespaces import address, hosts_text
from course_lib.box.queue.records import Job
from course_lib.box.steps import filename_patterns, task_ends
from course_lib.box.supervisor import limits
from course_lib.box.supervisor.variables import repeated

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


def test_signs_in_file_names():
    values = filename_patterns.of_task(7, "2", "node1", 0, 3, name="my job", user="me")
    filled = filename_patterns.fill(b"%x-%j_%J.%t@%N%%%5j %u %q %s %n", values)
    assert filled == b"my job-7_7.2.3@node1%00007 me %q 2 0"
    assert filename_patterns.fill(b"a\\%j", values) == b"a%j"
    assert filename_patterns.depends_on_task(b"x%t")
    assert not filename_patterns.depends_on_task(b"x%j")


def test_ranges_and_repetitions_are_written_as_slurm_does():
    assert task_ends.ranges([3, 0, 1]) == "0-1,3"
    assert repeated([2, 2, 1]) == "2(x2),1"


def test_ends_of_tasks_are_told_per_node_and_kind(capsys):
    report = task_ends.Report(NAMES, [[0, 1], [2]])
    for task, status in ((0, 256), (1, 256), (2, 9)):
        report.add(task, status)
    report.flush()
    assert capsys.readouterr().err == (
        "srun: error: node1: tasks 0-1: Exited with exit code 1\n"
        "srun: error: node2: task 2: Killed\n"
    )


@pytest.mark.parametrize("link_gbit", [0.1, 0.2, 1.0, 10.0])
def test_a_shaped_link_can_hold_segments_and_whole_datagrams(link_gbit):
    limits_ = link.shape(link_gbit)
    assert limits_ is not None
    assert limits_["rate"] == pytest.approx(link_gbit * 1e9 / 8)
    assert limits_["burst"] >= 65536
    assert limits_["limit"] - limits_["burst"] >= 16 * 65536


def test_a_link_faster_than_the_machine_is_not_shaped():
    assert link.shape(100.0) is None


def test_addresses_are_those_of_the_node_number():
    assert [address(1), address(2), address(300)] == ["10.211.0.1", "10.211.0.2", "10.211.1.44"]
    assert "10.211.0.2\tnode2\n" in hosts_text(NAMES)


def test_a_device_without_gpu_is_a_limit_on_the_data_of_a_process():
    job = Job(id=1, memory_per_device_gib=2.0, rlimits=b"NOFILE=77")
    found = limits.of_process(job, has_device=True, gpus=0)
    assert found["RLIMIT_DATA"][0] > 2 * 2**30
    assert found["RLIMIT_NOFILE"][0] == 77
    assert "RLIMIT_DATA" not in limits.of_process(job, has_device=True, gpus=1)
    assert "RLIMIT_DATA" not in limits.of_process(job, has_device=False, gpus=0)


def test_memory_of_a_job_is_what_was_asked_for():
    assert limits.memory_limit_bytes(Job(id=1, memory="2G"), 4, 0) == 2 * 2**30
    assert limits.memory_limit_bytes(Job(id=1, memory_per_cpu="100"), 4, 0) == 400 * 2**20
    assert limits.memory_limit_bytes(Job(id=1), 4, 2) is None
