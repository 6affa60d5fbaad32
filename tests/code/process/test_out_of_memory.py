"""A rank that is out of memory ends the whole job at once, and the log has the size of its
request."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

import pytest

MEMORY = 200 * 2**20
LINE = re.compile(
    r"\[rank(\d)\]: OutOfMemoryError: CPU out of memory\. Tried to allocate ([\d.]+ \w+)\. "
    r"Rank \1 on \S+ has a total capacity of 200\.00 MiB of which ([\d.]+ \w+) is free\. "
    r"([\d.]+ \w+) is in use\."
)


@pytest.mark.slow
def test_the_job_ends_and_names_rank_sizes_and_limit(repository):
    program = repository / "code" / "pretrain_gpt.py"
    launcher = "-m torch.distributed.run --standalone --nproc-per-node 2"
    flags = "--mock-data --hidden-size 256 --seq-length 256 --micro-batch-size 64 --train-iters 3"
    command = [sys.executable, *launcher.split(), str(program), *flags.split()]
    environment = {**os.environ, "COURSE_DEVICE_MEMORY_BYTES": str(MEMORY)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as job:
        told = None
        for line in job.stdout:
            if told is None and "OutOfMemoryError" in line:
                told, since = line, time.monotonic()
        job.wait(timeout=60)
    assert told is not None
    assert LINE.match(told), told
    assert job.returncode != 0
    assert time.monotonic() - since < 15


def test_a_batch_that_fits_is_not_disturbed_by_the_limit(repository):
    done = subprocess.run(
        [sys.executable, str(repository / "code" / "pretrain_gpt.py"), "--mock-data",
         "--train-iters", "2", "--log-interval", "1"],
        env={**os.environ, "COURSE_DEVICE_MEMORY_BYTES": str(MEMORY)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert " iteration        2/       2 |" in done.stdout
