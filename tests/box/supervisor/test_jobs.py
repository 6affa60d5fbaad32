"""The environment of a batch job, and what the job leaves behind, on nodes and in flat mode."""

from __future__ import annotations

import os
import sqlite3
import time


def test_a_job_finds_its_script_folder_arguments_and_streams(any_box):
    (any_box.work / "job.sh").write_text(
        '#!/bin/bash\npwd; printf "%s|" "$@"; cat; readlink /proc/$$/fd/0; basename "$0"\n'
        "echo error >&2; umask; ulimit -n; id -u\n"
    )
    (any_box.work / "in put").write_text("typed\n")
    done = any_box.run(
        "sbatch", "--parsable", "-o", "out-%j", "-i", "in put", "job.sh", "a b", "c'd"
    )
    job = done.stdout.strip()
    assert any_box.wait(job) == "COMPLETED"
    lines = any_box.output(job).splitlines()
    assert lines[0] == str(any_box.work)
    assert lines[1] == "a b|c'd|typed"
    assert lines[2:5] == [str(any_box.work / "in put"), "slurm_script", "error"]
    assert lines[7] == str(os.getuid())


def test_steps_run_on_every_node_with_numbers_of_their_own(any_box):
    text = any_box.result(
        "srun -l bash -c 'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURMD_NODENAME'\n"
        "srun -l -m cyclic bash -c 'echo $SLURM_PROCID $SLURMD_NODENAME $SLURM_GTIDS' | sort\n",
        "-N2",
        "--ntasks-per-node=2",
    )
    block, cyclic = sorted(text.splitlines()[:4]), text.splitlines()[4:]
    assert block == ["0: 0 0 0 node1", "1: 1 1 0 node1", "2: 2 0 1 node2", "3: 3 1 1 node2"]
    assert cyclic == ["0: 0 node1 0,2", "1: 1 node2 1,3", "2: 2 node1 0,2", "3: 3 node2 1,3"]


def test_what_ignores_sigterm_is_killed_and_nothing_is_left(any_box):
    job = any_box.submit(
        "trap '' TERM; (setsid bash -c 'while :; do sleep 1; done' &) ; touch deaf\n"
        "srun bash -c \"trap '' TERM; while :; do sleep 1; done\"\nwhile :; do sleep 1; done"
    )
    any_box.until_exists("deaf")
    any_box.run("scancel", job)
    assert any_box.wait(job) == "CANCELLED"
    assert_nothing_is_left(any_box)


def assert_nothing_is_left(box, patience_s=10):
    """Check that nothing is left, after a moment: the supervisor reports the end of its job before
    it ends itself."""
    deadline = time.monotonic() + patience_s
    while box.job_processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert box.job_processes() == {}


def test_the_time_limit_ends_a_job_and_the_signal_before_it_comes(any_box):
    """The shortest limit that sbatch takes is a minute, so the held job gets a shorter one."""
    job = any_box.submit(
        "trap 'echo soon' USR1; trap 'echo over' TERM; while :; do sleep 0.1; done",
        "--time=1",
        "--signal=B:USR1@5",
        "--hold",
    )
    with sqlite3.connect(any_box.home / "state.sqlite", timeout=30) as db:
        db.execute("UPDATE job SET time_limit_min = 0.25 WHERE id = ?", (int(job),))
    any_box.run("scontrol", "release", job)
    assert any_box.wait(job) == "TIMEOUT"
    assert "DUE TO TIME LIMIT ***" in any_box.output(job)
    assert any_box.output(job).index("soon") < any_box.output(job).index("over")
