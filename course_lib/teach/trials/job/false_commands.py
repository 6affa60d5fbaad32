"""Commands of a cluster that does not exist, by which a batch script is run once more.

    python -I -S false_commands.py srun --ntasks=2 hostname

It has two nodes, node1 and node2. What is to be known of a call goes, a line each, into the file
that `COURSE_FALSE_NOTES` names: which srun, which launcher on which node, which unknown host.
Nothing is imported but Python's own library: a call has to be quick.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

NODES = ("node1", "node2")
NOTES, SUFFIX = "COURSE_FALSE_NOTES", "COURSE_FALSE_SUFFIX"
SLOW, FAST = "10.1.0.", "10.2.0."
"""The network to which the nodes' own names lead, and that of the names with a suffix."""
QUIET = (
    "cp", "ln", "mv", "rm", "rmdir", "rsync", "chmod", "chown", "ssh", "scp", "curl", "wget", "pip",
    "conda", "git", "module", "ml", "sbatch", "scancel", "sleep", "pkill", "killall",
)  # fmt: skip
"""What a job has done once already, or waits with."""
SWITCHES = (
    "contiguous", "disable-status", "exact", "exclusive", "hold", "immediate", "interactive",
    "kill-on-bad-exit", "label", "multi-prog", "no-kill", "overcommit", "overlap",
    "oversubscribe", "preserve-env", "pty", "quiet", "spread-job", "test-only", "unbuffered",
    "use-min-nodes", "verbose", "whole", "x11",
)  # fmt: skip
"""Options of srun that take no word behind them."""
SHORT_SWITCHES = "lukvQOsXZHKI"
LETTERS = {"n": "ntasks", "N": "nodes", "w": "nodelist", "r": "relative"}
LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")
LAUNCHER_OPTIONS = {
    "nnodes": "", "nproc-per-node": "", "rdzv-backend": "", "rdzv-endpoint": "",
    "rdzv-id": "", "rdzv-conf": "", "max-restarts": "0", "monitor-interval": "0.1",
    "start-method": "spawn", "event-log-handler": "null", "role": "default", "log-dir": "",
    "redirects": "0", "tee": "0", "local-ranks-filter": "", "duplicate-stdout-filters": "",
    "duplicate-stderr-filters": "", "node-rank": "0", "master-addr": "127.0.0.1",
    "master-port": "", "local-addr": "", "logs-specs": "", "numa-binding": "",
    "signals-to-handle": "", "shutdown-timeout": "",
}  # fmt: skip
LAUNCHER_SWITCHES = ("standalone", "module", "no-python", "run-path", "virtual-local-rank")


def note(**what: Any) -> None:
    with Path(os.environ[NOTES]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


def own_node() -> str:
    return os.environ.get("SLURMD_NODENAME", NODES[0])


def addresses() -> dict[str, str]:
    table = {name: f"{SLOW}{number}" for number, name in enumerate(NODES, 1)}
    for number, name in enumerate(NODES, 1):
        table.setdefault(name + os.environ.get(SUFFIX, ""), f"{FAST}{number}")
    return table | {"localhost": "127.0.0.1"}


def address_of(name: str) -> str:
    """ "" where no host has this name."""
    found = addresses().get(name, name if is_address(name) else "")
    if not found:
        note(unknown=name)
    return found


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def getent(words: list[str]) -> int:
    names = [word for word in words[1:] if not word.startswith("-")]
    for name in names or list(addresses()):
        if not (address := address_of(name)):
            return 2
        kinds = ("STREAM", "DGRAM", "RAW") if words[0].startswith("ahosts") else ("",)
        for kind in kinds:
            print(f"{address:<15} {kind:<6} {name}" if kind else f"{address:<15} {name}")
    return 0


def looked_up(words: list[str]) -> int:
    """`dig +short node1i`, `host node1i`."""
    name = next((word for word in words if word[0] not in "-+@"), "")
    address = address_of(name)
    print(address if "+short" in words else f"{name} has address {address}")
    return 0 if address else 1


def hostname(words: list[str]) -> int:
    asks_address = bool({"-i", "-I", "--ip-address", "--all-ip-addresses"} & set(words))
    print(addresses()[own_node()] if asks_address else own_node())
    return 0


def scontrol(words: list[str]) -> int:
    asked = words[1] if len(words) > 1 else ""
    if "hostname".startswith(asked.removesuffix("s")):
        named = words[2] if len(words) > 2 else "["
        print("\n".join(NODES if "[" in named else named.split(",")))
    else:
        print(f"JobId={os.environ['SLURM_JOB_ID']} BatchHost=node1 NodeList=node[1-2] NumNodes=2")
    return 0


def nvidia_smi(_: list[str]) -> int:
    for number in range(int(os.environ["SLURM_GPUS_ON_NODE"])):
        print(f"GPU {number}: none")
    return 0


def srun(words: list[str]) -> int:
    """A process for each task, on both nodes at once."""
    asked, command = srun_options(words)
    note(srun=shlex.join(["srun", *words[: len(words) - len(command)]]))
    places = tasks(asked)
    started = [
        subprocess.Popen(command, env=os.environ | of_task(rank, places))
        for rank in range(len(places))
    ]
    return max(process.wait() for process in started) if command else 1


def srun_options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options by their long names, and the command behind them."""
    asked: dict[str, str] = {}
    left = list(words)
    while left and left[0].startswith("-"):
        word = left.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            takes_next = not equals and name not in SWITCHES
        else:
            name, value = LETTERS.get(word[1], word[1]), word[2:]
            takes_next = not value and word[1] not in SHORT_SWITCHES
        asked[name] = left.pop(0) if takes_next and left else value
    return asked, left


def tasks(asked: dict[str, str]) -> list[int]:
    """The node of each."""
    named = [n for n, name in enumerate(NODES) if name in asked.get("nodelist", "").split(",")]
    nodes = named or list(range(len(NODES)))[int(asked.get("relative", "0")) :]
    if "nodes" in asked:
        nodes = nodes[: int(asked["nodes"].rpartition("-")[2])]
    each = int(asked.get("ntasks-per-node") or os.environ["SLURM_NTASKS_PER_NODE"])
    count = int(asked.get("ntasks") or each * len(nodes))
    nodes = nodes[:count]
    return sorted(nodes[rank % len(nodes)] for rank in range(count))


def of_task(rank: int, places: list[int]) -> dict[str, str]:
    node, count = places[rank], len(set(places))
    return {
        "SLURM_PROCID": str(rank), "SLURM_NODEID": str(sorted(set(places)).index(node)),
        "SLURM_LOCALID": str(rank - places.index(node)), "SLURMD_NODENAME": NODES[node],
        "HOSTNAME": NODES[node], "SLURM_STEP_ID": "0", "SLURM_STEPID": "0",
        "SLURM_NTASKS": str(len(places)), "SLURM_NPROCS": str(len(places)),
        "SLURM_NNODES": str(count), "SLURM_STEP_NUM_NODES": str(count),
        "SLURM_STEP_NUM_TASKS": str(len(places)),
    }  # fmt: skip


class LauncherParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def torchrun(words: list[str]) -> int:
    parser = LauncherParser(add_help=False)
    for name, default in LAUNCHER_OPTIONS.items():
        value = os.environ.get(f"PET_{name.replace('-', '_').upper()}", default)
        letters = {"redirects": ["-r"], "tee": ["-t"]}.get(name, [])
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", *letters, default=value)
    for name in LAUNCHER_SWITCHES:
        letters = ["-m"] if name == "module" else []
        spelled = f"--{name.replace('-', '_')}"
        parser.add_argument(f"--{name}", spelled, *letters, action="store_true")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    place = {"node": own_node(), "by_srun": "SLURM_STEP_ID" in os.environ}
    try:
        note(**place, options=vars(parser.parse_args(words)), error="")
    except ValueError as error:
        note(**place, options={}, error=str(error))
        return 2
    return 0


def python(words: list[str]) -> int:
    """Python itself, which finds the hosts of this cluster; unless it is to be a launcher."""
    if len(words) > 1 and words[0] == "-m" and words[1] in LAUNCHERS:
        return torchrun(words[2:])
    os.environ["PYTHONPATH"] = str(Path(os.environ[NOTES]).parent)
    os.execv(sys.executable, [sys.executable, *words])


def know_hosts() -> None:
    """In a Python that the script starts."""
    import socket

    def resolved(name: str) -> str:
        if found := address_of(name):
            return found
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    asked = socket.getaddrinfo
    socket.gethostname = own_node
    socket.gethostbyname = resolved
    socket.getaddrinfo = lambda host, *more, **named: asked(resolved(host), *more, **named)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "getent": getent, "host": looked_up, "dig": looked_up, "hostname": hostname,
    "scontrol": scontrol, "nvidia-smi": nvidia_smi, "srun": srun, "torchrun": torchrun,
    "python": python, "python3": python,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(COMMANDS[sys.argv[1]](sys.argv[2:]))
