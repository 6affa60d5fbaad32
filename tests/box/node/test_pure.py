"""The parts of the node room that need no process."""

from __future__ import annotations

import pytest

from course_lib.box.node import exits, limits, link, patterns
from course_lib.box.node.jobenv import repeated
from course_lib.box.node.namespaces import address, hosts_text
from course_lib.box.queue.records import Job

NAMES = ["node1", "node2"]


def test_signs_in_file_names():
    values = patterns.of_task(7, "2", "node1", 0, 3, name="my job", user="me")
    filled = patterns.fill(b"%x-%j_%J.%t@%N%%%5j %u %q %s %n", values)
    assert filled == b"my job-7_7.2.3@node1%00007 me %q 2 0"
    assert patterns.fill(b"a\\%j", values) == b"a%j"
    assert patterns.depends_on_task(b"x%t")
    assert not patterns.depends_on_task(b"x%j")


def test_ranges_and_repetitions_are_written_as_slurm_does():
    assert exits.ranges([3, 0, 1]) == "0-1,3"
    assert repeated([2, 2, 1]) == "2(x2),1"


def test_ends_of_tasks_are_told_per_node_and_kind(capsys):
    report = exits.Report(NAMES, [[0, 1], [2]])
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
