"""The last three edits: a batch script for one device becomes one for two nodes.

Devices, meeting point and launchers are judged by the script's lines: what is wrong with them may
work on one cluster and fail on the next, or on a day when another job wants the same port.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from course_lib.lab.job.recipes.shell import directives

NODES, DEVICES = 2, 2
FROM_SLURM = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE")
MEETING = re.compile(r"^meeting at (\S*):(\d*)$", re.MULTILINE)
EPOCH_1 = re.compile(r"^.*\bepoch 1\b.*$", re.MULTILINE)


@dataclass(frozen=True)
class ScriptEdit:
    does: str
    judge: Callable[[Any], str]


def text_of(run: Any) -> str:
    """The commands of a job, or the whole script."""
    return str(run.recipe.commands or run.recipe.script)


def commands_of(script: str) -> str:
    """Without comments, each command on one line."""
    lines = (line for line in script.splitlines() if not line.lstrip().startswith("#"))
    return "\n".join(lines).replace("\\\n", " ")


def option(script: str, name: str) -> str:
    """Of torchrun, which takes `_` for `-`, and a space for `=`."""
    spelled = name.replace("-", "[-_]")
    found = re.search(rf"--{spelled}(?:=|\s+)(\"[^\"]*\"|'[^']*'|\S+)", commands_of(script))
    return found[1].strip("\"'") if found else ""


def devices(run: Any) -> str:
    recipe, script = run.recipe, text_of(run)
    processes = option(script, "nproc-per-node") or "no number of"
    if recipe.nodes != NODES:
        return f"the job asks for {recipe.nodes} node{'s' * (recipe.nodes != 1)} (nodes=…)."
    if recipe.gpus_per_node == 0:
        return "the job asks for no device: PyTorch would quietly compute on the processor."
    if recipe.gpus_per_node != DEVICES:
        return (
            f"the job asks for {recipe.gpus_per_node} on each node. torchrun starts {processes} "
            "processes there, and each is to have a device."
        )
    return _processes(script)


def _processes(script: str) -> str:
    processes, launchers = option(script, "nproc-per-node"), option(script, "nnodes")
    if not _is(processes, DEVICES):
        return (
            f"--nproc-per-node is {processes or 'not given, which is 1'}: {DEVICES} devices are "
            "paid for on each node, and as many processes are to compute."
        )
    if not _is(launchers, NODES):
        told = launchers or "not given, which is 1"
        return f"--nnodes is {told}: the launchers of two nodes do not wait for each other."
    tasks = directives(script).get("ntasks-per-node", "1")
    return "" if tasks == "1" else f"srun starts {tasks} launchers on each node; one is enough."


def _is(given: str, wanted: int) -> bool:
    return given == str(wanted) or any(name in given for name in FROM_SLURM)


def meeting_point(run: Any) -> str:
    script = commands_of(text_of(run))
    if re.search(r"MASTER_ADDR=[\"']?(localhost|127\.|::1)", script):
        return (
            "the address is the node itself, whichever it is: each launcher waits at its own door "
            "for another that never comes."
        )
    if re.search(r"MASTER_PORT=[\"']?\d+", script):
        return (
            "the port is always the same. Two jobs whose first node is one (also two of yours) "
            "want it at once, and the second fails, or joins the first. Derive it from the job's "
            "number."
        )
    if "SUFFIX" in run.recipe.environment and "SUFFIX" not in script:
        return (
            "$SUFFIX is left out. Where a node's name on the fast network has one (node1i), what "
            "is found is an address on a slow one. (On the box there is none, and nothing shows.)"
        )
    return _place_said(run)


def _place_said(run: Any) -> str:
    said = MEETING.search(run.text)
    if not said:
        return f"the script did not come to its line `meeting at …`:\n{run.tail()}"
    if not said[1] or not said[2]:
        return f"it says {said[0]!r}: MASTER_ADDR and MASTER_PORT are to be set before."
    if not re.fullmatch(r"[\d.]+|[\da-fA-F:]+", said[1]):
        return (
            f"{said[1]} is a name. A node has several networks, and which one its name leads to is "
            "the resolver's choice, on each node anew. Take its address on the fast one, a number: "
            "getent hosts."
        )
    return ""


def launchers(run: Any) -> str:
    script = text_of(run)
    if not re.search(r"^\s*(exec\s+)?srun\b", commands_of(script), re.MULTILINE):
        return "nothing starts with srun: the first node alone has a launcher, and waits."
    backend, end = option(script, "rdzv-backend"), option(script, "rdzv-endpoint")
    if backend != "c10d":
        return (
            f"--rdzv-backend is {backend or 'not given'}. With c10d the launchers count themselves "
            "at the meeting point; without it each needs a --node-rank of its own."
        )
    if "JOB_ID" not in option(script, "rdzv-id"):
        return (
            "--rdzv-id is to tell this job's launchers from another's at the same place: its "
            "number, $SLURM_JOB_ID."
        )
    if "MASTER_ADDR" not in end or "MASTER_PORT" not in end:
        return f"--rdzv-endpoint is {end or 'not given'}: it is where they meet, address:port."
    return _host(option(script, "rdzv-conf"))


def _host(conf: str) -> str:
    host = re.search(r"is_host=(\w+|.*)", conf)
    if not host:
        return (
            "--rdzv-conf does not say is_host. Each launcher then compares the address with its "
            "own names; where the fast network has other ones, none finds itself, and all wait."
        )
    if host[1].lower() in ("0", "false", "no"):
        return "is_host is 0 on all nodes: nobody opens the meeting point, and all wait for it."
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
