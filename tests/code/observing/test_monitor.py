"""The monitor as a job runs it: its records of a busy process, and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "code" / "monitor.py"
BUSY = "print('ready', flush=True)\nwhile True: pass"


def lines(folder: Path) -> list[dict]:
    file = folder / "monitor" / "node7.jsonl"
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def wait_for(what, limit_s: float = 60.0):
    until_s = time.monotonic() + limit_s
    while time.monotonic() < until_s:
        if found := what():
            return found
        time.sleep(0.05)
    raise AssertionError("not in time")


def environment(folder: Path, **more: str) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if k not in ("RANK", "SLURM_JOB_ID")}
    names = {"COURSE_RUN_DIR": str(folder), "SLURM_JOB_ID": "47110815", "SLURMD_NODENAME": "node7"}
    return {**inherited, **names, **more}


@pytest.fixture
def rank(tmp_path):
    """Start a busy process as rank 2 of this job, one of another job, and one of another node. (The
    nodes of the box are in one machine.)"""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", BUSY],
            env=environment(tmp_path, RANK=number, SLURM_JOB_ID=job, SLURMD_NODENAME=node),
            stdout=subprocess.PIPE,
        )
        for number, job, node in (
            ("2", "47110815", "node7"),
            ("3", "47110815", "node8"),
            ("9", "1", "node7"),
        )
    ]
    for process in started:
        process.stdout.readline()
    yield started[0]
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def monitor(tmp_path):
    started = subprocess.Popen(
        [sys.executable, str(PROGRAM), "--interval-s", "0.1"], env=environment(tmp_path)
    )
    yield started
    started.kill()
    started.wait()


def test_it_records_the_ranks_of_its_own_job_and_ends_when_told(tmp_path, rank, monitor):
    def worked():
        return [row for row in lines(tmp_path) if row["ranks"] and row["ranks"][0]["cpu_percent"]]

    row = wait_for(worked)[-1]
    assert [(one["rank"], one["pid"]) for one in row["ranks"]] == [(2, rank.pid)]
    assert 1e6 < row["ranks"][0]["memory_bytes"] < row["memory_total_bytes"]
    assert 0 < row["memory_used_bytes"] < row["memory_total_bytes"]
    assert 0 <= row["cpu_percent"] <= 100
    assert row["node"] == "node7"
    monitor.send_signal(signal.SIGTERM)
    assert monitor.wait(30) == 0
    assert all(isinstance(one, dict) for one in lines(tmp_path))


def test_a_small_process_that_stands_in_for_a_rank_is_not_taken_for_it(tmp_path, rank, monitor):
    """The box starts Python programs in this way: one `python` only waits for the other, which
    works."""
    waits = subprocess.Popen(["sleep", "100"], env=environment(tmp_path, RANK="2"))
    seen = len(lines(tmp_path))
    wait_for(lambda: len(lines(tmp_path)) > seen + 6)  # all processes are gone through once in 5
    assert [one["pid"] for one in lines(tmp_path)[-1]["ranks"]] == [rank.pid]
    waits.kill()
    waits.wait()


def test_a_share_of_time_needs_two_looks_and_a_rank_that_ends_is_gone(tmp_path, rank, monitor):
    rows = wait_for(lambda: [row for row in lines(tmp_path) if row["ranks"]])
    assert rows[0]["ranks"][0]["cpu_percent"] is None
    rank.kill()
    rank.wait()
    wait_for(lambda: lines(tmp_path)[-1]["ranks"] == [])
    received = [row["network_in_bytes"] for row in lines(tmp_path)]
    assert received == sorted(received)


def test_it_ends_with_its_parent(tmp_path):
    starter = (
        "import subprocess, sys\n"
        f"p = subprocess.Popen([sys.executable, {str(PROGRAM)!r}, '--interval-s', '0.1'])\n"
        "print(p.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", starter],
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    started = int(parent.stdout.readline())
    wait_for(lambda: lines(tmp_path))
    parent.kill()
    parent.wait()
    wait_for(lambda: not _runs(started))


def _runs(number: int) -> bool:
    try:
        return b"monitor.py" in Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return False
