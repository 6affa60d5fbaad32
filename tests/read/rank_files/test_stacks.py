"""Stacks of ranks: one rank is at a different place than the others."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from course_lib import read

WAITS = """Thread 0x00007f0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
Current thread 0x00007f1 [python] (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "/home/me/train.py", line 40 in average
  File "/home/me/train.py", line 90 in <module>
"""  # noqa: E501
STUCK = """Thread 0x00007f0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
Thread 0x00007f1 (most recent call first):
  File "/usr/lib/python3.11/queue.py", line 171 in get
  File "/home/me/data.py", line 12 in next_batch
  File "/home/me/train.py", line 88 in <module>
"""


def rank_file(write, rank, *dumps, node="node1"):
    who = json.dumps({"rank": rank, "node": node, "pid": 7, "began": "1"})
    return write(f"run/stacks/rank{rank}.txt", who + "\n" + "".join(dumps))


@pytest.fixture
def hang(write, tmp_path):
    for rank in (0, 1, 3):
        rank_file(write, rank, WAITS)
    rank_file(write, 2, WAITS, STUCK, node="node2")
    return read.stacks(tmp_path / "run")


def test_the_one_that_is_elsewhere_is_the_odd_one(hang):
    [odd] = hang.odd
    assert (odd.rank, odd.node, odd.place) == (2, "node2", "data.py:12 in next_batch")
    assert odd.collective == ""


def test_those_that_wait_name_their_collective_and_their_own_line(hang):
    assert hang.ranks[0].collective == "all_reduce"
    assert hang.ranks[0].place == "train.py:40 in average"
    assert list(hang.table.columns) == ["rank", "node", "collective", "place"]


def test_the_last_dump_counts(write, tmp_path):
    rank_file(write, 0, STUCK, WAITS)
    assert read.stacks(tmp_path / "run").ranks[0].collective == "all_reduce"


def test_a_rank_that_did_not_answer_is_told(write, tmp_path):
    rank_file(write, 0)
    found = read.stacks(tmp_path / "run")
    assert not found.ranks[0].answered
    assert "no answer" in str(found)
    assert "no rank has started yet, or all have ended" in str(found)


def test_a_job_that_still_moves_is_no_hang(write, tmp_path, hang):
    assert hang.note == ""
    rank_file(write, 0, STUCK)
    rank_file(write, 1, STUCK)
    moving = read.stacks(tmp_path / "run")
    moving = type(moving)(moving.ranks[:2])
    assert "the job makes progress" in str(moving)
    assert "the job makes progress" in moving._repr_html_()


def test_without_a_majority_all_are_odd(write, tmp_path):
    rank_file(write, 0, WAITS)
    rank_file(write, 1, STUCK)
    assert len(read.stacks(tmp_path / "run").odd) == 2


def test_no_file_is_no_rank(tmp_path):
    assert read.stacks(tmp_path).ranks == ()
    assert str(read.stacks(tmp_path)) == ""


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_raise(tmp_path_factory, harm, headed):
    folder = tmp_path_factory.mktemp("stacks")
    head = b'{"rank": 0, "node": "n"}\n' if headed else b""
    (folder / "rank0.txt").write_bytes(head + harm)
    str(read.stacks(folder))
