"""Checks of the cluster, by its own commands; what cannot be asked is said to be unknown."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator

from course_lib.lab.doctor.findings import Finding, bad, fair, good
from course_lib.lab.errors import LabError, SlurmError
from course_lib.lab.job.recipes import shell
from course_lib.lab.job.script import render
from course_lib.lab.job.site import Site
from course_lib.lab.job.unfinished import Unfinished
from course_lib.lab.plain_files import account
from course_lib.lab.queue.nodes import ask
from course_lib.lab.queue.pace import pace_line
from course_lib.lab.queue.slurm import TIMEOUT_S, Slurm, job_environment
from course_lib.lab.workspace import Workspace

COMMANDS = ("sbatch", "srun", "squeue", "scancel", "sinfo", "scontrol", "sacct")
USABLE = ("idle", "mix", "alloc", "comp")
NODES_ASKED = 2


def site_file(site: Site, place: Workspace) -> Iterator[Finding]:
    if site.missing:
        cure = f"write it into {place.site_file}"
        if not place.site_file.exists():
            cure = f"`course site use {site.name}` makes {place.site_file}, where it belongs"
        yield bad(f"site {site.name}: {', '.join(site.missing)} still to be filled in", cure)
    elif not site.box:
        yield good(f"site {site.name} says all that it has to")


def commands(site: Site) -> Iterator[Finding]:
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        cure = "log in to a node that has them (`module load slurm` on some clusters)"
        yield bad(f"not on the PATH: {', '.join(missing)}", cure)
        return
    version = Slurm().call("sinfo", "--version").strip()
    try:
        Slurm().call("sinfo", "--noheader")
    except SlurmError as error:
        yield bad(f"the cluster does not answer: {error.said}", "start it, or try again later")
    else:
        yield good(f"the cluster answers ({version})")


def network() -> Iterator[Finding]:
    """Whether the nodes of the box have networks of their own. It says so itself, and why not."""
    done = subprocess.run(
        ["sinfo", "--noheader"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if told := FLAT.search(done.stderr):
        yield fair(told["why"], f"{told['cure']}; {FLAT_MEANS}")
    elif done.returncode == 0:
        yield good("the nodes of the box have networks and host names of their own")


FLAT = re.compile(r"(?P<why>flat mode: .*)\. Cure: (?P<cure>.*)\.")
FLAT_MEANS = "until then all lessons run, but the link cannot be slowed or measured"


def pace() -> Iterator[Finding]:
    """How fast a slot of the box computes, where that is not as fast as it goes."""
    if told := pace_line():
        share = f"computes at 1/{told['factor']} of the rate of a core"
        if told["factor"] == "1":
            share = "computes at the rate of a core"
        why, _, since = told["why"].partition("; ")
        text = f"a device slot {share}, whatever its neighbours do ({why})"
        yield fair(text, since) if since else good(text)


def nodes(site: Site) -> Iterator[Finding]:
    """Partition, and whether two nodes of it work and have devices."""
    rows = ask(Slurm())
    if not rows:
        return
    if site.partition and site.partition not in {row.partition for row in rows}:
        found = ", ".join(sorted({row.partition for row in rows}))
        yield bad(f"no partition {site.partition!r} here", f"write one of these into it: {found}")
        return
    mine = {row.name: row for row in rows if row.partition == site.partition or not site.partition}
    states = (*USABLE, "resv", "reserved") if site.reservation else USABLE
    usable = [row for row in mine.values() if row.state.startswith(states)]
    where = f"partition {site.partition}" if site.partition else "the cluster"
    text = f"{where}: {len(usable)} of {len(mine)} nodes work"
    if len(usable) < NODES_ASKED:
        cure = "the lessons on many nodes need two; `sinfo -R` says why a node is out"
        yield (bad if not usable else fair)(text, cure)
    else:
        yield good(text)
    per_node = max((row.gpus for row in usable), default=0)
    yield from _devices(site, per_node)


def _devices(site: Site, per_node: int) -> Iterator[Finding]:
    if site.ask == "none":
        return
    if per_node == 0:
        yield bad(
            "no node offers devices to Slurm (`sinfo -o %G` shows none)",
            'set ask = "none" in site.toml: processes then run without asking for devices',
        )
    elif site.devices_per_node > per_node:
        cure = f"set devices_per_node = {per_node} in site.toml"
        yield bad(f"a node has {per_node} devices, the site says {site.devices_per_node}", cure)
    else:
        yield good(f"{per_node} devices per node")


def permissions(site: Site) -> Iterator[Finding]:
    """Account, QOS and reservation, where the cluster answers such questions."""
    if site.reservation:
        try:
            Slurm().call("scontrol", "show", "reservation", site.reservation)
            yield good(f"reservation {site.reservation}")
        except SlurmError as error:
            cure = "leave `reservation` out of site.toml if it is over"
            why = error.said or "there is none of this name"
            yield bad(f"reservation {site.reservation}: {why}", cure)
    if not (site.account or site.qos) or shutil.which("sacctmgr") is None:
        return
    try:
        text = Slurm().call(
            "sacctmgr", "-n", "-P", "show", "associations", f"user={account()}",
            "format=account,qos",
        )  # fmt: skip
    except SlurmError:
        yield fair("this cluster does not say which accounts are yours")
        return
    yield from _associations(site, text)


def _associations(site: Site, text: str) -> Iterator[Finding]:
    rows = [line.split("|") for line in text.splitlines() if "|" in line]
    accounts = sorted({row[0] for row in rows})
    qualities = sorted({name for row in rows for name in row[1].split(",") if name})
    for what, chosen, yours in (("account", site.account, accounts), ("qos", site.qos, qualities)):
        if not chosen or not yours:
            continue
        if chosen.lower() not in yours:
            cure = f"write one of these into site.toml: {', '.join(yours)}"
            yield bad(f"{what} {chosen!r} is not yours", cure)
        else:
            yield good(f"{what} {chosen}")


def names(site: Site) -> Iterator[Finding]:
    """Whether nodes are found by name, with the suffix of the fast network. On the box that is
    so inside a job only, where the test job looks."""
    if site.box:
        return
    unknown = []
    for row in ask(Slurm())[:NODES_ASKED]:
        host = f"{row.name}{site.host_suffix}"
        try:
            socket.getaddrinfo(host, None)
        except OSError:
            unknown.append(host)
    if unknown:
        yield fair(
            f"from this machine, {', '.join(unknown)} cannot be found by name",
            "it matters only between the nodes; `course doctor --run` asks there",
        )


def would_run(site: Site) -> Iterator[Finding]:
    """Slurm's own judgement of a job such as the lessons send."""
    devices = 1 if site.ask != "none" else 0
    wanted = min(NODES_ASKED, site.max_nodes or NODES_ASKED)
    recipe = shell.recipe("doctor", "true", nodes=wanted, gpus_per_node=devices)
    assert not isinstance(recipe, Unfinished)
    try:
        text = render(recipe, site).text
        Slurm().call("sbatch", "--test-only", stdin=text, environment=job_environment(os.environ))
    except LabError as error:
        yield bad(f"the cluster would refuse a job: {error}", "")
    else:
        yield good(f"the cluster would take a job on {wanted} nodes")
