"""On a real Slurm, the rehearsal reports faults before the class, and tries the jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.classroom import rehearsal
from course_lib.cli import main

sys.path.append(str(Path(__file__).parents[1] / "conformance"))
from harness.clusters import RealSlurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def slurm(need, lacking):
    need("slurmctld", "slurmd", "munged", "unshare", "tc")
    if os.getuid() != 0:
        lacking("only root can start a real Slurm")
    real = RealSlurm()
    real.start()
    yield real
    real.stop()


@pytest.fixture
def place(slurm, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", slurm.environment(tmp_path)["SLURM_CONF"])
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    monkeypatch.setattr(rehearsal, "OF_A_LEARNER_GIB", 0.01)
    return tmp_path


def rehearse(*words):
    return main(["rehearse", "--site", "slurm", "--users", "3", "--lessons", *words])


def administer(*words):
    subprocess.run(["scontrol", *words], check=True, capture_output=True)


def test_what_is_right_runs_and_what_waits_is_told(place, capsys):
    assert rehearse("05") == 0
    said = capsys.readouterr().out
    assert "a job ran on node1, node2" in said
    assert "3 jobs at once, 2 nodes, 2 devices each: 1 ran at a time" in said
    assert "to book: 6 nodes with 2 devices each" in said


def test_a_wrong_partition_is_told(place, capsys):
    (place / "site.toml").write_text('name = "slurm"\n[slurm]\npartition = "gpu"\n')
    assert main(["rehearse", "--users", "3", "--lessons", "05"]) == 1
    said = capsys.readouterr().out
    assert "Invalid partition name specified" in said
    assert "no jobs were sent" in said


def test_a_time_limit_that_a_lesson_would_pass_is_told(place, capsys):
    administer("update", "partition=course", "MaxTime=30")
    try:
        assert rehearse("00", "05") == 1
    finally:
        administer("update", "partition=course", "MaxTime=1-0")
    said = capsys.readouterr().out
    assert "would refuse 1 node without devices, 60 min (lessons 00)" in said
    assert "Requested time limit is invalid" in said


def test_a_reservation_that_is_not_there_or_too_small_is_told(place, capsys):
    assert rehearse("05", "--reservation", "class") == 1
    assert "Requested reservation is invalid" in capsys.readouterr().out
    administer("create", "reservation", "reservationname=class", "starttime=now", "duration=60",
               "users=root", "nodes=node1")  # fmt: skip
    try:
        assert rehearse("05", "--reservation", "class") == 1
        assert "would refuse 2 nodes, 2 devices each" in capsys.readouterr().out
        assert rehearse("09", "--reservation", "class") == 0
    finally:
        administer("delete", "reservationname=class")
