"""A batch script is run once more, on a cluster of false commands: what does it make of them?

So a script is judged by what torchrun is called with on every node, and not by its words. It runs
as several jobs, at a site whose fast network has other names and at one that has none; in an empty
folder, for some seconds, with everything it started ended afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.teach.trials.job import false_commands
from course_lib.teach.trials.job.false_commands import COMMANDS, NODES, NOTES, QUIET, SUFFIX

JOBS = ((7, "i"), (8, "i"), (4000000, "i"), (7, ""))
"""A job's number, and the suffix of its site."""
LONGEST_S = 20.0
SHOWN_LINES = 6
AS_A_JOB = "set -eo pipefail\n"
"""With this every script of the course begins (lab/job/job.sbatch.j2)."""


@dataclass(frozen=True)
class Launch:
    """A call of torchrun."""

    node: str
    by_srun: bool
    options: Mapping[str, Any]
    error: str

    def option(self, name: str) -> str:
        return str(self.options.get(name.replace("-", "_"), ""))

    @property
    def command(self) -> list[str]:
        """What each process is to run."""
        return [self.option("program"), *self.options.get("arguments", ())]


@dataclass(frozen=True)
class Rehearsed:
    job: int
    suffix: str
    in_time: bool
    launches: tuple[Launch, ...]
    sruns: tuple[str, ...]
    unknown: tuple[str, ...]
    """Names that no host has."""
    said: str
    """The last lines that the script printed."""


def rehearse(script: str, environment: Mapping[str, str], tasks_per_node: str) -> list[Rehearsed]:
    """Empty where there is no bash."""
    found: list[Rehearsed] = []
    for job, suffix in JOBS if shutil.which("bash") else ():
        values = dict(environment) | _job_variables(job, tasks_per_node) | {SUFFIX: suffix}
        if "SUFFIX" in environment:
            values["SUFFIX"] = suffix
        with tempfile.TemporaryDirectory(prefix="course-", ignore_cleanup_errors=True) as folder:
            found.append(_as_job(script, values, Path(folder), job, suffix))
        if not found[-1].in_time:
            break
    return found


def _as_job(
    script: str, variables: Mapping[str, str], folder: Path, job: int, suffix: str
) -> Rehearsed:
    own = folder / "bin"
    notes, log, text = own / "notes", own / "log", own / "script"
    _write_commands(notes)
    text.write_text(AS_A_JOB + script, encoding="utf-8")
    values = _outside() | dict(variables) | {NOTES: str(notes)}
    values |= {"PATH": f"{own}:{os.environ['PATH']}"}
    values |= dict.fromkeys(("HOME", "TMPDIR", "COURSE_RUN_DIR", "SLURM_SUBMIT_DIR"), str(folder))
    in_time = _ends_in_time(["bash", str(text)], values, folder, log)
    lines = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
    said = log.read_text(encoding="utf-8", errors="replace").splitlines()[-SHOWN_LINES:]
    launches = sorted((line for line in lines if "node" in line), key=lambda line: line["node"])
    return Rehearsed(
        job, suffix, in_time,
        tuple(Launch(**line) for line in launches),
        tuple(line["srun"] for line in lines if "srun" in line),
        tuple(line["unknown"] for line in lines if "unknown" in line),
        "\n".join(said).replace(f"{text}: ", ""),
    )  # fmt: skip


def _outside() -> dict[str, str]:
    """A notebook may run in a job of its own, which is not this one."""
    own = ("SLURM", "PET_", "MASTER_", "SUFFIX")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


def _write_commands(notes: Path) -> None:
    notes.parent.mkdir()
    notes.touch()
    program = shlex.join([sys.executable, "-I", "-S", false_commands.__file__])
    for name in COMMANDS:
        _write_command(notes.with_name(name), f'exec {program} {name} "$@"')
    for name in QUIET:
        _write_command(notes.with_name(name), "exit 0")
    hosts = f"runpy.run_path({false_commands.__file__!r})['know_hosts']()"
    notes.with_name("sitecustomize.py").write_text(f"import runpy\n\n{hosts}\n")


def _write_command(file: Path, line: str) -> None:
    file.write_text(f"#!/bin/sh\n{line}\n")
    file.chmod(0o700)


def _job_variables(job: int, tasks_per_node: str) -> dict[str, str]:
    """What Slurm tells the first node's shell."""
    nodes, tasks = len(NODES), len(NODES) * int(tasks_per_node)
    return {
        "SLURM_JOB_ID": str(job), "SLURM_JOBID": str(job), "SLURM_JOB_NAME": "own",
        "SLURM_JOB_NUM_NODES": str(nodes), "SLURM_NNODES": str(nodes),
        "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_NODELIST": "node[1-2]",
        "SLURM_NTASKS": str(tasks), "SLURM_NPROCS": str(tasks),
        "SLURM_NTASKS_PER_NODE": tasks_per_node, "SLURM_TASKS_PER_NODE": f"{tasks_per_node}(x2)",
        "SLURM_GPUS_ON_NODE": "2", "SLURM_GPUS_PER_NODE": "2", "SLURM_JOB_GPUS": "0,1",
        "CUDA_VISIBLE_DEVICES": "0,1", "SLURM_CPUS_ON_NODE": "8", "SLURM_NODEID": "0",
        "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURMD_NODENAME": NODES[0],
        "HOSTNAME": NODES[0],
    }  # fmt: skip


def _ends_in_time(command: list[str], values: Mapping[str, str], folder: Path, log: Path) -> bool:
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=values, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(LONGEST_S)
            return True
        except subprocess.TimeoutExpired:
            return False
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing is left
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
