"""A cluster for the tests of the lab: the box, in a state folder of its own.

COURSE_TEST_CLUSTER=slurm in the environment runs the same tests on the real Slurm that SLURM_CONF
names, and COURSE_TEST_CLUSTER=flat runs them on a box in flat mode.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from course_lib.lab.clusters import box_bin
from course_lib.lab.job.recipes import shell
from course_lib.lab.lab import Lab

PATIENCE_S = 60
HOSTILE = """we ird'"é$(touch pwned)%j;&"""


@pytest.fixture(scope="session")
def box_home(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("box")
    mode = "flat" if os.environ.get("COURSE_TEST_CLUSTER") == "flat" else "auto"
    (home / "box.toml").write_text(f'device_pace = 1\nmode = "{mode}"\n')  # nothing here is timed
    return home


@pytest.fixture
def cluster(box_home, monkeypatch):
    """The name of the site that the test runs on, with its commands on the PATH.

    Only this test uses it; notebooks in this process have their own box.
    """
    if os.environ.get("COURSE_TEST_CLUSTER") == "slurm":
        return "slurm"
    monkeypatch.setenv("COURSE_BOX_HOME", str(box_home))
    monkeypatch.setenv("COURSE_BOX_WARM", "0")  # shell jobs gain nothing from a process with torch
    monkeypatch.setenv("PATH", f"{box_bin()}{os.pathsep}{os.environ['PATH']}")
    return "box"


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Show a watched run in one line, as in notebooks under test. A test may set 0 for other
    views."""
    monkeypatch.setenv("COURSE_PLAIN", "1")


@pytest.fixture
def lab(cluster, tmp_path):
    """An empty workspace; jobs that a test leaves behind are ended."""
    lab = Lab(tmp_path / "workspace", site=cluster, quiet=True)
    yield lab
    left = [record for record in lab.jobs.registry.all() if record.status is None]
    if left:
        lab.jobs.slurm.cancel([record.job_id for record in left])


@pytest.fixture
def done(lab):
    """A run that has completed."""
    run = lab.submit(shell.recipe("done", "echo one line"))
    assert run.wait(PATIENCE_S) == "COMPLETED"
    return run


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """`fake("sbatch", "echo 12")` puts a command of this name, which runs a line of shell, on the
    PATH."""
    folder = tmp_path / "fake-bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_CALLS", str(folder / "calls"))

    def make(name: str, line: str) -> Path:
        path = folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>"$FAKE_CALLS"\n{line}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return folder / "calls"

    return make


@pytest.fixture
def fake_slurm(fake):
    """Scheduler whose answers a test writes, for states that no cluster shows on demand:
    `fake_slurm(queue=[…], accounts=[…])` with the fields of the client's formats."""

    def make(queue=(), accounts=(), sbatch="cat >/dev/null; echo 7"):
        calls = fake("sbatch", sbatch)
        for name in ("scancel", "sinfo"):
            fake(name, ":")
        fake("scontrol", '[ "$1" = show ] && echo "ClusterName = fake" || :')
        fake("squeue", "".join(f"printf '%s\\n' '{row}'\n" for row in queue))
        fake("sacct", "".join(f"printf '%s\\n' '{row}'\n" for row in accounts))
        return calls

    return make


@pytest.fixture
def quiet_python():
    """A Python in a child process that sees this checkout."""
    return [sys.executable, "-W", "ignore"]
