"""What the nodes of a cluster have, and whether a script asks for more than any of them.

A job of the lab is submitted held, and for a held job Slurm takes what no node could ever run;
released, it waits for ever. So the lab looks first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from course_lib.lab.errors import RecipeError, SlurmError
from course_lib.lab.queue.slurm import UNIT, Slurm

FIELDS = ("%N", "%T", "%G", "%P", "%c", "%m")
DIRECTIVE = re.compile(r"#SBATCH\s+(.*)")
SHORT = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task", "G": "gpus", "p": "partition",
         "w": "nodelist"}  # fmt: skip
OPTION = re.compile(r"--([a-z-]+)[= ]\s*([^\s#]+)|(?:^|\s)-([NncGpw])\s*([^\s#]+)")


@dataclass(frozen=True)
class Node:
    """One node in one partition; 0 where the cluster does not tell."""

    name: str
    state: str
    gpus: int
    partition: str
    is_default: bool
    cpus: int
    memory_mib: int


def ask(slurm: Slurm) -> list[Node]:
    """Every node, once per partition; empty where the cluster does not answer."""
    try:
        text = slurm.call("sinfo", "-h", "-N", "-o", UNIT.join(FIELDS))
    except SlurmError:
        return []
    rows = ([part.strip() for part in line.split(UNIT)] for line in text.splitlines())
    return [_node(row) for row in rows if len(row) == len(FIELDS)]


def _node(row: Sequence[str]) -> Node:
    name, state, gres, partition, cpus, memory = row
    return Node(
        name=name,
        state=state,
        gpus=sum(map(int, re.findall(r"\bgpu(?::[^:,()]+)?:(\d+)", gres))),
        partition=partition.rstrip("*"),
        is_default=partition.endswith("*"),
        cpus=_number(cpus),
        memory_mib=_number(memory),
    )


def asked(script: str) -> dict[str, str]:
    """The options of the #SBATCH lines by long name, a later one over an earlier."""
    found: dict[str, str] = {}
    for line in script.splitlines():
        if directive := DIRECTIVE.match(line):
            for name, value, letter, short in OPTION.findall(directive[1]):
                found[name or SHORT[letter]] = (value or short).strip("\"'")
        elif line.strip() and not line.startswith("#"):
            break
    return found


def too_much(options: dict[str, str], nodes: Iterable[Node]) -> list[str]:
    """What no nodes of the partition could give, each with what they have."""
    nodes = list(nodes)
    name = options.get("partition", "").partition(",")[0]
    there = [node for node in nodes if (node.partition == name if name else node.is_default)]
    there = there or nodes
    if not there:
        return []
    wanted = max(_number(options.get("nodes", "")), 1)
    problems = []
    if wanted > len(there):
        problems.append(f"{wanted} nodes; there {_are(len(there), 'node')}")
    for what, unit, per_node, have in _per_node(options):
        if not per_node:
            continue
        enough = [node for node in there if have(node) >= per_node]
        most = max(have(node) for node in there)
        if most and not enough:
            problems.append(f"{per_node} {unit} on a node; no node has more than {most}")
        elif most and len(enough) < wanted <= len(there):
            problems.append(
                f"{per_node} {unit} on each of {wanted} nodes; only {len(enough)} have so many"
            )
        elif not most and what == "gpus":
            problems.append(f"{per_node} {unit} on a node; no node offers any to Slurm")
    total, held = _number(options.get("gpus", "")), sum(node.gpus for node in there)
    if total > held > 0:
        problems.append(f"{total} devices; all nodes together have {held}")
    return problems


def described(nodes: Iterable[Node]) -> str:
    """`2 nodes with 2 devices, 32 CPUs and 16000 MiB each`."""
    kinds: dict[str, set[str]] = {}
    for node in nodes:
        has = f"{node.gpus} devices, {node.cpus} CPUs and {node.memory_mib} MiB"
        kinds.setdefault(has, set()).add(node.name)
    return "; ".join(
        f"{len(names)} nodes with {has} each" if len(names) > 1 else f"1 node with {has}"
        for has, names in kinds.items()
    )


def refuse_what_never_runs(slurm: Slurm, site: str, name: str, script: str) -> None:
    """RecipeError, naming what the site has."""
    nodes = ask(slurm)
    if problems := too_much(asked(script), nodes):
        raise RecipeError(
            f"{name} could never run on {site}: it asks for {'; and for '.join(problems)}. "
            f"{site} has {described(nodes)}"
        )


def _per_node(options: dict[str, str]) -> list[tuple[str, str, int, Callable[[Node], int]]]:
    tasks = max(_number(options.get("ntasks-per-node", "")), 1)
    gres = "".join(re.findall(r"gpu(?::[^:,]+)?:(\d+)", options.get("gres", ""))[:1])
    per_node = _number(options.get("gpus-per-node", "").rpartition(":")[2]) or _number(gres)
    per_task = _number(options.get("gpus-per-task", "").rpartition(":")[2])
    return [
        ("gpus", "devices", per_node or per_task * tasks, lambda node: node.gpus),
        ("cpus", "CPUs", _number(options.get("cpus-per-task", "")) * tasks, lambda node: node.cpus),
        ("memory", "MiB", _mebibytes(options.get("mem", "")), lambda node: node.memory_mib),
    ]


def _mebibytes(text: str) -> int:
    """`4G`, `4096`; 0 (all of a node) and what is no size ask for nothing."""
    found = re.fullmatch(r"(\d+)([KMGT]?)B?", text.upper())
    factor = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2}
    return int(int(found[1]) * factor[found[2]]) if found else 0


def _number(text: str) -> int:
    """`4`, `2-4` (the least), `32+` (sinfo: some have more); 0 where there is none."""
    found = re.match(r"\d+", text)
    return int(found[0]) if found else 0


def _are(count: int, what: str) -> str:
    return f"is 1 {what}" if count == 1 else f"are {count} {what}s"
