"""Commands of a false cluster, with which a batch script is run again.

    python -I -S false_commands.py srun --ntasks=2 hostname

The cluster has the nodes node1 and node2. Each srun, launcher and unknown host adds a line to the
file that `COURSE_FALSE_NOTES` names. Only the standard library is imported, to start fast.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

NODES = ("node1", "node2")
NOTES, SUFFIX = "COURSE_FALSE_NOTES", "COURSE_FALSE_SUFFIX"
# Address prefixes of the nodes' plain names, and of their names with the suffix.
SLOW, FAST = "10.1.0.", "10.2.0."
# Commands that do nothing here: the real job has already run them, or they only wait.
QUIET = (
    "cp", "ln", "mv", "rm", "rmdir", "rsync", "chmod", "chown", "ssh", "scp", "curl", "wget", "pip",
    "conda", "git", "module", "ml", "sbatch", "scancel", "sleep", "pkill", "killall",
)  # fmt: skip
# Options of srun that take a value. Other options are switches, or use an equals sign.
SRUN_OPTIONS = (
    "-n --ntasks", "-N --nodes", "-w --nodelist", "--ntasks-per-node", "-c --cpus-per-task",
    "-o --output", "-e --error", "-t --time", "-D --chdir", "-J --job-name",
)  # fmt: skip
LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")


def note(**what: Any) -> None:
    with Path(os.environ[NOTES]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


def own_node() -> str:
    return os.environ.get("SLURMD_NODENAME", NODES[0])


def addresses() -> dict[str, str]:
    suffix = os.environ.get(SUFFIX, "")
    fast = {f"{name}{suffix}": f"{FAST}{number}" for number, name in enumerate(NODES, 1)}
    slow = {name: f"{SLOW}{number}" for number, name in enumerate(NODES, 1)}
    return fast | slow | {"localhost": "127.0.0.1"}


def getent(words: list[str]) -> int:
    known = addresses()
    for name in [word for word in words[1:] if not word.startswith("-")] or list(known):
        address = known.get(name, name if re.fullmatch(r"[\d.]+", name) else "")
        if not address:
            note(unknown=name)
            return 2
        print(f"{address:<15} {name}")
    return 0


def hostname(words: list[str]) -> int:
    asks_address = bool({"-i", "-I", "--ip-address", "--all-ip-addresses"} & set(words))
    print(addresses()[own_node()] if asks_address else own_node())
    return 0


def scontrol(words: list[str]) -> int:
    """Answer `scontrol show hostnames`. Any node list means both nodes, as in every job here."""
    if words[1:] and "hostname".startswith(words[1].removesuffix("s")):
        named = words[2] if len(words) > 2 else "["
        print("\n".join(NODES if "[" in named else named.split(",")))
    else:
        print(f"JobId={os.environ['SLURM_JOB_ID']} BatchHost=node1 NodeList=node[1-2] NumNodes=2")
    return 0


def srun(words: list[str]) -> int:
    """Start one process per task, on both nodes at once."""
    parser = argparse.ArgumentParser(add_help=False)
    for names in SRUN_OPTIONS:
        parser.add_argument(*names.split())
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked, _ = parser.parse_known_args(words)
    command = asked.command[1:] if asked.command[:1] == ["--"] else asked.command
    note(srun=shlex.join(["srun", *words[: len(words) - len(asked.command)]]))
    places = tasks(asked)
    started = [
        subprocess.Popen(command, env=os.environ | of_task(rank, places))
        for rank in range(len(places))
    ]
    return max(process.wait() for process in started) if command else 1


def tasks(asked: argparse.Namespace) -> list[int]:
    """Return the node of each task."""
    named = [n for n, name in enumerate(NODES) if name in (asked.nodelist or "").split(",")]
    nodes = named or list(range(len(NODES)))
    if asked.nodes:
        nodes = nodes[: int(asked.nodes.rpartition("-")[2])]
    each = int(asked.ntasks_per_node or os.environ["SLURM_NTASKS_PER_NODE"])
    count = int(asked.ntasks or each * len(nodes))
    nodes = nodes[:count]
    return sorted(nodes[rank % len(nodes)] for rank in range(count))


def of_task(rank: int, places: list[int]) -> dict[str, str]:
    node, count = places[rank], str(len(set(places)))
    return {
        "SLURM_PROCID": str(rank), "SLURM_NODEID": str(sorted(set(places)).index(node)),
        "SLURM_LOCALID": str(rank - places.index(node)), "SLURMD_NODENAME": NODES[node],
        "HOSTNAME": NODES[node], "SLURM_STEP_ID": "0", "SLURM_NNODES": count,
        "SLURM_NTASKS": str(len(places)), "SLURM_NPROCS": str(len(places)),
    }  # fmt: skip


def torchrun(words: list[str]) -> int:
    note(node=own_node(), by_srun="SLURM_STEP_ID" in os.environ, words=words)
    return 0


def python(words: list[str]) -> int:
    """Run Python itself, or `torchrun` if the module is a launcher."""
    if len(words) > 1 and words[0] == "-m" and words[1] in LAUNCHERS:
        return torchrun(words[2:])
    os.execv(sys.executable, [sys.executable, *words])


COMMANDS = {
    "getent": getent, "hostname": hostname, "scontrol": scontrol, "srun": srun,
    "torchrun": torchrun, "python": python, "python3": python,
}  # fmt: skip


def main() -> NoReturn:
    sys.exit(COMMANDS[sys.argv[1]](sys.argv[2:]))
