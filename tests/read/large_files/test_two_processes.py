"""A large file is searched by two processes, and reads as it does by one."""

from __future__ import annotations

import contextlib

import pandas as pd
import pytest

from course_lib.read import nccl, training_log
from course_lib.read.large_files import two_processes
from course_lib.read.large_files.file_pieces import Pieces
from course_lib.read.nccl_logs.channel_search import ChannelSearch
from course_lib.read.training_logs.block_search import TrainingSearch

SMALL_BYTES = 20_000


@pytest.fixture
def in_small_pieces(monkeypatch):
    monkeypatch.setattr(two_processes, "LARGE_BYTES", 0)
    monkeypatch.setattr(two_processes, "_processors", lambda: 2)
    monkeypatch.setattr(TrainingSearch, "BLOCK_BYTES", SMALL_BYTES)
    monkeypatch.setattr(ChannelSearch, "BLOCK_BYTES", SMALL_BYTES)


@pytest.fixture
def log(tmp_path):
    """Two printers, a restart, an odd line now and then, and no end of the last line."""
    lines = []
    for row, number in enumerate([*range(1, 2001), *range(1900, 2101)]):
        if row in (0, 2000):
            lines.append("using world size: 2, data-parallel-size: 2")
        rank = f"[rank{number % 2}]: " if number % 3 else ""
        lines.append(
            f"{rank}[2026-01-02 03:{number // 60 % 60:02d}:{number % 60:02d}] iteration "
            f"{number:8d}/ 3000 | elapsed time per iteration (ms): {number + 0.5} | "
            f"lm loss: {12 - number / 1000:.6E} |"
        )
        lines.append(f"noise of {number} | with bars |")
        if number % 97 == 0:
            lines.append("validation loss at iteration 7 | lm loss value: 6.1 | lm loss PPL: 445 |")
    path = tmp_path / "out.log"
    path.write_text("\n".join([*lines, " iteration 2102/ 3000 | elapsed time per iteration (ms):"]))
    return path


def tables(read):
    return {name: value for name, value in vars(read).items() if isinstance(value, pd.DataFrame)}


def assert_same(one, two):
    assert tables(one).keys() == tables(two).keys()
    for name, table in tables(one).items():
        pd.testing.assert_frame_equal(table, tables(two)[name], check_dtype=False)


def test_a_training_log_reads_the_same(log, request):
    alone = training_log(log)
    request.getfixturevalue("in_small_pieces")
    together = training_log(log)
    assert alone.iterations["iteration"].max() == 2100
    assert alone.iterations["attempt"].max() == 1
    assert_same(together, alone)


def test_logs_of_nccl_read_the_same(logs, request):
    paths = [path for path in (logs / "nccl").glob("*.log") if path.stat().st_size > SMALL_BYTES]
    alone = [nccl(path) for path in paths]
    request.getfixturevalue("in_small_pieces")
    assert sum(len(one.channels) for one in alone) > 1000
    for path, one in zip(paths, alone, strict=True):
        assert_same(nccl(path), one)


def test_the_other_process_finds_the_same(log, in_small_pieces):
    own = TrainingSearch()
    pieces = Pieces(log, own.BLOCK_BYTES)
    with contextlib.closing(two_processes._OtherProcess(log, own)) as other:
        for number in (0, 1, 5):
            other.ask(number, None)
            theirs, ours = other.answer(), own(pieces.read(number), None)
            assert theirs.heads == ours.heads
            assert theirs.rows.columns.keys() == ours.rows.columns.keys()
            for name, values in ours.rows.columns.items():
                assert (theirs.rows.columns[name] == values).all()


@pytest.mark.parametrize("asked_before", [1, 3])
def test_what_a_killed_process_owes_is_read_all_the_same(
    log, in_small_pieces, monkeypatch, asked_before
):
    begun, asked = [], []

    class Mortal(two_processes._OtherProcess):
        def ask(self, number, hint):
            super().ask(number, hint)
            asked.append(number)
            if len(asked) == asked_before:
                begun.append(self)
                self._process.kill()
                self._process.wait()

    monkeypatch.setattr(two_processes, "_OtherProcess", Mortal)
    found = list(two_processes.searched(log, TrainingSearch()))
    assert len(begun) == 1
    assert not begun[0].alive
    assert b"".join(piece.text for _, piece, _ in found) == log.read_bytes()


def test_a_file_is_read_whole_where_no_other_process_can_be_started(
    log, in_small_pieces, monkeypatch
):
    monkeypatch.setattr(two_processes.sys, "executable", str(log))
    found = list(two_processes.searched(log, TrainingSearch()))
    assert {who for who, _, _ in found} == {0}
    assert b"".join(piece.text for _, piece, _ in found) == log.read_bytes()


@pytest.mark.parametrize("size_bytes", [1, 7, 40, 1000])
def test_pieces_are_whole_lines_and_together_the_file(tmp_path, size_bytes):
    text = b"".join(b"%d " % n * (n % 9) + b"\n" for n in range(200)) + b"no end"
    path = tmp_path / "text"
    path.write_bytes(text)
    pieces = Pieces(path, size_bytes)
    parts = [pieces.read(number) for number in range(len(pieces))]
    assert b"".join(parts) == text
    filled = [part for part in parts if part]
    assert all(part.endswith(b"\n") for part in filled[:-1])


def test_a_file_that_is_cut_while_it_is_read_ends_early(log, in_small_pieces):
    found = two_processes.searched(log, TrainingSearch())
    first = next(found)
    log.write_bytes(first[1].text)
    assert list(found)
