# ruff: noqa: E501  lines of shell
"""An ordinary user gets the same nodes. If root runs the tests, they switch to such a user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import course_lib

NOBODY = 65534
JOB = """#!/bin/bash
srun -N2 -n2 -l bash -c 'hostname; id -u; stat -c %u mine.$SLURM_PROCID 2>/dev/null || touch mine.$SLURM_PROCID'
srun -N1 -n1 python3 -c 'import socket; print(socket.gethostbyname("node2"))'
cat /proc/self/uid_map | tr -s ' '
grep CapEff /proc/self/status
"""


@pytest.fixture
def user(tmp_path_factory, namespaces):
    """Run a command as an ordinary user, with a copy of the package that this user can read."""
    if os.getuid() != 0:
        pytest.skip("we are an ordinary user already, and every other test is this test")
    python = shutil.which("python3", path="/usr/bin")
    if python is None:
        pytest.skip("no /usr/bin/python3, which any user may run")
    version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, version.split()[1].split(".")[:2])) < (3, 11):
        pytest.skip(f"/usr/bin/python3 is {version.strip()}, and the box needs 3.11")
    folder = Path("/tmp") / f"course-box-test-{os.getpid()}"
    package, home = folder / "package", folder / "home"
    home.mkdir(parents=True)
    source = Path(course_lib.__file__).parent
    shutil.copytree(source / "box", package / "course_lib" / "box")
    shutil.copy(source / "__init__.py", package / "course_lib")
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
    os.chown(home, NOBODY, NOBODY)
    environment = {
        "PATH": f"{package}/course_lib/box/bin:/usr/bin:/bin",
        "HOME": str(home),
        "COURSE_BOX_HOME": str(home / "state"),
        "COURSE_BOX_PYTHON": python,
        "COURSE_BOX_WARM": "0",
        "LANG": "C.UTF-8",
    }

    def run(*command: str, **more) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=home, env=environment, user=NOBODY, group=NOBODY, extra_groups=[],
            capture_output=True, text=True, timeout=200, check=False, **more,
        )  # fmt: skip

    yield run, home
    run("scancel", "--me")
    shutil.rmtree(folder, ignore_errors=True)


def test_an_ordinary_user_gets_separate_nodes_and_stays_who_he_is(user):
    assert sys.platform == "linux"
    run, home = user
    done = run("sbatch", "--wait", "-N2", "-n2", "-o", "out", input=JOB)
    text = (home / "out").read_text() if (home / "out").exists() else done.stdout + done.stderr
    assert done.returncode == 0, text + done.stderr
    assert "0: node1\n" in text
    assert "1: node2\n" in text
    assert text.count(f": {NOBODY}\n") == 2
    assert "10.211.0.2" in text
    assert f" {NOBODY} {NOBODY} 1" in text
    assert "CapEff:\t0000000000000000" in text
    assert {(home / f"mine.{task}").stat().st_uid for task in (0, 1)} == {NOBODY}


def folder(path):
    path.unlink(missing_ok=True)
    path.mkdir()


def folder_elsewhere(path):
    path.rename(path.with_name("old"))
    path.symlink_to("/nowhere/jobs")


def unwritable(path):
    path.touch()
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o400)


@pytest.mark.parametrize(
    ("name", "harm", "cure"),
    [
        ("state.sqlite", unwritable, "`chmod u+rw {}` makes that file writable again"),
        ("state.sqlite-shm", unwritable, "`chmod u+rw {}` makes that file writable again"),
        ("state.sqlite-wal", unwritable, "`chmod u+rw {}` makes that file writable again"),
        ("state.sqlite", folder, "Remove the folder {}"),
        ("state.sqlite-shm", folder, "Remove the folder {}"),
        ("state.sqlite-wal", folder, "Remove the folder {}"),
        ("", lambda path: path.chmod(0o500), "name another folder with COURSE_BOX_HOME"),
    ],
)
def test_a_state_file_that_cannot_be_used_is_named_with_the_cure(user, name, harm, cure):
    run, home = user
    run("sbatch", "--hold", "--wrap=true")
    harm(home / "state" / name)
    said = run("sbatch", "--hold", "--wrap=true").stderr
    assert f"cannot use its state file: {home}/state/state.sqlite: " in said
    is_cured = "so try again" in said and run("sbatch", "--hold", "--wrap=true").returncode == 0
    assert is_cured or cure.format(home / "state" / name) in said
    (home / "state").chmod(0o700)


@pytest.mark.parametrize(
    ("harm", "cure"), [(unwritable, "`chmod u+rw {}` makes"), (folder, "Remove the folder {}")]
)
def test_jobs_that_cannot_begin_by_themselves_are_told_with_the_cure(user, harm, cure):
    run, home = user
    run("sbatch", "--hold", "--wrap=true")
    lock = home / "state" / "lock"
    harm(lock)
    done = run("sbatch", "--begin=now+1", "--output=out", "--wrap=echo begun")
    assert done.returncode == 0
    run("sleep", "1")
    said = run("squeue").stderr
    assert "no dispatcher can start waiting jobs" in said
    assert cure.format(lock) in said
    (lock.rmdir if lock.is_dir() else lock.unlink)()
    run("bash", "-c", "squeue; until [ -s out ]; do sleep 0.1; done")
    assert (home / "out").read_text() == "begun\n"


@pytest.mark.parametrize("harm", [lambda path: path.chmod(0o500), folder_elsewhere])
def test_a_folder_of_jobs_that_takes_none_is_named_and_the_job_begins_once_it_does(user, harm):
    run, home = user
    run("sbatch", "--wait", "--output=first", "--wrap=true")
    jobs = home / "state" / "jobs"
    harm(jobs)
    said = run("sbatch", "--output=out", "--wrap=echo begun").stderr
    assert "box: job 2 cannot begin yet: " in said
    assert f"'{jobs}" in said
    jobs.unlink() if jobs.is_symlink() else jobs.chmod(0o700)
    run("bash", "-c", "until [ -s out ]; do squeue; sleep 1; done")
    assert (home / "out").read_text() == "begun\n"
