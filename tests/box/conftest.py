"""Box for one test: its state folder and its commands. The test leaves nothing behind."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course_lib import box as box_room
from course_lib.box.nodes import host_names, probe
from course_lib.box.queue import state, store
from course_lib.box.scheduling import first_come
from course_lib.box.settings import Settings

ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
# For what takes a second on a quiet machine; a test that fails waits so long, others do not.
PATIENCE_S = float(os.environ.get("BOX_TEST_PATIENCE_S", "120"))

SETTINGS = """\
kill_wait_s = 2
nodes = {nodes}
mode = "{mode}"
cpus_per_node = 8
device_pace = 1
"""


def until(what: str, condition, patience_s: float = PATIENCE_S):
    """Wait until a condition on other processes is true, and return its value."""
    deadline = time.monotonic() + patience_s
    while not (result := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"did not happen within {patience_s:.0f} s: {what}")
        time.sleep(0.05)
    return result


class Box:
    def __init__(self, folder: Path, mode: str = "auto", nodes: int = 2, warm: bool = False):
        self.home = folder / "home"
        self.work = folder / "work"
        self.home.mkdir(mode=0o700)
        self.work.mkdir()
        (self.home / "box.toml").write_text(SETTINGS.format(nodes=nodes, mode=mode))
        self.mode = mode
        dropped = ("SLURM_", "SBATCH_", "COURSE_BOX_", "OMP_", "MKL_", "PYTEST_", "PYTHON")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(dropped)}
        path = f"{box_room.bin_dir()}:{Path(sys.executable).parent}:{kept['PATH']}"
        self.environment = {
            **kept,
            "PATH": path,
            "COURSE_BOX_HOME": str(self.home),
            "COURSE_BOX_WARM": "1" if warm else "0",
            "COURSE_BOX_WARM_IDLE_S": "120",
        }
        if warm:
            del self.environment["COURSE_BOX_WARM"]

    def run(self, *command: str, check: bool = True, **more) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=self.work,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            **more,
        )
        if check and done.returncode:
            pytest.fail(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def submit(self, script: str, *options: str) -> str:
        """Submit a bash script, given without its first line, and return the job number."""
        text = f"#!/bin/bash\n{script}\n"
        done = self.run("sbatch", "--parsable", "--output=out-%j", *options, input=text)
        return done.stdout.strip().partition(";")[0]

    def output(self, job: str) -> str:
        path = self.work / f"out-{job}"
        return path.read_text(errors="replace") if path.exists() else ""

    def flat_address(self, number: int) -> str:
        """Return the address of the node with this number, in flat mode."""
        return str(ipaddress.IPv4Address(host_names.network(str(self.home)) + number))

    @staticmethod
    def until(what: str, condition):
        return until(what, condition)

    def until_warm(self) -> None:
        until("the warm process listens", lambda: list(self.home.glob("warm-*.sock")))

    def until_exists(self, name: str) -> None:
        """Wait for a file that a job makes, and delete it."""
        path = self.work / name
        until(f"{name} is made", path.exists)
        path.unlink()

    def until_said(self, job: str, word: str) -> None:
        until(f"{word!r} in the output of {job}", lambda: word in self.output(job))

    def state(self, job: str) -> str:
        lines = self.run("sacct", "-n", "-P", "-X", "-j", job, "-o", "State").stdout.split()
        return lines[0] if lines else ""

    def _state_files(self) -> list[tuple[str, int]]:
        found = self.home.glob("state.sqlite*")
        return sorted((file.name, file.stat().st_mtime_ns) for file in found if file.exists())

    def wait(self, job: str) -> str:
        """Return the final state of a job, after the queue no longer shows it as running or
        completing."""

        asked = None

        def over() -> str:
            """Ask the commands when the state file has changed, and once a second, because only a
            command notices a killed supervisor."""
            nonlocal asked
            if asked == (now := (self._state_files(), int(time.monotonic()))):
                return ""
            asked = now
            queued = self.run("squeue", "-h", "-j", job, "-o", "%T", check=False).stdout.strip()
            state = self.state(job)
            return state if state in ENDED and queued not in ("RUNNING", "COMPLETING") else ""

        return until(f"end of job {job}: {self.output(job)}", over)

    def result(self, script: str, *options: str) -> str:
        """Run a job that must succeed, and return its output."""
        job = self.submit(script, *options)
        state = self.wait(job)
        log = self.home / "jobs" / job / "supervisor.log"
        assert state == "COMPLETED", f"{state}\n{self.output(job)}\n{log.read_text()}"
        return self.output(job)

    def processes(self) -> dict[int, str]:
        """Return all processes of this box, found by environment and by name."""
        mark = f"COURSE_BOX_HOME={self.home}\0".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    environment = (entry / "environ").read_bytes()
                    name = (entry / "comm").read_text().strip()
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                except OSError:
                    continue
                if mark in environment + b"\0" and state not in "ZX":
                    found[int(entry.name)] = name
        return found

    def job_processes(self) -> dict[int, str]:
        """Return processes of jobs, but not the warm process, the dispatcher or a command."""
        others = set()
        for pid in self.processes():
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b" dispatcher" in line.replace(b"\0", b" ") or b"command_entry.py" in line:
                others.add(pid)
        return {
            pid: name
            for pid, name in self.processes().items()
            if pid not in others and name != "box-warm"
        }

    def close(self) -> None:
        self.run("scancel", "-u", str(os.getuid()), check=False)
        self.run("scancel", "--me", check=False)
        deadline = time.monotonic() + 15
        while self.processes() and time.monotonic() < deadline:
            for pid in self.processes():
                try:
                    os.kill(pid, 9)
                except OSError:
                    continue
            time.sleep(0.05)


@pytest.fixture
def make_box(tmp_path_factory):
    """`make_box(mode=…, nodes=…, warm=…)`: a new box, ended with the test."""
    made = []

    def make(**options) -> Box:
        box = Box(tmp_path_factory.mktemp("box"), **options)
        made.append(box)
        return box

    yield make
    for box in made:
        box.close()


@pytest.fixture(scope="module")
def make_module_box(tmp_path_factory):
    """`make_box` for a whole module."""
    made = []

    def make(**options) -> Box:
        made.append(Box(tmp_path_factory.mktemp("box"), **options))
        return made[-1]

    yield make
    for box in made:
        box.close()


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    """Box for all tests of a module that do not change it."""
    box = Box(tmp_path_factory.mktemp("box"))
    yield box
    box.close()


@pytest.fixture(scope="module", params=["auto", "flat"])
def any_box(request, tmp_path_factory):
    """The box as the machine allows it, and again in flat mode."""
    box = Box(tmp_path_factory.mktemp("box"), mode=request.param)
    yield box
    box.close()


@pytest.fixture(scope="session")
def namespaces():
    """Skip if the machine gives ordinary users no namespaces, because the box is then flat."""
    if sys.platform != "linux":
        pytest.skip("namespaces are Linux")
    if reason := probe.refusal():
        pytest.skip(reason)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """State folder without a supervisor, for tests of the record alone."""
    monkeypatch.setenv("COURSE_BOX_HOME", str(tmp_path))
    monkeypatch.delenv("COURSE_BOX_JOB", raising=False)
    return tmp_path


class Queue:
    """Submit into the state file and allot nodes, as sbatch does, but start nothing."""

    def __init__(self) -> None:
        self.box = Settings(cpus_per_node=8)

    def submit(self, **fields) -> int:
        return state.submit({"time_limit_min": 60, "name": "job", **fields})

    def whole(self, **fields) -> int:
        """A job that needs both nodes for itself."""
        return self.submit(exclusive=1, nodes_min=2, nodes_given=1, **fields)

    def run_pass(self) -> list[int]:
        with store.transaction() as db:
            return first_come.allot_nodes(db, self.box)

    def reason(self, job_id: int) -> str:
        return self.job(job_id).reason

    def job(self, job_id: int):
        found = state.read_job(job_id)
        assert found is not None
        return found

    def finish(self, job_id: int, ended: str = "COMPLETED", code: int = 0) -> None:
        assert state.claim(job_id, 1, 1) is not None
        state.finish(job_id, ended, code)


@pytest.fixture
def queue(home):
    return Queue()
