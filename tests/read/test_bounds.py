"""Every reader has a bound, and says if a file goes beyond it."""

from __future__ import annotations

import gzip
import json

import pytest

from course_lib import read
from course_lib.read import lines
from course_lib.read.memory_traces import course_format, torch_profiler

HEADER = {"format": "course-memory-1", "categories": ["weights"], "note": "own"}


def test_a_packed_file_is_read_up_to_its_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MOST_UNPACKED_BYTES", 1 << 20)
    path = tmp_path / "out.log.gz"
    path.write_bytes(gzip.compress(b"\n" * (3 << 20)))
    with pytest.warns(UserWarning, match=r"out\.log\.gz: only the first .* GiB of its unpacked"):
        assert sum(map(len, lines.blocks(path))) == 1 << 20


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20])
def test_within_the_bound_all_is_read_and_nothing_said(tmp_path, monkeypatch, recwarn, size):
    monkeypatch.setattr(lines, "MOST_UNPACKED_BYTES", 1 << 20)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"x" * size))
    with lines.open_any(path) as file:
        assert len(file.read()) == size
    assert not recwarn


def test_a_memory_trace_of_too_many_events_says_how_many_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(course_format, "MOST_EVENTS", 10)
    rows = [HEADER, *(["alloc", time, time, 8, 0] for time in range(20))]
    (tmp_path / "rank0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (timeline,) = read.memory(tmp_path / "rank0.jsonl").ranks
    assert timeline.note == "own; only the first 10 events are read"
    assert timeline.bytes_by_category.max() == 80


def test_a_raw_timeline_that_is_too_large_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_profiler, "LARGEST_RAW_BYTES", 100)
    rows = [[time, 0, 8, 0] for time in range(50)]
    (tmp_path / "rank0.raw.gz").write_bytes(gzip.compress(json.dumps(rows).encode()))
    found = read.memory(tmp_path / "rank0.raw.gz")
    assert not found.ranks
    assert "more than 0 MiB" in found.notes[0]
