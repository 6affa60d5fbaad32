"""If a box is deleted, alone or with the course, all its processes end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from course_lib import box as box_room

PACKAGE = Path(box_room.__file__).parents[1]


@pytest.fixture
def copied(make_box, tmp_path):
    """`copied(…)` is a box with its own copy of the code, which a test may delete."""

    def make(**options):
        box = make_box(**options)
        shutil.copytree(PACKAGE / "box", tmp_path / "course_lib" / "box")
        shutil.copy(PACKAGE / "__init__.py", tmp_path / "course_lib")
        path = box.environment["PATH"].split(":")
        box.environment["PATH"] = ":".join([str(tmp_path / "course_lib/box/bin"), *path[1:]])
        box.environment["COURSE_BOX_PYTHON"] = str(Path(shutil.which("python", path=path[1])))
        return box

    return make


def delete(folder):
    """Delete the folder until it is gone, because a process may write a new file into it."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


def begin(box):
    """Start a running job with steps on both nodes, a waiting job, and a dispatcher for both."""
    box.submit("srun bash -c 'touch begun.$SLURM_NODEID; sleep 600'", "-N2", "-n2")
    box.submit("true", "--begin=now+1hour")
    for node in (0, 1):
        box.until_exists(f"begun.{node}")
    assert box.processes()


@pytest.mark.parametrize("mode", ["auto", "flat"])
def test_with_state_and_code_all_processes_go(copied, tmp_path, mode):
    box = copied(mode=mode)
    begin(box)
    delete(box.home)
    delete(tmp_path / "course_lib")
    box.until("the end of all processes", lambda: not box.processes())
    assert not box.home.exists(), "what was deleted is not made anew"


def test_the_warm_process_goes_too(copied, tmp_path, namespaces):
    pytest.importorskip("torch")
    box = copied(warm=True)
    box.result("true")
    box.until_warm()
    begin(box)
    assert "box-warm" in box.processes().values()
    delete(box.home)
    delete(tmp_path / "course_lib")
    box.until("the end of all processes", lambda: not box.processes())


def test_a_job_of_a_folder_that_was_deleted_and_made_anew_ends(make_box):
    box = make_box()
    begin(box)
    settings = (box.home / "box.toml").read_text()
    delete(box.home)
    box.home.mkdir()
    (box.home / "box.toml").write_text(settings)
    box.until("the end of the old processes", lambda: not box.processes())
    assert box.wait(box.submit("true")) == "COMPLETED"


def test_whoever_waits_for_a_job_of_a_deleted_box_is_told(make_box):
    import subprocess

    box = make_box()
    waiting = [
        subprocess.Popen(
            command, cwd=box.work, env=box.environment, stderr=subprocess.PIPE, text=True
        )
        for command in (
            ["sbatch", "--wait", "-o", "/dev/null", "--wrap", "touch begun.0; sleep 600"],
            ["srun", "-N2", "--exclusive", "--begin=now+1hour", "true"],
        )
    ]
    box.until_exists("begun.0")
    box.until("both in the queue", lambda: len(box.run("squeue", "-h").stdout.split("\n")) == 3)
    delete(box.home)
    for process in waiting:
        _, errors = process.communicate(timeout=60)
        assert process.returncode != 0
        assert "was removed" in errors
    assert not box.home.exists()
