"""srun fills file names, and reports the ends of its tasks."""

from __future__ import annotations

from course_lib.box.steps import filename_patterns, streams

NAMES = ["node1", "node2"]


def test_signs_in_file_names():
    values = filename_patterns.of_task(7, "2", "node1", 0, 3, name="my job")
    filled = filename_patterns.fill(b"%x-%j_%J.%t@%N%%%5j %q %s %n", values)
    assert filled == b"my job-7_7.2.3@node1%00007 %q 2 0"
    assert filename_patterns.fill(b"a\\%j", values) == b"a%j"
    assert filename_patterns.depends_on_task(b"x%t")
    assert not filename_patterns.depends_on_task(b"x%j")


def test_ends_of_tasks_are_told_per_node_and_kind(capfd):
    report = streams.Report(NAMES, [[0, 1], [2]])
    for task, status in ((0, 256), (1, 256), (2, 9)):
        report.add(task, status)
    report.flush()
    assert capfd.readouterr().err == (
        "srun: error: node1: tasks 0-1: Exited with exit code 1\n"
        "srun: error: node2: task 2: Killed\n"
    )
