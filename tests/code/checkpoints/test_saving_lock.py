"""Only one job at a time saves into a folder."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys

import one_run
import pytest

from checkpoints.files import CheckpointError
from checkpoints.saving_lock import NAME, lock

HOLDER = """
import sys, pathlib
sys.path.insert(0, sys.argv[1])
from checkpoints.saving_lock import lock
held = lock(pathlib.Path(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other_job(repository, tmp_path):
    command = [sys.executable, "-c", HOLDER, str(repository / "code"), str(tmp_path / "shared")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_job_is_refused_on_every_rank_until_the_first_is_dead(worlds, tmp_path, other_job):
    folder = tmp_path / "shared"
    argv = [*one_run.MODEL, "--train-iters", "1", "--save", str(folder)]
    said = worlds(2).run(one_run.refusal, argv)
    assert said[0].startswith(f"another job is already saving to {folder}; ")
    assert said[1] == said[0]
    assert [path.name for path in folder.iterdir()] == [NAME]
    other_job.kill()  # SIGKILL: it cannot tidy up
    other_job.wait()
    assert (folder / NAME).exists()
    assert [code for code, _ in worlds(2).run(one_run.program, argv)] == [0, 0]
    assert sorted(path.name for path in folder.iterdir()) == [
        "iter_0000001",
        "latest_checkpointed_iteration.txt",
        NAME,
    ]


def test_a_folder_that_cannot_be_written_is_refused_before_training(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"cannot save to .*: Not a directory"):
        lock(tmp_path / "file" / "folder")


def test_without_locks_of_the_file_system_the_job_trains_and_is_told(tmp_path, monkeypatch, capsys):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    lock(tmp_path).close()
    assert "has no locks" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [tmp_path / NAME]
