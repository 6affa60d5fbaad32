"""Check the last three edits, which turn a batch script for one device into one for two nodes.

The script runs on a false cluster. Devices, meeting point and launchers are judged by the
arguments that torchrun gets on each node. A wrong argument may work on one cluster and fail on
another. It may also fail only when a second job uses the same port.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from course_lib.teach.trials.job.false_cluster import (
    FAST,
    NEIGHBOURS,
    NODES,
    SLOW,
    Launch,
    Rehearsed,
)
from course_lib.words import N_, _

DEVICES = 2
EPOCH_1 = re.compile(r"^.*\bepoch 1\b.*$", re.MULTILINE)
# Words that torchrun accepts as truth values.
YES, NO = ("1", "true", "t", "yes", "y"), ("0", "false", "f", "no", "n")
# Ports below the least are reserved for the system; ports above the most do not exist.
LEAST_PORT, MOST_PORT = 1024, 65535
FROM_JOB = N_("Compute it from the whole job id: 10000 + SLURM_JOB_ID % 20000.")


@dataclass(frozen=True)
class ScriptEdit:
    does: str
    judge: Callable[[Any, Sequence[Rehearsed]], Iterator[str]]


@dataclass(frozen=True)
class Option:
    """Option of torchrun, what it may be, and what to say otherwise."""

    name: str
    allowed: str
    why: str


COUNTS = (
    Option("nproc-per-node", "2|gpu", N_("Each node has 2 devices, and auto counts processors.")),
    Option("nnodes", "2|2:2", N_("The launchers of two nodes have to wait for each other.")),
    Option("standalone", "False|", N_("The launchers of two nodes have to wait for each other.")),
)
MEETS = (
    Option("rdzv-backend", "c10d", N_("Give c10d.")),
    Option("rdzv-endpoint", ".*:.*", N_("Give address:port.")),
    Option("rdzv-conf", ".*is_host=.*", N_(
        "It does not say is_host. A launcher may not recognise its own address on the fast "
        "network, and then all wait."
    )),
)  # fmt: skip


def devices(run: Any, jobs: Sequence[Rehearsed]) -> Iterator[str]:
    nodes, each = run.recipe.nodes, run.recipe.gpus_per_node
    if (nodes, each) != (len(NODES), DEVICES):
        yield _(
            "the job asks for {nodes} nodes with {each} devices each. Ask for two of each "
            "(nodes=…, gpus_per_node=…).", nodes=nodes, each=each,
        )  # fmt: skip
    for launch in (launch for launch in jobs[0].launches if not launch.error):
        yield from _wrong_options(launch, COUNTS)


def meeting_point(run: Any, jobs: Sequence[Rehearsed]) -> Iterator[str]:
    """Explain a wrong meeting point. `launchers` reports an endpoint without a colon."""
    places = [(job, place) for job in jobs if (place := _place(job))]
    yield from (_torchrun_not_reached(job) for job in jobs if not job.launches)
    for job in jobs:
        ends = {launch.option("rdzv-endpoint"): launch.node for launch in job.launches}
        if len(ends) > 1:
            told = ", ".join(
                _("{node} goes to {end}", node=node, end=end) for end, node in ends.items()
            )
            yield _("the launchers of job {job} do not meet: {told}.", job=job.job, told=told)
    for job, (host, _port) in places:
        network = FAST if job.suffix and "SUFFIX" in run.recipe.environment else SLOW
        if host != f"{network}1":
            yield _(
                "as job {job}, torchrun gets {host}, but the first node's address on the fast "
                "network is {wanted}. On this network the nodes are called node1{suffix} and "
                "node2{suffix}. Append $SUFFIX to the first node's name, look up the address with "
                "getent hosts, and export it.",
                job=job.job, suffix=job.suffix, host=host or _("no address"), wanted=f"{network}1",
            )  # fmt: skip
    yield from _ports([(job.job, port) for job, (_host, port) in places])


def _place(job: Rehearsed) -> tuple[str, str] | None:
    end = job.launches[0].option("rdzv-endpoint") if job.launches else ""
    host, colon, port = end.rpartition(":")
    return (host.strip("[]"), port) if colon else None


def _ports(found: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Check the port of each job id. A port has to lie in the allowed range and to be the same for
    the same id. Jobs whose ids are close need different ports."""
    taken = dict(found)
    for job, port in found:
        is_number = re.fullmatch(r"\d+", port)
        if not is_number or not LEAST_PORT <= int(port) <= MOST_PORT or taken[job] != port:
            yield _(
                "the port of job {job} would be {port}. Export a port between {least} and {most} "
                "that depends on the job id alone. {how}",
                job=job, port=port or "''", least=LEAST_PORT, most=MOST_PORT, how=_(FROM_JOB),
            )  # fmt: skip
    for (one, port), (other, same) in combinations(sorted(taken.items()), 2):
        if port == same and abs(one - other) <= NEIGHBOURS:
            yield _(
                "jobs {one} and {other} would both take port {port}. Jobs whose ids are up to "
                "{neighbours:,} apart may run at the same time on one node: a busy cluster starts "
                "thousands of jobs a day. {how}",
                one=one, other=other, port=port, neighbours=NEIGHBOURS, how=_(FROM_JOB),
            )  # fmt: skip


def launchers(run: Any, jobs: Sequence[Rehearsed]) -> Iterator[str]:
    wanted = [run.recipe.environment[name] for name in ("START", "PROGRAM")
              if name in run.recipe.environment]  # fmt: skip
    for job in jobs:
        yield from _not_on_each_node(job)
        for launch in job.launches:
            yield from _wrong_launch(launch, wanted)
    # All nodes of a job need the same id, and different jobs need different ids.
    ids = {job.job: {launch.option("rdzv-id") for launch in job.launches} for job in jobs}
    given = set().union(*ids.values())
    if any(len(one) > 1 for one in ids.values()) or len(given) < len(ids) or "" in given:
        yield _(
            "--rdzv-id is {given}. It has to be the same on all nodes of a job, and differ "
            "between jobs: $SLURM_JOB_ID.", given=", ".join(sorted(given)[:3]) or _("not given"),
        )  # fmt: skip
    hosts = {launch.node: _is_host(launch) for launch in jobs[0].launches}
    if hosts[NODES[0]] not in YES or hosts[NODES[1]] not in NO:
        yield _(
            "is_host is {given}. It has to be true (1) on {first} and false (0) on the other node. "
            "SLURM_NODEID differs only within srun: is the text in single quotes?",
            given=", ".join(f"{value} ({node})" for node, value in hosts.items()), first=NODES[0],
        )  # fmt: skip


def _torchrun_not_reached(job: Rehearsed) -> str:
    return _(
        "as job {job}, the commands did not reach torchrun, or did not end:\n{said}",
        job=job.job, said=job.said,
    )  # fmt: skip


def _not_on_each_node(job: Rehearsed) -> Iterator[str]:
    where = [launch.node for launch in job.launches]
    if not job.in_time or not where:
        yield _torchrun_not_reached(job)
    if sorted(where) != [*NODES] or not all(one.by_srun for one in job.launches):
        yield _(
            "launchers start on {where}, by {sruns}. srun without options starts one on each node.",
            where=" and ".join(where) or _("no node"),
            sruns=" and ".join(job.sruns) or _("no srun"),
        )  # fmt: skip


def _wrong_launch(launch: Launch, wanted: list[str]) -> Iterator[str]:
    if launch.error or not launch.option("training-script").strip():
        yield _(
            "torchrun refuses its arguments on {node}: {error}. A backslash has to be "
            "the last character of its line.",
            node=launch.node, error=launch.error or _("the program is empty"),
        )  # fmt: skip
    yield from _wrong_options(launch, MEETS)
    if [word for word in launch.command if word in wanted] != wanted:
        yield _(
            'each process on {node} runs `{command}`, not "$START" "$PROGRAM".',
            node=launch.node, command=" ".join(launch.command),
        )  # fmt: skip


def _wrong_options(launch: Launch, options: Sequence[Option]) -> Iterator[str]:
    for option in options:
        if not re.fullmatch(option.allowed, given := launch.option(option.name)):
            yield _(
                "--{name} is {given} on {node}. {why}",
                name=option.name, given=given or _("not given"), node=launch.node,
                why=_(option.why),
            )  # fmt: skip


def _is_host(launch: Launch) -> str:
    conf = dict(pair.partition("=")[::2] for pair in launch.option("rdzv-conf").split(","))
    return conf.get("is_host", "").strip().lower()


def count_epoch_lines(text: str) -> int:
    return len(EPOCH_1.findall(text))


EDITS = {
    13: ScriptEdit(N_("two devices on each of two nodes, and a process for each"), devices),
    14: ScriptEdit(
        N_("one meeting point: the first node's address, a port of this job alone"), meeting_point
    ),
    15: ScriptEdit(N_("a launcher on each node, and all launchers meet there"), launchers),
}
