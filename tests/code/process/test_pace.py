"""A slot's interval of computing lasts as long as its processor time requires, and never less."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import torch
from worlds import ROOT

from process import pace


def compute(seconds):
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass


@pytest.fixture
def paced(monkeypatch):
    monkeypatch.setattr(pace, "PACE", pace.Pace(3.0))


def test_a_stretch_lasts_its_processor_time_times_the_factor(paced):
    with pace.computing("forward"):
        began, used = time.perf_counter(), time.thread_time()
        compute(0.02)
        used = time.thread_time() - used
    assert time.perf_counter() - began >= 3 * used - 1e-3


def test_the_message_leaves_after_the_computing_before_it(paced):
    with pace.computing("backward"):
        began, used = time.perf_counter(), time.thread_time()
        compute(0.02)
        used = time.thread_time() - used
        with pace.communicating("communication: all-reduce"):
            assert time.perf_counter() - began >= 3 * used - 1e-3


def test_waiting_for_a_core_is_part_of_the_time_that_computing_lasts(paced, monkeypatch):
    """Neighbours may take the core for as long as the slot would sleep."""
    slept, used, waited = [], [5.0], [1.0]
    pace.PACE.waited = 0
    monkeypatch.setattr(pace, "waited_s", lambda _: waited[0])
    monkeypatch.setattr(pace.time, "thread_time", lambda: used[0])
    monkeypatch.setattr(pace.time, "sleep", lambda seconds: slept.append(round(seconds, 6)))
    pace.resume()
    used[0] += 0.01
    waited[0] += 0.015
    pace.catch_up()
    assert slept == [0.005]


def test_the_same_pass_counts_with_what_it_used_of_late_and_other_work_at_once():
    usual, noisy = pace.Usual(), [0.010, 0.012, 0.009, 0.011, 0.010, 0.009, 0.0115, 0.0085] * 3
    times = [usual.time_s("forward", used) for used in noisy][9:]
    assert max(times) / min(times) < 1.06
    assert sum(times) == pytest.approx(sum(noisy[9:]), rel=0.03)
    assert usual.time_s("forward", 0.02) == pytest.approx(0.75 * 0.02)


DDP = """
import os, time, torch
import torch.distributed as dist
from process import pace
pace.keep_pace()
pace.PACE.waited, pace.waited_s = 0, lambda _: 0.0  # a busy machine leaves less to sleep
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
torch.set_num_threads(1)
wide = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4)))
model = torch.nn.parallel.DistributedDataParallel(wide)
ready = []
def told(state, bucket):
    ready.append((pace.PACE.slept_s - began, time.thread_time() - used))
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done
model.register_comm_hook(None, told)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(256, 512)
for step in range(3):
    pace.resume()
    began, used = pace.PACE.slept_s, time.thread_time()
    loss = model(x).square().mean()
    forward = pace.PACE.slept_s - began, time.thread_time() - used
    loss.backward()
    optimizer.step()
    print(*forward, *ready[-1], pace.PACE.slept_s - began, time.thread_time() - used)
"""


def test_a_program_that_says_nothing_keeps_its_pace_by_one_call():
    """The slot keeps its pace in forward, before the last bucket is sent, and in the whole step."""
    done = subprocess.run(
        [sys.executable, "-c", DDP],
        cwd=ROOT / "code",
        env={"PATH": "/usr/bin:/bin", "COURSE_DEVICE_PACE": "3"},
        capture_output=True,
        text=True,
        check=True,
    )
    for line in done.stdout.splitlines():
        numbers = [float(word) for word in line.split()]
        for slept_s, used_s in zip(numbers[::2], numbers[1::2], strict=True):
            # What follows the last hook of a phase is owed still; so is the shortest sleep.
            assert slept_s >= 1.8 * used_s - 5e-3, line
    assert len(done.stdout.splitlines()) == 3


def test_profiles_count_the_sleep_as_computing(paced, tmp_path, monkeypatch):
    from torch.profiler import ProfilerActivity, profile, record_function

    from course_lib import read

    monkeypatch.setattr(pace, "waited_s", lambda _: 0.0)  # a busy machine leaves less to sleep
    step, forward = record_function("ProfilerStep#1"), pace.computing("forward 0")
    with profile(activities=[ProfilerActivity.CPU]) as recorded, step, forward:
        torch.ones(400, 400) @ torch.ones(400, 400)
        compute(0.03)
    path = tmp_path / "rank0.1.pt.trace.json"
    recorded.export_chrome_trace(str(path))
    found = read.profile(path)
    (step,) = found.overlap.to_dict("records")
    assert step["idle_us"] < step["total_us"] - 55_000
    assert found.step_time["cpu_us"].sum() >= 55_000, "torch-tb-profiler's table"
    slept = found.operators.set_index("name")["host_self_us"]["course::pace"]
    assert step["compute_us"] >= slept >= 55_000
