"""The Slurm client: starts Slurm's commands and reads their text."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.lab.errors import SlurmError
from course_lib.words import N_, _

UNIT = "\x1f"
TIMEOUT_S = 60
QUEUE_FORMAT = UNIT.join(["%i", "%T", "%r", "%M", "%N", "%k", "%j"])
ACCOUNTING_FIELDS = "JobIDRaw,State,ExitCode,ElapsedRaw,NodeList,Reason,JobName"
DROPPED = re.compile(
    r"(SLURM|SLURMD|SRUN|SQUEUE|SINFO|SACCT|SCANCEL|SALLOC|PMI|PMIX|JPY|PYDEVD|TORCHELASTIC)_\w*"
    r"|SBATCH_\w+|MPLBACKEND|PYTHONSTARTUP|MASTER_(ADDR|PORT)|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)"
)
# Variables with which a user changes what the commands print or ask.
HABITS = re.compile(r"(SQUEUE|SINFO|SACCT|SCANCEL|SCONTROL)_")
KEPT = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT"})
DEFAULTS_OF_THE_USER = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos",
    "SBATCH_RESERVATION": "reservation",
}
HINTS = (
    (
        "invalid account",
        N_("`sacctmgr show associations user=$USER` lists your accounts; write one into site.toml"),
    ),
    ("invalid partition", N_("`sinfo` lists the partitions; write one into site.toml")),
    ("invalid qos", N_("write a QOS that you may use into site.toml, or remove `qos`")),
    (
        "invalid generic resource",
        N_(
            "this cluster uses a different option for devices; set `ask` in "
            "site.toml to gres, gpus-per-task or none"
        ),
    ),
    (
        "configuration is not available",
        N_(
            "too few working nodes have this many devices or cores; `sinfo -N -o "
            "'%N %t %c %G'` shows the nodes"
        ),
    ),
    (
        "node count specification invalid",
        N_("the partition has fewer nodes; `sinfo` shows how many"),
    ),
    (
        "unable to contact slurm controller",
        N_("the cluster does not answer at the moment; try again"),
    ),
)


@dataclass(frozen=True)
class JobRow:
    """One job of `squeue` or `sacct`. `comment`, which only squeue prints, holds the mark by which
    the lab recognizes its own jobs."""

    job_id: int
    name: str
    status: Status
    comment: str = ""


@dataclass(frozen=True)
class Slurm:
    """Slurm's commands, found on the PATH of `environment` or else of this process."""

    environment: Mapping[str, str] | None = None

    @property
    def here(self) -> Mapping[str, str]:
        return self.environment or os.environ

    def call(
        self, *command: str, stdin: str = "", environment: Mapping[str, str] | None = None,
        folder: Path | None = None, keep_open: Sequence[int] = (),
    ) -> str:  # fmt: skip
        """Return standard output. Raise a SlurmError with the command's own message if it fails."""
        here = environment or self.here
        variables = {key: value for key, value in here.items() if not HABITS.match(key)}
        try:
            done = subprocess.run(
                command, input=stdin.encode("utf-8", "surrogateescape"), capture_output=True,
                env=variables, timeout=TIMEOUT_S, pass_fds=keep_open,
                cwd=folder, check=False,
            )  # fmt: skip
        except FileNotFoundError as error:
            hint = _("Slurm's commands are not on the PATH; run `course doctor`")
            raise SlurmError(command, 127, _("command not found"), hint) from error
        except OSError as error:
            said = _("cannot be started: {strerror}", strerror=error.strerror)
            raise SlurmError(command, 126, said) from error
        except subprocess.TimeoutExpired as error:
            raise SlurmError(
                command,
                None,
                _("no answer within {timeout_s} s", timeout_s=TIMEOUT_S),
                _("try again"),
            ) from error
        said = done.stderr.decode("utf-8", "replace")
        if done.returncode != 0:
            raise SlurmError(command, done.returncode, said, hint_for(said))
        return done.stdout.decode("utf-8", "replace")

    def submit(
        self, text: str, options: Sequence[str], environment: Mapping[str, str],
        folder: Path, keep_open: Sequence[int] = (),
    ) -> int:  # fmt: skip
        """Submit a script and return the job id. The text goes in by standard input, unchanged."""
        command = ("sbatch", "--parsable", *options)
        said = self.call(
            *command, stdin=text, environment=environment, folder=folder, keep_open=keep_open
        )
        for line in reversed(said.splitlines()):
            if found := re.fullmatch(r"\s*(\d+)(;\S*)?\s*", line):
                return int(found[1])
        raise SlurmError(command, 0, said, _("sbatch printed no job id; read its output above"))

    def test(self, text: str, environment: Mapping[str, str], folder: Path | None = None) -> None:
        """Raise a SlurmError if the cluster would never run this script. Slurm would accept such a
        job on hold and never start it."""
        self.call("sbatch", "--test-only", stdin=text, environment=environment, folder=folder)

    def release(self, job_id: int) -> None:
        self.call("scontrol", "release", str(job_id))

    def cancel(self, job_ids: Iterable[int]) -> None:
        self.call("scancel", *map(str, job_ids))

    def queue(self) -> list[JobRow]:
        """Return all jobs of this user, including jobs that ended a moment ago."""
        text = self.call("squeue", "--me", "--noheader", "--states=all", "-o", QUEUE_FORMAT)
        return [row for line in text.splitlines() if (row := parse_queue_line(line))]

    def accounting(self, job_ids: Sequence[int]) -> dict[int, JobRow]:
        """Return the ended jobs by their ids; empty if the cluster keeps no accounts."""
        command = ("sacct", "-X", "-n", "-P", f"--delimiter={UNIT}", "-S", "2020-01-01")
        try:
            text = self.call(*command, "-j", ",".join(map(str, job_ids)), "-o", ACCOUNTING_FIELDS)
        except SlurmError:
            return {}
        rows = (parse_accounting_line(line) for line in text.splitlines())
        return {row.job_id: row for row in rows if row and row.status.state != UNKNOWN}

    def cluster(self) -> str:
        """Return a name of the cluster, so that job ids of different clusters are not confused."""
        text = self.call("scontrol", "show", "config")
        found = re.findall(r"^(?:ClusterName|StateSaveLocation)\s*=\s*(\S+)", text, re.MULTILINE)
        return "@".join(found) or "unnamed"


def parse_queue_line(line: str) -> JobRow | None:
    """Read a line of squeue. Return None for a continuation of a job name with a line break."""
    parts = line.split(UNIT, 6)
    if len(parts) != 7 or not (number := re.match(r"\d+", parts[0])):
        return None
    state, reason, elapsed, nodes, comment, name = parts[1:]
    empty = ("", "(null)", "n/a", "N/A")
    return JobRow(
        job_id=int(number[0]),
        name=name,
        status=Status(
            state=normal(state), reason=reason, elapsed_s=seconds(elapsed),
            nodes="" if nodes in empty else nodes, source="squeue",
        ),
        comment="" if comment in empty else comment,
    )  # fmt: skip


def parse_accounting_line(line: str) -> JobRow | None:
    parts = line.split(UNIT, 6)
    if len(parts) != 7 or not parts[0].isdecimal():
        return None
    number, state, code, elapsed, nodes, reason, name = parts
    exit_code, _unused, signal = code.partition(":")
    status = Status(
        state=normal(state),
        reason="" if reason == "None" else reason,
        exit_code=int(exit_code) or (128 + int(signal or 0) if signal not in ("", "0") else 0)
        if exit_code.isdecimal() else None,
        elapsed_s=float(elapsed) if elapsed.isdecimal() else None,
        nodes="" if nodes == "None assigned" else nodes,
        source="sacct",
    )  # fmt: skip
    return JobRow(int(number), name, status)


_TIME = re.compile(r"(?:(\d{1,6})-)?(\d{1,6}):(\d{1,2})(?::(\d{1,2}))?(?:\.\d+)?")


def seconds(text: str) -> int | None:
    """Return the seconds of `1-02:03:04`, `02:03:04` or `03:04`; None for UNLIMITED, N/A etc."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    days, first, second, third = (int(part or 0) for part in match.groups())
    if match[4] or match[1]:
        return (days * 24 + first) * 3600 + second * 60 + third
    return first * 60 + second


# A part of a host list: a name without commas, also with `[1-3,7]` in it.
_HOSTS = re.compile(r"([^,\[]*)(?:\[([^\]]*)\])?([^,\[]*)")
_RANGE = re.compile(r"(\d{1,6})-(\d{1,6})")


def expand_hosts(text: str) -> list[str]:
    """Return the names of a host list such as `node[1-3,7],gpu-[08-10]` in order."""
    names = []
    for found in _HOSTS.finditer(text):
        for number in (found[2] or "").split(","):
            limits = _RANGE.fullmatch(number)
            first, last = limits.groups() if limits else (number, number)
            numbers = range(int(first), int(last) + 1) if limits else (first,)
            names += [f"{found[1]}{str(one).zfill(len(first))}{found[3]}" for one in numbers]
    return [name for name in names if name]


def hint_for(said: str) -> str:
    low = said.lower()
    return next((hint for words, hint in HINTS if words in low), "")


def job_environment(
    environment: Mapping[str, str], decided: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the variables that a job inherits from a notebook.

    A notebook that runs in a job has SLURM_* variables of that job, which would change the new job.
    SBATCH_* variables would silently override the submitted script. A SBATCH_* variable is kept
    only if the script does not set its directive.
    """
    table = {key: value for key, value in environment.items() if not DROPPED.fullmatch(key)}
    table |= {key: value for key, value in environment.items() if key in KEPT}
    for variable, name in DEFAULTS_OF_THE_USER.items():
        if variable in environment and not (decided or {}).get(name):
            table[variable] = environment[variable]
    return table


UNKNOWN = "UNKNOWN"
WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"})
ENDED_WELL = frozenset({"COMPLETED"})
ENDED_FROM_OUTSIDE = frozenset({"BOOT_FAIL", "CANCELLED", "NODE_FAIL", "PREEMPTED", "REVOKED"})
ENDED_BADLY = ENDED_FROM_OUTSIDE | {
    "DEADLINE", "FAILED", "LAUNCH_FAILED", "OUT_OF_MEMORY", "RECONFIG_FAIL", "TIMEOUT",
}  # fmt: skip
ENDED = ENDED_WELL | ENDED_BADLY

STATES = {
    "PENDING": N_("waiting in the queue"),
    "CONFIGURING": N_("Slurm is preparing its nodes"),
    "RUNNING": N_("running"),
    "COMPLETING": N_("ending; Slurm is removing its last processes"),
    "SUSPENDED": N_("suspended by the cluster"),
    "REQUEUED": N_("back in the queue"),
    "COMPLETED": N_("completed"),
    "FAILED": N_("failed: its script ended with an error"),
    "CANCELLED": N_("cancelled"),
    "TIMEOUT": N_("ended by its time limit"),
    "OUT_OF_MEMORY": N_("stopped, because it used more memory than it requested"),
    "NODE_FAIL": N_("lost: one of its nodes stopped answering"),
    "PREEMPTED": N_("ended to make room for a job of higher priority"),
    UNKNOWN: N_("unknown: Slurm no longer lists the job, and the job wrote no exit code"),
}

REASONS = {
    "Resources": N_("nodes or devices that it needs are in use; it is next when they are free"),
    "Priority": N_("jobs before it in the queue come first"),
    "Dependency": N_("it waits for another job to end"),
    "DependencyNeverSatisfied": N_(
        "the job that it depends on did not end as required; cancel this job"
    ),
    "JobHeldUser": N_("its owner holds it; `scontrol release` releases it"),
    "JobHeldAdmin": N_("an administrator holds it; ask the administrators"),
    "BeginTime": N_("its start time is in the future"),
    "PartitionNodeLimit": N_("it requests more nodes than its partition allows"),
    "PartitionTimeLimit": N_("it requests more time than its partition allows"),
    "PartitionDown": N_("its partition does not run jobs at the moment"),
    "ReqNodeNotAvail": N_("nodes that it needs are down, reserved or unavailable"),
    "Reservation": N_("its reservation has not begun"),
    "BadConstraints": N_(
        "no node has the features that it requests; cancel it and change the request"
    ),
    "InvalidAccount": N_("its account does not exist or may not use this partition"),
    "InvalidQOS": N_("its QOS does not exist or is not open to its account"),
}

FAMILIES = (
    (re.compile(r"Assoc.*(Minutes|RunMins|Mins)"), N_("its account has too few device-hours left")),
    (re.compile(r"QOS.*(Minutes|RunMins|Mins)"), N_("its QOS has too few device-hours left")),
    (
        re.compile(r"QOS.*(PerUser|PerAccount)"),
        N_("your running jobs have reached the limit of its QOS"),
    ),
    (re.compile(r"(QOS|Assoc).*(Limit|Grp|Max)"), N_("its account or QOS has reached a limit")),
    (
        re.compile(r"Nodes required for job are DOWN"),
        N_("nodes that it needs are down or reserved"),
    ),
)


@dataclass(frozen=True)
class Status:
    """The state of a job and its source: squeue, sacct, its exit code file, or none."""

    state: str = UNKNOWN
    reason: str = ""
    exit_code: int | None = None
    elapsed_s: float | None = None
    nodes: str = ""
    source: str = ""

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def waiting(self) -> bool:
        return self.state in WAITING

    @property
    def words(self) -> str:
        """Return one clause, such as `waiting in the queue: jobs before it come first`."""
        state = STATES.get(
            self.state, _("in state {state}, which Slurm's manual explains", state=self.state)
        )
        if self.state == "FAILED" and self.exit_code:
            return _(
                "failed: its script ended with exit code {exit_code}", exit_code=self.exit_code
            )
        if not self.waiting:
            return state
        reason = explain(self.reason)
        return f"{state}: {reason}" if reason else state


def explain(reason: str) -> str:
    """Explain a pending reason in a clause. Quote an unknown reason."""
    name = reason.strip("() ").partition(",")[0].strip("() ")
    if name in ("", "None", "N/A"):
        return ""
    if name in REASONS:
        return REASONS[name]
    for pattern, words in FAMILIES:
        if pattern.search(name):
            return f"{words} ({name})"
    return _("Slurm gives the reason {name}", name=name)


def normal(state: str) -> str:
    """Normalize a state: `CANCELLED by 1000` and `CANCELLED+` → CANCELLED, `` → UNKNOWN."""
    found = re.match(r"[A-Z_]+", state.strip())
    return found[0] if found else UNKNOWN


PACE = re.compile(r"Comment=device_pace=(?P<factor>[\d.]+) \((?P<why>.*)\)")


def pace_line() -> re.Match[str] | None:
    """Find the device pace in Slurm's node list. Return None if slots are not slowed down."""
    return PACE.search(Slurm().call("scontrol", "show", "node"))


def slot_pace() -> float:
    told = pace_line()
    return float(told["factor"]) if told else 1.0
