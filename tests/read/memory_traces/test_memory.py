"""Memory over time: a trace worked out by hand to the byte, and real ones of every form."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from course_lib import read
from course_lib.read.messages import ReadError

HEADER = {
    "format": "course-memory-1",
    "rank": 3,
    "world_size": 4,
    "node": "node2",
    "device": "cpu",
    "limit_bytes": 1000,
    "start_unix_ns": 1_700_000_000_000_000_000,
    "categories": ["parameters", "activations"],
    "layout": {"tensor": 2, "pipeline": 2},
    "note": "",
}
ROWS = [
    ["alloc", 0, 1, 100, 0],
    ["begin", 5, "forward", 0, 0],
    ["alloc", 10, 2, 50, 1],
    ["alloc", 20, 3, 30, 1],
    ["level", 20, 200],
    ["end", 25, "forward", 0, 0],
    ["begin", 25, "backward", 0, 0],
    ["free", 30, 2],
    ["alloc", 35.5, 4, 60, 1],
    ["free", 40, 3],
    ["free", 40, 4],
    ["end", 45, "backward", 0, 0],
    ["begin", 50, "optimizer", 0, None],
    ["alloc", 55, 5, 7, 0],
]


def lines(rows=ROWS, header=HEADER) -> str:
    return "".join(json.dumps(row) + "\n" for row in [header, *rows])


@pytest.mark.parametrize("name", ["rank3.jsonl", "rank3.jsonl.gz"])
def test_course_trace_worked_out_by_hand(write, name):
    data = lines().encode()
    memory = read.memory(write(name, gzip.compress(data) if name.endswith("gz") else data))
    trace = memory[3]
    assert trace.time_us.tolist() == [0, 10, 20, 30, 35.5, 40, 55]
    assert trace.bytes_by_category.tolist() == [
        [100, 0],
        [100, 50],
        [100, 80],
        [100, 30],
        [100, 90],
        [100, 0],
        [107, 0],
    ]
    assert (trace.peak_bytes, trace.peak_time_us) == (190, 35.5)
    assert trace.peak_composition == {"parameters": 100, "activations": 90}
    phases = trace.phases.set_index("phase")
    assert phases.loc["forward", ["begin_us", "end_us", "peak_bytes"]].tolist() == [5, 25, 180]
    assert phases.loc["backward", "peak_bytes"] == 190
    assert phases.loc["optimizer", ["begin_us", "end_us", "peak_bytes"]].tolist() == [50, 55, 107]
    assert (trace.limit_bytes, trace.layout["tensor"], trace.node) == (1000, 2, "node2")
    peaks = memory.peaks.iloc[0]
    assert (peaks["peak_bytes"], peaks["activations_bytes"]) == (190, 90)
    assert trace.table["total_bytes"].tolist() == [100, 150, 180, 130, 190, 100, 107]


def test_ranks_of_a_run_folder_side_by_side(write, tmp_path):
    for rank in (10, 2, 1):
        write(f"run/memory/rank{rank}.jsonl", lines(header={**HEADER, "rank": rank}))
    memory = read.memory(tmp_path / "run")
    assert [trace.rank for trace in memory] == [1, 2, 10]
    with pytest.raises(ReadError, match=r"ranks \[1, 2, 10\]"):
        memory[5]


def test_one_kind_of_memory_alone_has_a_peak_of_its_own(write):
    memory = read.memory(write("rank3.jsonl", lines().encode()))
    moving = memory.only("activations")[3]
    assert moving.categories == ("activations",)
    assert moving.total_bytes.tolist() == [0, 50, 80, 30, 90, 0, 0]
    assert (moving.peak_bytes, moving.peak_time_us) == (90, 35.5)
    assert moving.peak_composition == {"activations": 90}
    assert moving.limit_bytes is None  # it is one of all memory
    assert memory[3].only("activations", "parameters").peak_bytes == memory[3].peak_bytes
    with pytest.raises(ReadError, match="it has parameters, activations"):
        memory.only("activation")


def test_downsampling_never_loses_a_peak(write):
    generator = np.random.default_rng(0)
    rows = []
    for block in range(4000):
        rows.append(["alloc", block, block, int(generator.integers(1, 1000)), 1])
        if block >= 5:
            rows.append(["free", block + 0.5, block - 5])
    trace = read.memory(write("a.jsonl", lines(rows)))[3]
    time, levels = trace.downsample(200)
    assert len(time) <= 200
    assert levels.sum(axis=1).max() == trace.peak_bytes
    assert (time[0], time[-1]) == (trace.time_us[0], trace.time_us[-1])


def test_profiler_trace_of_a_gpu(logs):
    memory = read.memory(logs / "traces/hta-v100-2rank-memory-28k.json.gz")
    gpu = next(trace for trace in memory if trace.device == "cuda:1")
    assert (gpu.rank, gpu.peak_bytes) == (1, 6629508096)
    assert int(gpu.reserved["reserved_bytes"].max()) == 12782141440
    assert gpu.limit_bytes == 34089730048
    assert set(gpu.phases["phase"]) == {"step", "backward", "optimizer"}
    assert gpu.phases["peak_bytes"].max() == gpu.peak_bytes
    cpu = next(trace for trace in memory if trace.device == "cpu:0")
    assert len(gpu.time_us) - 1 + len(cpu.time_us) - 1 == 28010


def test_raw_timeline_of_the_profiler(logs):
    (trace,) = read.memory(logs / "traces/hta-memory_timeline.raw.gz")
    with gzip.open(logs / "traces/hta-memory_timeline.raw.gz") as file:
        rows = json.load(file)
    level = peak = 0
    by_time: dict[int, int] = {}
    start = min(row[0] for row in rows if row[0] >= 0)
    for time, _, size, _ in sorted(rows, key=lambda row: max(row[0], start)):
        level += size
        by_time[max(time, start)] = level
    peak = max(by_time.values())
    assert trace.peak_bytes == peak
    assert sum(trace.peak_composition.values()) == peak


SNAPSHOTS = {
    # reserved, allocated, peak of what was recorded
    "snap-cs336-ctx128-forward.pickle": (19667091456, 19498420224, 5723951104),
    "snap-cs336-ctx128-fullstep.pickle": (61111009280, 54873829888, 41174114308),
    "snap-ftcourse.pickle": (6471811072, 2297283072, 4780407592),
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_cuda_snapshots(logs, name):
    reserved, allocated, recorded = SNAPSHOTS[name]
    (trace,) = read.memory(logs / "traces" / name)
    assert trace.peak_composition["recorded"] == recorded
    assert int(trace.reserved["reserved_bytes"].iloc[-1]) == reserved
    assert trace.total_bytes[-1] == allocated


class Malicious:
    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_in_a_pickle_is_run(write, tmp_path, protocol):
    target = tmp_path / "made-by-the-pickle"
    evil = {"segments": [], "device_traces": [[Malicious(target)]]}
    memory = read.memory(write("evil.pickle", pickle.dumps(evil, protocol)))
    assert not target.exists()
    assert len(memory) == 0
    assert "plain data" in memory.notes[0]


def test_other_objects_are_refused_too(write):
    memory = read.memory(write("a.pickle", pickle.dumps({"segments": np.zeros(3)})))
    assert "a snapshot holds plain data" in memory.notes[0]


def test_damaged_files_are_noted(write, logs):
    data = (logs / "traces/snap-ftcourse.pickle").read_bytes()
    assert read.memory(write("cut.pickle", data[: len(data) // 2])).notes
    assert read.memory(write("empty.jsonl", b"")).notes


# A few bytes that ask for much, or contain themselves.
PICKLE_BOMBS = (
    b"\x80\x04\x8e" + (2**62).to_bytes(8, "little"),  # a text of four exabytes
    b"\x80\x04\x8d" + (2**40).to_bytes(8, "little") + b"x",
    b"\x80\x04\x8b" + (2**31 - 1).to_bytes(4, "little"),  # a number of two gigabytes
    b"\x80\x04r" + (2**32 - 1).to_bytes(4, "little") + b".",  # the last of four billion places
    b"\x80\x04Nr" + (2**31).to_bytes(4, "little") + b".",
    b"\x80\x04]\x94" + b"(h\x00h\x00h\x00h\x00e0]\x94" * 50 + b".",
    b"\x80\x04]" + b"2e" * 3000 + b".",
    b"(" * 100_000 + b".",
    b"]" * 200_000 + b"a" * 199_999 + b".",
    b"\x80\x04I" + b"9" * 200_000 + b"\n.",
    b"\x80\x04](" + b"K\x01" + b"2" * 2_000_000 + b"e.",
    b"\x80\x04}\x94\x8c\x01a\x94h\x00s" + b".",  # contains itself
    b"\x80\x04]\x94h\x00a.",
)


def test_a_small_pickle_cannot_take_much_memory(write):
    """Read in a process of its own, since only a process has a peak."""
    paths = [write(f"{number}.pickle", bomb) for number, bomb in enumerate(PICKLE_BOMBS)]
    program = (
        "import resource, sys; from course_lib import read\n"
        "for path in sys.argv[1:]: read.memory(path)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)"
    )
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, check=True)
    assert int(done.stdout) < 1500
