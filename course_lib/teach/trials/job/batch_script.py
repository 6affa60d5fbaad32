"""The last three edits: a batch script for one device becomes one for two nodes.

Devices, meeting point and launchers are judged by what torchrun is called with on each node when
the script runs on a false cluster: what is wrong there may work on one cluster and fail on the
next, or on a day when another job wants the same port.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.lab.job.recipes.shell import directives
from course_lib.teach.trials.job import meeting_place
from course_lib.teach.trials.job.false_cluster import Launch, Rehearsed, rehearse
from course_lib.teach.trials.job.false_commands import NODES as NODE_NAMES

NODES, DEVICES = 2, 2
MEETING = re.compile(r"^meeting at (\S*):(\d*)$", re.MULTILINE)
EPOCH_1 = re.compile(r"^.*\bepoch 1\b.*$", re.MULTILINE)
YES, NO = ("1", "true", "t", "yes", "y"), ("0", "false", "f", "no", "n")
"""As torchrun reads a truth value."""


NONE = Launch("", False, {}, "")
"""Of commands that start no launcher."""


@dataclass(frozen=True)
class ScriptEdit:
    does: str
    judge: Callable[[Any, Sequence[Rehearsed]], str]


def text_of(run: Any) -> str:
    """The commands of a job, or the whole script."""
    return str(run.recipe.commands or run.recipe.script)


def rehearsed(run: Any) -> list[Rehearsed]:
    script = str(run.recipe.script or "")
    tasks = directives(script).get("ntasks-per-node", "1") if script else "1"
    return rehearse(text_of(run), run.recipe.environment, tasks)


def devices(run: Any, jobs: Sequence[Rehearsed]) -> str:
    recipe = run.recipe
    started = [launch for job in jobs for launch in job.launches if not launch.error]
    processes = (started and started[0].option("nproc-per-node")) or "no number of"
    if recipe.nodes != NODES:
        return f"the job asks for {recipe.nodes} node{'s' * (recipe.nodes != 1)} (nodes=…)."
    if recipe.gpus_per_node == 0:
        return "the job asks for no device: PyTorch would quietly compute on the processor."
    if recipe.gpus_per_node != DEVICES:
        return (
            f"the job asks for {recipe.gpus_per_node} on each node. torchrun starts {processes} "
            "processes there, and each is to have a device."
        )
    return next((said for launch in started if (said := _processes(launch))), "")


def _processes(launch: Launch) -> str:
    processes, launchers = launch.option("nproc-per-node"), launch.option("nnodes")
    if processes == "auto":
        return (
            "--nproc-per-node is auto: as many as there are processors, where PyTorch sees no "
            "GPU. Say gpu, or 2."
        )
    if processes not in (str(DEVICES), "gpu"):
        return (
            f"--nproc-per-node is {processes or 'not given, which is 1'}: {DEVICES} devices are "
            "paid for on each node, and as many processes are to compute."
        )
    if launch.options.get("standalone"):
        return "--standalone makes a job of each node alone: the launchers never meet."
    if launchers not in (str(NODES), f"{NODES}:{NODES}"):
        told = launchers or "not given, which is 1"
        return f"--nnodes is {told}: the launchers of two nodes do not wait for each other."
    return ""


def meeting_point(run: Any, jobs: Sequence[Rehearsed]) -> str:
    has_suffix = "SUFFIX" in run.recipe.environment
    return meeting_place.judged(jobs, has_suffix) or _place_said(run)


def _place_said(run: Any) -> str:
    said = MEETING.search(run.text)
    if not said:
        return f"the script did not come to its line `meeting at …`:\n{run.tail()}"
    if not said[1] or not said[2]:
        return f"it says {said[0]!r}: MASTER_ADDR and MASTER_PORT are to be set before."
    if not re.fullmatch(r"[\d.]+|[\da-fA-F:]+", said[1]):
        return f"{said[1]} is a name. {meeting_place.NAME}"
    if said[1].startswith("127.") and not (run.ok and said[1] == "127.0.0.1"):
        return (
            f"the job's launchers were to meet at {said[1]}: a node that finds its own name in "
            "/etc/hosts takes itself for the loopback, where no other node can reach it."
        )
    return ""


def launchers(run: Any, jobs: Sequence[Rehearsed]) -> str:
    for job in jobs:
        told = (_not_on_each_node(job), *map(_meets, job.launches))
        if said := next(filter(None, told), ""):
            return said
    return _ids(jobs) or _hosts(jobs[0].launches) or _processes_run(jobs[0], run.recipe.environment)


def _not_on_each_node(job: Rehearsed) -> str:
    if not job.in_time:
        return f"as job {job.job}, the commands did not end. What do they wait for?\n{job.said}"
    if not job.sruns and not all(launch.by_srun for launch in job.launches or [NONE]):
        return "nothing starts with srun: the first node alone has a launcher, and waits."
    if not job.launches:
        return f"as job {job.job}, the commands did not come to torchrun:\n{job.said}".rstrip(":\n")
    return _launchers_by_node(job)


def _launchers_by_node(job: Rehearsed) -> str:
    where = [launch.node for launch in job.launches]
    called = " and ".join(f"`{one}`" for one in job.sruns)
    if len(set(where)) < NODES:
        return (
            f"{called} starts a launcher on {where[0]} alone, which waits for that of the other "
            "node. Without options of its own srun has one task on each."
        )
    if not all(launch.by_srun for launch in job.launches):
        return "a launcher starts without srun: the first node has one more."
    if len(where) > NODES:
        many = max(where.count(name) for name in NODE_NAMES)
        return f"{called} starts {many} launchers on a node; one is enough."
    return ""


def _meets(launch: Launch) -> str:
    backend, end = launch.option("rdzv-backend"), launch.option("rdzv-endpoint")
    if launch.error or not launch.option("program").strip():
        return (
            f"torchrun does not take what it is given on {launch.node}: "
            f"{launch.error or 'the program is a blank'}. (A line that goes on in the next one "
            "ends with a backslash, and with nothing behind it.)"
        )
    if backend != "c10d":
        return (
            f"--rdzv-backend is {backend or 'not given'}. With c10d the launchers count themselves "
            "at the meeting point; without it each needs a --node-rank of its own."
        )
    if ":" not in end:
        return (
            f"--rdzv-endpoint is {end or 'not given'} on {launch.node}: it is where they meet, "
            "address:port."
        )
    return "" if "is_host=" in launch.option("rdzv-conf") else _no_host(launch)


def _no_host(launch: Launch) -> str:
    return (
        f"--rdzv-conf is {launch.option('rdzv-conf') or 'not given'} on {launch.node}, and does "
        "not say is_host. Each launcher then compares the address with its own names; where the "
        "fast network has other ones, none finds itself, and all wait."
    )


def _ids(jobs: Sequence[Rehearsed]) -> str:
    """One for all nodes of a job, and another for another job."""
    ids = {job.job: [launch.option("rdzv-id") for launch in job.launches] for job in jobs}
    for job, given in ids.items():
        if len(set(given)) > 1:
            return (
                f"--rdzv-id is {' and '.join(given)} on the nodes of job {job}: launchers with "
                "different ids never meet. $SLURM_JOB_ID is the same on all."
            )
    first = [given[0] for given in ids.values()]
    if len(first) > 1 and len(set(first)) < len(first):
        told = f"{first[0]} in all jobs" if first[0] else "not given"
        return (
            f"--rdzv-id is {told}. It is to tell this job's launchers from another's at the same "
            "place: its number, $SLURM_JOB_ID."
        )
    return ""


def _hosts(launches: Sequence[Launch]) -> str:
    given = {launch.node: _is_host(launch) for launch in launches}
    told = ", ".join(f"{value} ({node})" for node, value in given.items())
    yes = {node for node, value in given.items() if value.lower() in YES}
    no = {node for node, value in given.items() if value.lower() in NO}
    if len(yes | no) < len(given):
        return f"is_host is {told}: it takes 1 or 0, true or false."
    if not yes:
        return f"is_host is {told}: nobody opens the meeting point, and all wait for it."
    if len(yes) > 1:
        return (
            f"is_host is {told}: both open a meeting point and wait there, or fail where the "
            "address is not theirs. SLURM_NODEID is a node's own number only within srun: is the "
            "text that it hands on in single quotes?"
        )
    if yes != {NODE_NAMES[0]}:
        return f"is_host is {told}, and the address is that of {NODE_NAMES[0]}."
    return ""


def _is_host(launch: Launch) -> str:
    conf = dict(pair.partition("=")[::2] for pair in launch.option("rdzv-conf").split(","))
    return conf.get("is_host", "").strip()


def _processes_run(job: Rehearsed, environment: dict[str, str]) -> str:
    wanted = [environment[name] for name in ("START", "PROGRAM") if name in environment]
    for launch in job.launches:
        if [word for word in launch.command if word in wanted] != wanted:
            return (
                f"each process on {launch.node} runs `{' '.join(launch.command)}`; it is to be "
                '"$START" "$PROGRAM".'
            )
    return ""


def times_told(text: str) -> int:
    return len(EPOCH_1.findall(text))


EDITS = {
    13: ScriptEdit("two devices on each of two nodes, and a process for each", devices),
    14: ScriptEdit(
        "one meeting point: the first node's address, a port of the job's own", meeting_point
    ),
    15: ScriptEdit("a launcher on each node, which meet there", launchers),
}
