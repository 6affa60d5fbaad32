"""The client: starts Slurm's commands and reads their text.

Formats are named and fields are parted by a character that no job name holds; `--json` is not
used, because its layout changes with every release.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.lab.errors import SlurmError
from course_lib.lab.queue.states import Status, normal
from course_lib.read.slurm_output.states_and_times import seconds

UNIT = "\x1f"
TIMEOUT_S = 60
QUEUE_FIELDS = "%i %T %r %M %l %D %N %P %u %k %j"
ACCOUNTING_FIELDS = "JobIDRaw,State,ExitCode,ElapsedRaw,NodeList,Reason,JobName"
DROPPED = re.compile(
    r"(SLURM|SLURMD|SRUN|SQUEUE|SINFO|SACCT|SCANCEL|SALLOC|PMI|PMIX|JPY|PYDEVD|TORCHELASTIC)_\w*"
    r"|SBATCH_\w+|MPLBACKEND|PYTHONSTARTUP|MASTER_(ADDR|PORT)|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)"
)
HABITS = re.compile(r"(SQUEUE|SINFO|SACCT|SCANCEL|SCONTROL)_")
"""Variables by which a user changes what the commands print or ask."""
KEPT = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT"})
DEFAULTS_OF_THE_USER = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos",
    "SBATCH_RESERVATION": "reservation",
}
HINTS = (
    ("invalid account", "ask which account to use with `sacctmgr show associations user=$USER`, "
     "then write it into site.toml"),
    ("invalid partition", "`sinfo` lists the partitions; write one into site.toml"),
    ("invalid qos", "write a QOS of yours into site.toml, or leave it out"),
    ("invalid generic resource", "this cluster asks for devices in another way: set `ask` in "
     "site.toml to gres, gpus-per-task or none"),
    ("configuration is not available", "no node has so many devices or cores; `sinfo -N -o '%N %c "
     "%G'` shows what they have"),
    ("node count specification invalid", "the partition has fewer nodes; `sinfo` shows how many"),
    ("time limit", "`sinfo -o '%P %l'` shows the longest time of each partition"),
    ("unable to contact slurm controller", "the cluster does not answer at the moment; try again"),
    ("socket timed out", "the cluster is slow to answer; nothing is lost, call again"),
    ("could not establish a configuration", "Slurm is installed here but not set up: without a "
     "cluster, remove site.toml and the box is used"),
    ("permission denied", "you may not do this on this cluster; ask its administrators"),
)  # fmt: skip
CANNOT_START = {
    errno.EAGAIN: "you have as many processes as you may: end some (`ps x` lists them), or raise "
    "`ulimit -u`",
    errno.ENOMEM: "the memory of this machine is used up: end what is not needed",
    errno.EMFILE: "this process has too many files open: restart the kernel of the notebook",
}


@dataclass(frozen=True)
class QueueRow:
    """One job of `squeue`; `comment` holds the mark by which the lab knows its own."""

    job_id: int
    status: Status
    time_limit: str
    node_count: int
    partition: str
    user: str
    comment: str
    name: str


@dataclass(frozen=True)
class Slurm:
    """The commands, as found on the PATH of `environment` (that of this process if none)."""

    environment: Mapping[str, str] | None = None

    @property
    def here(self) -> Mapping[str, str]:
        return self.environment or os.environ

    def call(
        self, *command: str, stdin: str = "", environment: Mapping[str, str] | None = None,
        folder: Path | None = None, keep_open: Sequence[int] = (),
    ) -> str:  # fmt: skip
        """Standard output; a command that fails becomes a SlurmError in its own words."""
        here = environment or self.here
        variables = {key: value for key, value in here.items() if not HABITS.match(key)}
        try:
            done = subprocess.run(
                command, input=stdin.encode("utf-8", "surrogateescape"), capture_output=True,
                env=variables, timeout=TIMEOUT_S, pass_fds=keep_open,
                cwd=folder, check=False,
            )  # fmt: skip
        except FileNotFoundError as error:
            hint = "Slurm's commands are not on the PATH; `course doctor` tells more"
            raise SlurmError(command, 127, "command not found", hint) from error
        except OSError as error:
            hint = CANNOT_START.get(error.errno or 0, "")
            raise SlurmError(command, 126, f"cannot be started: {error.strerror}", hint) from error
        except subprocess.TimeoutExpired as error:
            raise SlurmError(
                command, None, f"no answer within {TIMEOUT_S} s", "try again"
            ) from error
        said = done.stderr.decode("utf-8", "replace")
        if done.returncode != 0:
            raise SlurmError(command, done.returncode, said, hint_for(said))
        return done.stdout.decode("utf-8", "replace")

    def submit(
        self, text: str, options: Sequence[str], environment: Mapping[str, str],
        folder: Path, keep_open: Sequence[int] = (),
    ) -> int:  # fmt: skip
        """The job id. The text goes in by standard input: it is submitted as it was shown."""
        command = ("sbatch", "--parsable", *options)
        said = self.call(
            *command, stdin=text, environment=environment, folder=folder, keep_open=keep_open
        )
        for line in reversed(said.splitlines()):
            if found := re.fullmatch(r"\s*(\d+)(;\S*)?\s*", line):
                return int(found[1])
        raise SlurmError(command, 0, said, "sbatch named no job id; see what it said above")

    def release(self, job_id: int) -> None:
        self.call("scontrol", "release", str(job_id))

    def cancel(self, job_ids: Iterable[int]) -> None:
        self.call("scancel", *map(str, job_ids))

    def queue(self) -> list[QueueRow]:
        """All jobs of this user, those that ended a moment ago included."""
        text = self.call("squeue", "--me", "--noheader", "--states=all", "-o", queue_format())
        return [row for line in text.splitlines() if (row := parse_queue_line(line))]

    def accounting(self, job_ids: Sequence[int]) -> dict[int, tuple[str, Status]]:
        """Job id → name and status; empty where the cluster keeps no accounts."""
        command = ("sacct", "-X", "-n", "-P", f"--delimiter={UNIT}", "-S", "2020-01-01")
        try:
            text = self.call(*command, "-j", ",".join(map(str, job_ids)), "-o", ACCOUNTING_FIELDS)
        except SlurmError:
            return {}
        rows = (parse_accounting_line(line) for line in text.splitlines())
        return {row[0]: row[1:] for row in rows if row}

    def cluster(self) -> str:
        """Names the cluster, so that its job 12 is not taken for the job 12 of another."""
        text = self.call("scontrol", "show", "config")
        found = re.findall(r"^(?:ClusterName|StateSaveLocation)\s*=\s*(\S+)", text, re.MULTILINE)
        return "@".join(found) or "unnamed"


def queue_format() -> str:
    return UNIT.join(QUEUE_FIELDS.split())


def parse_queue_line(line: str) -> QueueRow | None:
    """None for what is no job: the rest of a job name with a line break in it."""
    parts = line.split(UNIT, 10)
    if len(parts) != 11 or not (number := re.match(r"\d+", parts[0])):
        return None
    state, reason, elapsed, limit, count, nodes, partition, user, comment, name = parts[1:]
    empty = ("", "(null)", "n/a", "N/A")
    return QueueRow(
        job_id=int(number[0]),
        status=Status(
            state=normal(state), reason=reason, elapsed_s=seconds(elapsed),
            nodes="" if nodes in empty else nodes, source="squeue",
        ),
        time_limit=limit,
        node_count=int(count) if count.isdecimal() else 0,
        partition=partition,
        user=user,
        comment="" if comment in empty else comment,
        name=name,
    )  # fmt: skip


def parse_accounting_line(line: str) -> tuple[int, str, Status] | None:
    parts = line.split(UNIT, 6)
    if len(parts) != 7 or not parts[0].isdecimal():
        return None
    number, state, code, elapsed, nodes, reason, name = parts
    exit_code, _, signal = code.partition(":")
    status = Status(
        state=normal(state),
        reason="" if reason == "None" else reason,
        exit_code=int(exit_code) or (128 + int(signal or 0) if signal not in ("", "0") else 0)
        if exit_code.isdecimal() else None,
        elapsed_s=float(elapsed) if elapsed.isdecimal() else None,
        nodes="" if nodes == "None assigned" else nodes,
        source="sacct",
    )  # fmt: skip
    return int(number), name, status


def hint_for(said: str) -> str:
    low = said.lower()
    return next((hint for words, hint in HINTS if words in low), "")


def job_environment(
    environment: Mapping[str, str], decided: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What a job inherits from a notebook.

    A notebook that itself runs in a job carries that job's SLURM_* variables, which would bend
    the new one; SBATCH_* variables would silently overrule the script that was shown, so only
    those stay whose directive the script leaves open.
    """
    table = {key: value for key, value in environment.items() if not DROPPED.fullmatch(key)}
    table |= {key: value for key, value in environment.items() if key in KEPT}
    for variable, name in DEFAULTS_OF_THE_USER.items():
        if variable in environment and not (decided or {}).get(name):
            table[variable] = environment[variable]
    return table
