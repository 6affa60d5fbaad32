"""The two clusters that are compared: a real Slurm of deploy/slurm, and the box.

Every lane has one of each to itself, so cases see an empty cluster and never each other.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO

from course_lib.box import bin_dir
from course_lib.lab.workspace import account

REPOSITORY = Path(__file__).resolve().parents[3]
DEPLOY = REPOSITORY / "deploy" / "slurm"
FIRST_JOB = 700001
KILL_WAIT_S = 5
WARM_S = 120.0

# The box with the numbers of deploy/slurm/configure.sh.
BOX_SETTINGS = f"""\
cluster = "course"
partitions = "course"
cpus_per_node = 8
memory_per_node_mib = 16000
default_time = "01:00:00"
max_time = "1-00:00:00"
kill_wait_s = {KILL_WAIT_S}
first_job_id = {FIRST_JOB}
requeue_delay_s = 5
device_pace = 1
"""
# Only root, who alone may start a real Slurm, can prepare a file there.
LOCKS = Path("/run")


def clean_environment(home: Path) -> dict[str, str]:
    """Return an environment that does not depend on the user who runs the tests."""
    user = account()
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
    }


class Cluster(ABC):
    name: str

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def environment(self, home: Path) -> dict[str, str]: ...

    @abstractmethod
    def paths(self) -> dict[str, str]:
        """Return the folders of this cluster, with the word that stands for each in a
        transcript."""


class RealSlurm(Cluster):
    name = "slurm"

    def __init__(self) -> None:
        self._lock: IO[str] | None = None
        self.instance = 0

    def start(self) -> None:
        if self._lock is None:
            self._choose_instance()
        done = self._deploy("start.sh")
        if done.returncode:
            raise RuntimeError(f"deploy/slurm/start.sh failed:\n{done.stdout}")

    def stop(self) -> None:
        self._deploy("stop.sh")

    def _choose_instance(self) -> None:
        """Choose a number that no other test run holds; never 0, which belongs to the user."""
        for instance in range(1, 100):
            lock = (LOCKS / f"course-slurm-{instance}.lock").open("w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                continue
            self._lock, self.instance = lock, instance
            self._deploy("stop.sh")
            return
        raise RuntimeError("99 real Slurms run on this machine already")

    def _deploy(self, script: str) -> subprocess.CompletedProcess[str]:
        settings = {
            "COURSE_SLURM_INSTANCE": str(self.instance),
            "COURSE_SLURM_FIRST_JOB": str(FIRST_JOB),
            "COURSE_SLURM_KILL_WAIT": str(KILL_WAIT_S),
            "PATH": f"{bin_dir()}:{os.environ['PATH']}",  # as in a shell of the course
        }
        return subprocess.run(
            ["bash", str(DEPLOY / script)],
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )

    @property
    def state(self) -> str:
        return f"/run/course-slurm-{self.instance}"

    def environment(self, home: Path) -> dict[str, str]:
        return {**clean_environment(home), "SLURM_CONF": f"{self.state}/etc/slurm.conf"}

    def paths(self) -> dict[str, str]:
        return {self.state: "<state>"}


class Box(Cluster):
    name = "box"

    def __init__(self, mode: str = "auto", warm: bool = False) -> None:
        self.mode = mode
        self.warm = warm
        self.home = Path()

    def start(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="course-box-"))
        settings = BOX_SETTINGS + f'mode = "{self.mode}"\n'
        (self.home / "box.toml").write_text(settings, encoding="utf-8")
        subprocess.run(
            [f"{bin_dir()}/sinfo"], env=self.environment(self.home), check=True, capture_output=True
        )
        if self.warm:
            self._warm_up()

    def _warm_up(self) -> None:
        """Run a first job. It starts the process from which the following jobs are forked."""
        job = [f"{bin_dir()}/sbatch", "--wait", "--output=/dev/null", "--wrap=true"]
        subprocess.run(job, env=self.environment(self.home), check=True, capture_output=True)
        deadline = time.monotonic() + WARM_S
        while not any(self.home.glob("warm-*.sock")) and time.monotonic() < deadline:
            time.sleep(0.1)

    def stop(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)

    def environment(self, home: Path) -> dict[str, str]:
        clean = clean_environment(home)
        clean["PATH"] = f"{bin_dir()}:{clean['PATH']}"
        return {**clean, "COURSE_BOX_HOME": str(self.home), "COURSE_BOX_WARM": str(int(self.warm))}

    def paths(self) -> dict[str, str]:
        return {str(self.home): "<state>", f"{REPOSITORY}/course_lib/box/bin:": ""}
