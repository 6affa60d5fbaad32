"""Run a batch script again with false cluster commands, and record the calls of torchrun.

A script is judged by its torchrun calls on each node, not by its text. It runs as several jobs, at
a site with different host names for the fast network and at a site without them. It runs in an
empty folder for a few seconds. All its processes are ended afterwards.
"""

from __future__ import annotations

import contextlib
import os
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

NODES = ("node1", "node2")
# Address prefixes of the nodes' plain names, and of their names with the suffix.
SLOW, FAST = "10.1.0.", "10.2.0."
# Commands that do nothing here: the real job has already run them, or they only wait.
QUIET = (
    "cp", "ln", "mv", "rm", "rmdir", "rsync", "chmod", "chown", "ssh", "scp", "curl", "wget", "pip",
    "conda", "git", "module", "ml", "sbatch", "scancel", "sleep", "pkill", "killall",
)  # fmt: skip
COMMANDS = ("getent", "hostname", "scontrol", "srun", "torchrun", "python", "python3")
# All of these commands. Calls of srun and torchrun add a line to $NOTES.
# Any node list means both nodes, as in every job here.
PROGRAM = r"""#!/usr/bin/env bash
node=${SLURMD_NODENAME:-node1}
note() {
    local line
    printf -v line '%s\x1f' "$@"
    printf '%s\x1e' "$line" >> "$NOTES"
}
address() {
    case $1 in
        node[12]) echo "10.1.0.${1#node}" ;;
        node[12]"$FAST_SUFFIX") echo "10.2.0.${1:4:1}" ;;
        localhost) echo 127.0.0.1 ;;
        *[!0-9.]*) echo "getent: no host is called '$1'" >&2; exit 2 ;;
        *) echo "$1" ;;
    esac
}
case ${0##*/} in
    getent)
        for name in "${@:2}"; do
            found=$(address "$name") || exit
            echo "$found $name"
        done ;;
    hostname)
        case $* in *-[iI]*|*address*) address "$node" ;; *) echo "$node" ;; esac ;;
    scontrol)
        case $* in
            'show host'*'['*) printf '%s\n' node1 node2 ;;
            'show host'*) tr , '\n' <<< "$3" ;;
            *) echo "JobId=$SLURM_JOB_ID BatchHost=node1 NodeList=node[1-2] NumNodes=2" ;;
        esac ;;
    srun)
        names=(node1 node2) each=$SLURM_NTASKS_PER_NODE count='' options=srun
        while [[ ${1-} == -* ]]; do
            option=$1 value='' options+=" $1"
            shift
            case $option in
                --) break ;;
                --*=*) value=${option#*=} option=${option%%=*} ;;
                -[nNwcoetDJ]?*) value=${option:2} option=${option:0:2} ;;
                -[nNwcoetDJ]|--ntasks*|--node*|--cpus*|--output|--error|--time|--chdir|--job-name)
                    value=$1 options+=" $1"
                    shift ;;
            esac
            case $option in
                -n|--ntasks) count=$value ;;
                -N|--nodes) names=("${names[@]:0:${value##*-}}") ;;
                -w|--nodelist) names=(${value//,/ }) ;;
                --ntasks-per-node) each=$value ;;
            esac
        done
        note srun "$options"
        many=${#names[@]} count=${count:-$((each * ${#names[@]}))} rank=0 started=()
        ((many <= count)) || many=$count
        for ((id = 0; id < many; id++)); do
            for ((own = 0; own < count / many + (id < count % many); own++)); do
                SLURM_PROCID=$rank SLURM_NODEID=$id SLURM_LOCALID=$own SLURM_STEP_ID=0 \
                    SLURMD_NODENAME=${names[id]} HOSTNAME=${names[id]} SLURM_NNODES=$many \
                    SLURM_NTASKS=$count SLURM_NPROCS=$count "$@" &
                started+=($!)
                ((++rank))
            done
        done
        code=0
        for one in "${started[@]}"; do wait "$one" || code=$?; done
        exit $code ;;
    torchrun) note launch "$node" "${SLURM_STEP_ID-}" "$@" ;;
    python*)
        case "$1 $2" in
            '-m torch.distributed.run'|'-m torch.distributed.launch')
                note launch "$node" "${SLURM_STEP_ID-}" "${@:3}" ;;
            *) exec "$PYTHON" "$@" ;;
        esac ;;
esac
"""
# Job ids and suffixes of the fast network's names. Ids differ by 1, by each number of thousands
# up to NEIGHBOURS and by powers of 2, so that too small a modulus gives two of them one port. The
# large ones show where a port leaves its range.
FIRST = 8
OTHERS = (9, 1008, 1032, 3008, 4104, 5008, 8200, 9008, 10007, 10008, 55999, 63999, 4000000)
JOBS = ((FIRST, "i"), (FIRST, ""), *((job, "i") for job in OTHERS))
# Jobs whose ids differ by at most this may run at the same time, even on one node.
NEIGHBOURS = 10_000
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
    # Last lines that the script printed.
    said: str


def rehearse(script: str, environment: Mapping[str, str]) -> list[Rehearsed]:
    """Run the script once per job; return an empty list if the machine has no bash."""
    if not shutil.which("bash"):
        return []

    def one(job: int, suffix: str) -> Rehearsed:
        values = _outside() | dict(environment) | _job_variables(job)
        values |= {"FAST_SUFFIX": suffix, "PATH": f"{commands}:{os.environ['PATH']}"}
        if "SUFFIX" in environment:
            values["SUFFIX"] = suffix
        with tempfile.TemporaryDirectory(prefix="course-", ignore_cleanup_errors=True) as folder:
            return _as_job(script, values, Path(folder), job, suffix)

    with tempfile.TemporaryDirectory(prefix="course-", ignore_cleanup_errors=True) as commands:
        # Written before any process starts, because a file that is open for writing cannot run.
        _write_commands(Path(commands))
        first = one(*JOBS[0])
        if not first.in_time:
            return [first]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return [first, *pool.map(one, *zip(*JOBS[1:], strict=True))]


def _write_commands(folder: Path) -> None:
    for names, program in ((COMMANDS, PROGRAM), (QUIET, "#!/bin/sh\n")):
        for name in names:
            (folder / name).write_text(program, encoding="utf-8")
            (folder / name).chmod(0o700)


def _as_job(
    script: str, variables: Mapping[str, str], folder: Path, job: int, suffix: str
) -> Rehearsed:
    own = folder / "own"
    notes, log, text = own / "notes", own / "log", own / "script"
    own.mkdir()
    notes.touch()
    text.write_text(AS_A_JOB + script, encoding="utf-8")
    values = dict(variables) | {"NOTES": str(notes), "PYTHON": sys.executable}
    values |= dict.fromkeys(("HOME", "TMPDIR", "COURSE_RUN_DIR", "SLURM_SUBMIT_DIR"), str(folder))
    in_time = _ends_in_time(["bash", str(text)], values, folder, log)
    said = log.read_text(encoding="utf-8", errors="replace").replace(f"{text}: ", "")
    found = notes.read_text(encoding="utf-8", errors="replace").split("\x1e")[:-1]
    lines = sorted(line.split("\x1f")[:-1] for line in found)  # launches by node
    return Rehearsed(
        job, suffix, in_time,
        tuple(_launch(*words) for kind, *words in lines if kind == "launch"),
        tuple(words[0] for kind, *words in lines if kind == "srun"),
        "\n".join(said.splitlines()[-SHOWN_LINES:]),
    )  # fmt: skip


def _launch(node: str, step: str, *words: str) -> Launch:
    """Parse the arguments of a call with torchrun's own parser."""
    from torch.distributed.run import get_args_parser

    def refuse(message: str) -> NoReturn:
        raise ValueError(message)

    parser = get_args_parser()
    parser.set_defaults(nnodes="", nproc_per_node="", rdzv_backend="", rdzv_id="")
    parser.error = refuse  # type: ignore[method-assign]
    try:
        return Launch(node, bool(step), vars(parser.parse_args(words)), "")
    except ValueError as error:
        return Launch(node, bool(step), {}, str(error))


def _outside() -> dict[str, str]:
    """Return the environment without variables of a job that the notebook may run in."""
    own = ("SLURM", "PET_", "MASTER_", "SUFFIX")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


def _job_variables(job: int) -> dict[str, str]:
    """Return the variables that Slurm sets for the first node's shell."""
    nodes = str(len(NODES))
    return {
        "SLURM_JOB_ID": str(job), "SLURM_JOBID": str(job), "SLURM_JOB_NAME": "own",
        "SLURM_JOB_NUM_NODES": nodes, "SLURM_NNODES": nodes,
        "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_NODELIST": "node[1-2]",
        "SLURM_NTASKS": nodes, "SLURM_NPROCS": nodes,
        "SLURM_NTASKS_PER_NODE": "1", "SLURM_TASKS_PER_NODE": "1(x2)",
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
