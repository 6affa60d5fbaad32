"""Only one job at a time saves into a folder."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import subprocess
import sys

import one_run
import pytest

from checkpoints.files import CheckpointError
from checkpoints.saving_lock import NAME, SavingLock

HOLDER = """
import sys, pathlib
sys.path.insert(0, sys.argv[1])
from checkpoints.saving_lock import SavingLock
lock = SavingLock(pathlib.Path(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other_job(repository, tmp_path):
    environment = {**os.environ, "SLURM_JOB_ID": "77", "SLURM_JOB_NAME": "first"}
    command = [sys.executable, "-c", HOLDER, str(repository / "code"), str(tmp_path / "shared")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_job_is_refused_on_every_rank_until_the_first_is_dead(worlds, tmp_path, other_job):
    folder = tmp_path / "shared"
    argv = [*one_run.MODEL, "--train-iters", "1", "--save", str(folder)]
    said = worlds(2).run(one_run.refusal, argv)
    owner = f"job 77 (first), host {socket.gethostname()}, process {other_job.pid}, is already"
    assert said[0].startswith(owner)
    assert said[1] == said[0]
    assert [path.name for path in folder.iterdir()] == [NAME]
    other_job.kill()  # SIGKILL: it cannot tidy up
    other_job.wait()
    assert (folder / NAME).exists()
    assert [code for code, _ in worlds(2).run(one_run.program, argv)] == [0, 0]
    assert sorted(path.name for path in folder.iterdir()) == [
        "iter_0000001",
        "latest_checkpointed_iteration.txt",
    ]


def test_a_released_lock_is_free_and_leaves_nothing(tmp_path):
    for _ in range(2):
        lock = SavingLock(tmp_path / "made" / "for it")
        with pytest.raises(CheckpointError, match=f"process {os.getpid()}, is already saving to"):
            SavingLock(lock.path.parent)
        lock.release()
        assert list(lock.path.parent.iterdir()) == []


def test_a_lock_on_a_file_that_is_gone_does_not_count(tmp_path, monkeypatch):
    """The next job has opened the lock's file, and the previous job deletes it before the next job
    locks it."""
    real, first = fcntl.flock, [True]

    def late(file, how):
        if first.pop():
            (tmp_path / NAME).unlink()
            first.append(False)
        else:
            first.append(False)
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    lock = SavingLock(tmp_path)
    assert os.path.samestat(os.fstat(lock.file.fileno()), (tmp_path / NAME).stat())


def test_a_folder_that_cannot_be_written_is_refused_before_training(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"cannot save to .*: Not a directory"):
        SavingLock(tmp_path / "file" / "folder")


def test_without_locks_of_the_file_system_the_job_trains_and_is_told(tmp_path, monkeypatch, capsys):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    SavingLock(tmp_path).release()
    assert "has no locks" in capsys.readouterr().out
