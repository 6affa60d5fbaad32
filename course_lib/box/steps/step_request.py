"""From srun's options, and what its job hands down, to the request for a step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

from course_lib.box.scheduling.job_placement import count_of
from course_lib.box.steps.task_ends import say


class Options(Protocol):
    """What the command line of srun and its variables say; None or empty: not given."""

    command: list[str]
    nodes_min: int | None
    ntasks: int | None
    ntasks_per_node: int | None
    cpus_per_task: int | None
    nodelist: str
    exclude: str
    distribution: str
    label: bool
    kill_on_bad_exit: bool | None
    exclusive: bool
    exact: bool
    overlap: bool
    overcommit: bool
    relative: int | None
    output: str
    error: str
    input: str
    open_mode: str
    chdir: str
    export: str
    time_min: int | None
    wait_s: int | None
    job_name: str
    unbuffered: bool
    gpus_per_task: str
    gres: str
    quiet: int
    jobid: int | None
    submit_line: str
    environment: dict[bytes, bytes]


def user_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def number(environment: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        if environment.get(name, "").isdigit():
            return int(environment[name])
    return None


def request(options: Options, environment: Mapping[str, str]) -> dict[str, Any]:
    """Fields of `allot.Request`; says what it cannot honour, in Slurm's words."""
    nodes, tasks, per_node = _counts(options, environment)
    own_cpus = options.cpus_per_task or number(environment, "SRUN_CPUS_PER_TASK")
    kind, _, plane = options.distribution.replace(",", ":").partition(":")[0].partition("=")
    return {
        "nodes": nodes,
        "tasks": tasks,
        "tasks_per_node": per_node,
        "cpus_per_task": own_cpus or 1,
        "wanted": tuple(name for name in options.nodelist.split(",") if name),
        "excluded": tuple(name for name in options.exclude.split(",") if name),
        "cyclic": {"cyclic": True, "block": False}.get(kind),
        "plane": int(plane or 0) if kind == "plane" else 0,
        "devices_per_task": count_of(options.gpus_per_task),
        "no_devices": options.gres == "none",
        "exact": options.exact or options.exclusive or own_cpus is not None,
        "overlap": options.overlap,
        "overcommit": options.overcommit,
        "relative": options.relative or 0,
    }


def _counts(options: Options, environment: Mapping[str, str]) -> tuple[int, int, int]:
    """Nodes, tasks, and tasks per node (0: not said)."""
    nodes = options.nodes_min or number(environment, "SLURM_NNODES", "SLURM_JOB_NUM_NODES") or 1
    per_node = options.ntasks_per_node or number(environment, "SLURM_NTASKS_PER_NODE") or 0
    tasks = options.ntasks or number(environment, "SLURM_NTASKS", "SLURM_NPROCS")
    if options.ntasks is None and options.ntasks_per_node and options.nodes_min:
        tasks = nodes * options.ntasks_per_node
    if tasks is None:
        tasks = nodes * (per_node or 1)
    if tasks < nodes:
        say(f"Warning: can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}")
        nodes = tasks
    if per_node and tasks > nodes and tasks != nodes * per_node:
        say(
            f"Warning: can't honor --ntasks-per-node set to {per_node} which doesn't match the"
            f" requested tasks {tasks} with the number of requested nodes {nodes}."
            " Ignoring --ntasks-per-node."
        )
        per_node = 0
    return nodes, tasks, per_node


def exported(choice: str, own: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """The environment of the tasks (--export, SLURM_EXPORT_ENV)."""
    if choice in ("", "ALL"):
        return own
    slurm = {name: text for name, text in own.items() if name.startswith(b"SLURM_")}
    if choice == "NONE":
        return slurm
    names = choice.encode(errors="surrogateescape").split(b",")
    found = dict(own) if b"ALL" in names else slurm
    for item in names:
        name, equals, text = item.partition(b"=")
        if equals:
            found[name] = text
        elif name in own:
            found[name] = own[name]
    return found
