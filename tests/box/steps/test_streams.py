"""The output of tasks, on its way through srun."""

from __future__ import annotations

import os

import pytest

from course_lib.box.steps import streams


@pytest.fixture
def unheard():
    """Return the task's end of a pipe and the object that forwards its lines, without a reader."""
    nobody, target = os.pipe()
    os.close(nobody)
    source, task = os.pipe()
    yield task, streams.Output(source, target, b"", unbuffered=False)
    os.close(target)


def test_a_reader_that_left_leaves_a_task_time_to_end_by_itself(unheard):
    task, output = unheard
    for _ in range(3):
        os.write(task, b"line\n")
        assert output.pump()
    os.close(task)
    assert not output.pump()


def test_an_endless_writer_gets_a_broken_pipe(unheard, monkeypatch):
    monkeypatch.setattr(streams, "NO_READER_S", 0.0)
    task, output = unheard
    os.write(task, b"line\n")
    assert not output.pump()
    with pytest.raises(BrokenPipeError):
        os.write(task, b"line\n")
    os.close(task)
