"""Last collectives of each rank: the first difference, or the ranks that are behind."""

from __future__ import annotations

import json

import pytest

from course_lib import read


def recorded(write, calls_of_rank):
    for rank, calls in enumerate(calls_of_rank):
        entries = [
            {"collective_seq_id": number, "pg_id": 0, "profiling_name": f"gloo:{name}",
             "input_sizes": [[size]], "state": "scheduled"}
            for number, (name, size) in enumerate(calls, start=1)
        ]  # fmt: skip
        text = json.dumps({"version": "2.10", "entries": entries})
        path = write(f"run/flight/rank{rank}.json", text)
    return read.flight(path.parent.parent)


SUM, MEAN = ("all_reduce", 8), ("all_gather", 1)


def test_the_first_difference_names_the_odd_one(write):
    flight = recorded(write, [[SUM, SUM], [SUM, SUM], [SUM, MEAN], [SUM, SUM]])
    assert flight.difference[2] == "all_gather [[1]]"
    assert flight.odd == [2]
    assert "rank 2: all_gather [[1]]" in str(flight)


def test_another_size_is_a_difference(write):
    assert recorded(write, [[SUM], [("all_reduce", 4)], [SUM]]).odd == [1]


def test_who_is_behind(write):
    flight = recorded(write, [[SUM] * 4, [SUM] * 4, [SUM] * 3, [SUM] * 4])
    assert flight.difference == {}
    assert flight.odd == [2]
    assert "rank 2: 3 collectives, the last all_reduce [[8]]" in str(flight)


def test_two_against_two_blames_no_rank(write):
    assert recorded(write, [[SUM], [MEAN], [SUM], [MEAN]]).odd == []


def test_all_alike(write):
    assert recorded(write, [[SUM], [SUM]]).odd == []


@pytest.mark.parametrize("harm", ["", "[]", "{", '{"entries": 3}', '{"entries": [3, {}]}'])
def test_what_is_no_record_is_passed_over(write, harm):
    path = write("run/flight/rank0.json", harm)
    flight = read.flight(path.parent)
    assert (flight.odd, str(flight)) == ([], "no rank has called a collective")


def test_a_run_without_one_is_told_how_to_have_one(tmp_path):
    with pytest.raises(FileNotFoundError, match="TORCH_FR_BUFFER_SIZE"):
        read.flight(tmp_path / "none")
