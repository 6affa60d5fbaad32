"""Run a batch script again with false cluster commands, and record the calls of torchrun.

A script is judged by its torchrun calls on each node, not by its text. It runs as several jobs, at
a site with different host names for the fast network and at a site without them. It runs in an
empty folder for a few seconds. All its processes are ended afterwards.
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from course_lib.teach.trials.job import false_commands
from course_lib.teach.trials.job.false_commands import COMMANDS, NODES, NOTES, QUIET, SUFFIX

# Job ids, which a script may use to compute ports: small ones of a new cluster, neighbours, ids
# 6000 to 8192 and 10000 apart, and ids with which common formulas leave the range of ports.
NUMBERS = (8, 9, 500, 2500, 3500, 4500, 10500, 10509, 18692, 55536, 60000, 64999, 65535, 4000000)
JOBS = ((7, "i"), (7, ""), *((number, "i") for number in NUMBERS))
# Import the commands instead of running a file, so that Python compiles them only once.
START = (
    f"import sys; sys.path.insert(0, {str(Path(false_commands.__file__).parent)!r}); "
    "import false_commands; false_commands.main()"
)
AT_ONCE = 4
LONGEST_S = 20.0
SHOWN_LINES = 6
# Every script of the course begins with this line (lab/job/job.sbatch.j2).
AS_A_JOB = "set -eo pipefail\n"


@dataclass(frozen=True)
class Launch:
    """Call of torchrun; `error` says why torchrun would refuse it."""

    node: str
    by_srun: bool
    options: Mapping[str, Any]
    error: str

    def option(self, name: str) -> str:
        return str(self.options.get(name.replace("-", "_"), ""))

    @property
    def command(self) -> list[str]:
        """Return the command that each process runs."""
        return [self.option("training-script"), *self.options.get("training_script_args", ())]


@dataclass(frozen=True)
class Rehearsed:
    job: int
    suffix: str
    in_time: bool
    launches: tuple[Launch, ...]
    sruns: tuple[str, ...]
    # Host names that the script used and that do not exist.
    unknown: tuple[str, ...]
    # Last lines that the script printed.
    said: str


def rehearse(script: str, environment: Mapping[str, str], tasks_per_node: str) -> list[Rehearsed]:
    """Run the script once per job; return an empty list if the machine has no bash."""
    if not shutil.which("bash"):
        return []

    def one(job: int, suffix: str) -> Rehearsed:
        values = dict(environment) | _job_variables(job, tasks_per_node) | {SUFFIX: suffix}
        if "SUFFIX" in environment:
            values["SUFFIX"] = suffix
        with tempfile.TemporaryDirectory(prefix="course-", ignore_cleanup_errors=True) as folder:
            return _as_job(script, values, Path(folder), job, suffix)

    first = one(*JOBS[0])
    if not first.in_time:
        return [first]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [first, *pool.map(one, *zip(*JOBS[1:], strict=True))]


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
        tuple(_launch(**line) for line in launches),
        tuple(line["srun"] for line in lines if "srun" in line),
        tuple(line["unknown"] for line in lines if "unknown" in line),
        "\n".join(said).replace(f"{text}: ", ""),
    )  # fmt: skip


def _launch(node: str, by_srun: bool, words: list[str]) -> Launch:
    """Parse the arguments of a call with torchrun's own parser."""
    from torch.distributed.run import get_args_parser

    def refuse(message: str) -> NoReturn:
        raise ValueError(message)

    parser = get_args_parser()
    parser.set_defaults(nnodes="", nproc_per_node="", rdzv_backend="", rdzv_id="")
    parser.error = refuse  # type: ignore[method-assign]
    try:
        return Launch(node, by_srun, vars(parser.parse_args(words)), "")
    except ValueError as error:
        return Launch(node, by_srun, {}, str(error))


def _outside() -> dict[str, str]:
    """Return the environment without variables of a job that the notebook may run in."""
    own = ("SLURM", "PET_", "MASTER_", "SUFFIX")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


def _write_commands(notes: Path) -> None:
    notes.parent.mkdir()
    notes.touch()
    program = shlex.join([sys.executable, "-I", "-S", "-c", START])
    lines = {name: f'exec {program} {name} "$@"' for name in COMMANDS}
    for name, line in (lines | dict.fromkeys(QUIET, "exit 0")).items():
        file = notes.with_name(name)
        file.write_text(f"#!/bin/sh\n{line}\n")
        file.chmod(0o700)


def _job_variables(job: int, tasks_per_node: str) -> dict[str, str]:
    """Return the variables that Slurm sets for the first node's shell."""
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
            with contextlib.suppress(ProcessLookupError, PermissionError):  # no process is left
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
