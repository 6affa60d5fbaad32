"""`course read` says what a file holds, and which parts were not read."""

from __future__ import annotations

import gzip
import io
import os
import pickle
from types import SimpleNamespace

import pytest

from course_lib import read
from course_lib.read import file_contents as command

ITERATION = " iteration 1/ 9 | elapsed time per iteration (ms): 5.0 | lm loss: 2.0 |\n"
SHORT_BYTES = 50_000
STRANGE = "epoch 3 => training loss: 0.25\n"
KINDS = {
    "megatron/bs-meg-n4-tp4pp4-scancel.log": ["training log", "failure"],
    "other-trainers/nersc-dl-at-scale-dali.log": ["training log"],
    "nccl/v2186-6gpu-megatron-pp3tp2.log": ["training log", "NCCL log"],
    "oom/v100-16gpu-after-5it.log": ["training log", "failure"],
    "traces/hta-a100-2rank-nccl-metadata.json.gz": ["profiler trace"],
    "traces/hta-v100-2rank-memory-28k.json.gz": ["profiler trace", "memory over time"],
    "traces/hta-memory_timeline.raw.gz": ["memory over time"],
    "traces/snap-ftcourse.pickle": ["memory over time"],
}


@pytest.mark.parametrize("name", KINDS)
def test_the_kinds_of_a_real_file_are_recognized(logs, name):
    assert [part.kind for part in read.contents(logs / name).parts] == KINDS[name]


def test_almost_every_real_log_holds_something(logs):
    """A log without a rule says so, and names the lines with a loss that it has not read."""
    folders = ("megatron", "nccl", "oom", "failure", "other-trainers", "traces")
    paths = [path for name in folders for path in sorted((logs / name).iterdir())]
    short = [path for path in paths if path.stat().st_size < SHORT_BYTES]
    assert len(short) > 30
    assert [path.name for path in short if not read.contents(path).parts] == []
    strange = read.contents(logs / "more/train/lightning-bar-2021.log")
    assert strange.parts == ()
    assert "6 lines with a loss in an unknown form" in str(strange)


def test_a_loss_in_an_unknown_form_is_named_with_its_line(write):
    found = read.contents(write("a.log", ITERATION + STRANGE))
    assert [part.kind for part in found.parts] == ["training log"]
    assert found.not_read == (
        f"1 lines with a loss in an unknown form, the first in line 2: {STRANGE.strip()}",
    )
    assert read.contents(write("b.log", ITERATION)).not_read == ()


def test_the_command_prints_tables_and_answers_by_its_exit_code(write, capsys):
    log = write("a.log", ITERATION)
    assert command.main([str(log)]) == 0
    assert "iterations           1 rows: iteration" in capsys.readouterr().out
    assert command.main([str(log), str(write("b.log", "Dear all!\n"))]) == 1
    assert "Nothing was recognized." in capsys.readouterr().out
    assert command.main([str(log.with_name("none.log"))]) == 2
    assert capsys.readouterr().err == f"course read: {log.with_name('none.log')} does not exist\n"


def test_packed_files_and_the_standard_input_are_read_too(write, monkeypatch, capsys):
    packed = write("a.log.gz", gzip.compress(ITERATION.encode()))
    assert command.main([str(packed)]) == 0
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(ITERATION.encode())))
    assert command.main(["-"]) == 0
    reading, writing = os.pipe()  # as in `course read <(zcat a.log.gz)`
    os.write(writing, ITERATION.encode())
    os.close(writing)
    assert command.main([f"/dev/fd/{reading}"]) == 0
    found = capsys.readouterr().out.split("training log")[1:]
    assert [text.strip() for text in found] == [found[0].strip()] * 3


DAMAGED = {
    "gzip": gzip.compress(ITERATION.encode() * 100)[:-20],
    "program": b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 4,
    "pickle of a call": pickle.dumps(SimpleNamespace),
    "half a trace": b'{"traceEvents": [{"ph": "X", "name": ',
    "half a list": b"[[",
    "nothing": b"",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_raises_nothing_and_is_no_failure_of_a_run(write, name):
    found = read.contents(write("file", DAMAGED[name]))
    assert "failure" not in [part.kind for part in found.parts]
    assert name in ("half a trace", "half a list", "nothing") or found.not_read
