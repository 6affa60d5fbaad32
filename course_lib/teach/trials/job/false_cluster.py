"""Run a batch script again with false cluster commands, and record the calls of torchrun.

A script is judged by its torchrun calls on each node, not by its text. It runs as several jobs, at
a site with different host names for the fast network and at a site without them. It runs in an
empty folder for a few seconds. All its processes are ended afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
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

# Job ids and suffixes of the fast network's names.
JOBS = ((7, "i"), (7, ""), (8, "i"), (4000000, "i"))
# Jobs whose ids differ by at most this may run at the same time, even on one node.
NEIGHBOURS = 10_000
# Job ids for which the port is computed. Each number up to NEIGHBOURS is the difference of two of
# the ids up to NEIGHBOURS. The others show where a port leaves its range.
_HUNDREDS, _THOUSANDS = range(100, NEIGHBOURS + 1, 100), range(NEIGHBOURS + 1000, 66_000, 1000)
IDS = (*range(1, 100), *_HUNDREDS, *(number + less for number in _THOUSANDS for less in (-1, 0)))
MEETING = re.compile(r"^meeting at (\S*):(\d*)$", re.MULTILINE)
# Import the commands instead of running a file, so that Python compiles them only once.
START = (
    f"import sys; sys.path.insert(0, {str(Path(false_commands.__file__).parent)!r}); "
    "import false_commands; false_commands.main()"
)
# Collects the commands in which the job id takes part, until the script announces its port. Repeats
# them for each job id, which takes thousands of times less than to run the script again.
FOR_EACH_ID = r"""
names='SLURM_JOB_?ID'
look() {
    if [[ $1 == *'meeting at'* ]]; then
        trap - DEBUG
        for id in $IDS; do
            SLURM_JOB_ID=$id SLURM_JOBID=$id
            echo "job $id"
            eval "{ $chain$1; }"  # an error ends the whole group
        done
        exit
    elif [[ $1 =~ (^|[^A-Za-z0-9_])($names)([^A-Za-z0-9_]|$) ]]; then
        chain+=$1$'\n'
        for name in ${1//[^A-Za-z0-9_]/ }; do
            if [[ $name =~ ^[A-Za-z_] ]]; then names+="|$name"; fi
        done
    fi
}
trap 'look "$BASH_COMMAND"' DEBUG
"""
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


def ports(script: str, environment: Mapping[str, str]) -> list[tuple[int, str, str]]:
    """Return the port that the script announces for each job id, and what it printed."""
    values = dict(environment) | _job_variables(7, "1") | {"SUFFIX": ""}
    values["IDS"] = " ".join(map(str, IDS))
    with tempfile.TemporaryDirectory(prefix="course-", ignore_cleanup_errors=True) as folder:
        in_time, log, _notes = _ran(FOR_EACH_ID + script, values, Path(folder))
    said = re.split(r"^job (\d+)$", log, flags=re.MULTILINE)[1 : None if in_time else -2]
    met = [MEETING.search(lines) for lines in said[1::2]]
    return [
        (int(job), found[2] if found else "", lines.strip())
        for job, found, lines in zip(said[::2], met, said[1::2], strict=True)
    ]


def _as_job(
    script: str, variables: Mapping[str, str], folder: Path, job: int, suffix: str
) -> Rehearsed:
    in_time, log, lines = _ran(script, variables, folder)
    launches = sorted((line for line in lines if "node" in line), key=lambda line: line["node"])
    return Rehearsed(
        job, suffix, in_time,
        tuple(_launch(**line) for line in launches),
        tuple(line["srun"] for line in lines if "srun" in line),
        tuple(line["unknown"] for line in lines if "unknown" in line),
        "\n".join(log.splitlines()[-SHOWN_LINES:]),
    )  # fmt: skip


def _ran(
    script: str, variables: Mapping[str, str], folder: Path
) -> tuple[bool, str, list[dict[str, Any]]]:
    """Run a script; return whether it ended in time, what it printed, and the commands' notes."""
    own = folder / "bin"
    notes, log, text = own / "notes", own / "log", own / "script"
    _write_commands(notes)
    text.write_text(AS_A_JOB + script, encoding="utf-8")
    values = _outside() | dict(variables) | {NOTES: str(notes)}
    values |= {"PATH": f"{own}:{os.environ['PATH']}"}
    values |= dict.fromkeys(("HOME", "TMPDIR", "COURSE_RUN_DIR", "SLURM_SUBMIT_DIR"), str(folder))
    in_time = _ends_in_time(["bash", str(text)], values, folder, log)
    lines = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
    said = log.read_text(encoding="utf-8", errors="replace").replace(f"{text}: ", "")
    return in_time, said, lines


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
