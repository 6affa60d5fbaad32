"""Run jobs while processes are killed at random, and check afterwards that everything adds up.

COURSE_TEST_CHAOS_MINUTES=10 in the environment repeats the rounds for ten minutes.
COURSE_TEST_CHAOS_SEED=17 repeats one round. `-s` shows what each round did.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]

ROUNDS = 4
MINUTES = float(os.environ.get("COURSE_TEST_CHAOS_MINUTES", "0"))
SEED = os.environ.get("COURSE_TEST_CHAOS_SEED")
TORCHRUN = (
    "srun --ntasks-per-node=1 torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d "
    "--rdzv-endpoint=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -1):29500 ranks.py"
)
RANKS = "import os, time\nprint('rank', os.environ['RANK'], flush=True)\ntime.sleep(60)\n"
JOBS: dict[str, tuple[str, tuple[str, ...]]] = {
    "script": ("sleep 60 & sleep 60", ("-n1",)),
    "short": ("sleep 0.3", ("-N2", "-n2")),
    "steps": ("srun -n2 sleep 60 & srun -n2 --overlap sleep 60; wait", ("-N2", "-n2")),
    "deaf": ("trap '' TERM; (setsid sleep 60 &); srun --overlap sleep 60", ("-n1",)),
    "ranks": (TORCHRUN, ("-N2", "--ntasks-per-node=1", "--gpus-per-node=2")),
    "later": ("srun hostname", ("-n1", "--begin=now+1")),
}


def _numbers() -> Iterator[int]:
    """Return the seeds of the rounds: a few, as many as fit into the minutes, or one."""
    if SEED is not None:
        return iter([int(SEED)])
    if MINUTES:
        return itertools.count(int(time.time()))
    return iter(range(ROUNDS))


def _submit(box, chance: random.Random) -> list[str]:
    jobs: list[str] = []
    for _ in range(chance.randint(1, 4)):
        script, options = JOBS[chance.choice(sorted(JOBS))]
        if jobs and chance.random() < 0.3:
            options = (*options, f"--dependency=afterany:{chance.choice(jobs)}")
        jobs.append(box.submit(script, *options))
    return jobs


def _kill(box, chance: random.Random) -> list[str]:
    """Kill one, several or all processes of the box, and return their names."""
    living = sorted(box.processes().items())
    count = chance.choice([1, 1, 1, 2, 4, len(living)])
    killed = []
    for pid, name in chance.sample(living, min(count, len(living))):
        try:
            os.kill(pid, signal.SIGKILL)
            killed.append(name)
        except ProcessLookupError:
            continue
    return killed


def _of_jobs(box) -> dict[str, list[int]]:
    """Return the living processes of each job, found by their environment."""
    found: dict[str, list[int]] = {}
    for pid in box.job_processes():
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for word in words:
            if word.startswith(b"SLURM_JOB_ID="):
                found.setdefault(word.partition(b"=")[2].decode(), []).append(pid)
    return found


def _queue(box) -> dict[str, str]:
    lines = box.run("squeue", "-h", "-o", "%i %T").stdout.split("\n")
    return dict(line.split() for line in lines if line)


def _adds_up(box, jobs: list[str]) -> bool:
    """Check that every job is known, and that a job runs if and only if it has processes."""
    queue, living = _queue(box), _of_jobs(box)
    busy = {job for job, state in queue.items() if state in ("RUNNING", "COMPLETING")}
    known = {job for job in jobs if box.state(job)}
    return known == set(jobs) and set(living) <= busy and busy <= set(living) | _new(box, busy)


def _new(box, busy: set[str]) -> set[str]:
    """Return the jobs that have just begun and do not have a first process yet."""
    return {job for job in busy if not (box.home / "jobs" / job / "processes").exists()}


def _round(box, number: int, say: Callable[[str], None]) -> None:
    chance = random.Random(number)
    jobs = _submit(box, chance)
    time.sleep(chance.choice([0.0, 0.1, 0.3, 1.0, 2.0]))
    killed = _kill(box, chance)
    begun = time.monotonic()
    box.until(f"the truth after round {number}", lambda: _adds_up(box, jobs))
    truth_s = time.monotonic() - begun
    say(f"round {number}: {len(jobs)} jobs, true in {truth_s:.1f} s, killed: {' '.join(killed)}")
    box.run(
        "scancel", *jobs, check=False
    )  # those that wait for devices would come before later ones
    assert box.result("srun -N2 -n2 hostname | wc -l", "-N2", "--gpus-per-node=0").split() == ["2"]
    box.until(f"the end of round {number}", lambda: not _queue(box) and not box.job_processes())


@pytest.mark.parametrize("options", [{"warm": True}, {"mode": "flat"}], ids=["nodes", "flat"])
def test_whatever_is_killed_everything_adds_up_and_nothing_is_left(make_box, options):
    box = make_box(**options)
    (box.work / "ranks.py").write_text(RANKS)
    end = time.monotonic() + 60 * MINUTES
    for number in _numbers():
        _round(box, number, print)
        if MINUTES and time.monotonic() > end:
            break
