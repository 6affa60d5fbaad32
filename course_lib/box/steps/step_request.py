"""From srun's options, and what its job hands down, to the request for a step."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

from course_lib.box.scheduling.job_placement import count_of, gres_count, typed_counts
from course_lib.box.scheduling.step_devices import NO_SUCH_DEVICES, Impossible
from course_lib.box.steps.task_ends import say


class Options(Protocol):
    """What the command line of srun and its variables say; None or empty: not given."""

    command: list[str]
    nodes_min: int | None
    nodes_max: int | None
    nodes_given_here: bool
    ntasks: int | None
    ntasks_per_node: int | None
    cpus_per_task: int | None
    nodelist: str
    exclude: str
    distribution: str
    label: bool
    kill_on_bad_exit: bool | None
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
    gpus: str
    gpus_per_node: str
    gpus_per_task: str
    gres: str
    gpu_bind: str
    tasks_per_gpu: int | None
    quiet: int
    pty: bool
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
    is_range = bool(options.nodes_min) and options.nodes_min != options.nodes_max
    least = min(options.nodes_min or 1, nodes) if is_range else nodes
    own_cpus = options.cpus_per_task or number(environment, "SRUN_CPUS_PER_TASK")
    kind, _, plane = options.distribution.replace(",", ":").partition(":")[0].partition("=")
    return {
        "nodes": nodes,
        "tasks": tasks,
        "tasks_per_node": per_node,
        "cpus_per_task": own_cpus or 1,
        "wanted": _wanted(options, nodes),
        "excluded": tuple(name for name in options.exclude.split(",") if name),
        "cyclic": {"cyclic": True, "block": False}.get(kind),
        "plane": int(plane or 0) if kind == "plane" else 0,
        "nodes_least": least,
        "devices": _devices(options),
        "exact": options.exact or own_cpus is not None,
        "overlap": options.overlap,
        "overcommit": options.overcommit,
        "relative": options.relative or 0,
    }


def _wanted(options: Options, nodes: int) -> tuple[str, ...]:
    """Of the nodes that are named, as many as -N allows."""
    wanted = tuple(name for name in options.nodelist.split(",") if name)
    most = options.nodes_max or 0
    if options.jobid is not None and options.nodes_given_here and len(wanted) > most > 0:
        say(
            "error: Required nodelist includes more nodes than permitted by max-node count"
            f" ({len(wanted)} > {most}). Eliminating nodes from the nodelist."
        )
    return wanted[:nodes]


def _devices(options: Options) -> dict[str, Any]:
    """Fields of a DeviceRequest."""
    texts = (options.gpus, options.gpus_per_node, options.gpus_per_task, options.gres)
    names = {piece.partition(":")[0] for piece in options.gres.split(",") if piece}
    if not names <= {"gpu", "none"}:
        raise Impossible(NO_SUCH_DEVICES)
    kinds = [kind for kind, _ in typed_counts(*texts)]
    if len({bool(kind) for kind in kinds}) > 1:
        raise Impossible("Invalid GRES specification (with and without type identification)")
    return {
        "per_step": count_of(options.gpus),
        "per_node": gres_count(options.gres) or count_of(options.gpus_per_node),
        "per_task": count_of(options.gpus_per_task),
        "given": any(texts),
        "none": options.gres == "none",
        "types": tuple(filter(None, kinds)),
    }


def binding(options: Options) -> str:
    """--gpu-bind, said or implied."""
    if options.gpu_bind:
        return options.gpu_bind
    if options.tasks_per_gpu:
        return f"single:{options.tasks_per_gpu}"
    per_task = count_of(options.gpus_per_task)
    return f"per_task:{per_task}" if per_task else ""


def _counts(options: Options, environment: Mapping[str, str]) -> tuple[int, int, int]:
    """Nodes, tasks, and tasks per node (0: not said)."""
    held = number(environment, "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
    nodes = options.nodes_min or held or 1
    if options.jobid is None and held:
        nodes = min(nodes, held)  # -n may have left the job fewer than -N asked for
    is_range = bool(options.nodes_min) and options.nodes_max != nodes
    if is_range:
        nodes = max(nodes, min(options.nodes_max or nodes, held or nodes))
    per_node = options.ntasks_per_node or number(environment, "SLURM_NTASKS_PER_NODE") or 0
    tasks = options.ntasks or number(environment, "SLURM_NTASKS", "SLURM_NPROCS")
    if options.ntasks is None and options.ntasks_per_node and options.nodes_min:
        tasks = nodes * options.ntasks_per_node
    if tasks is None:
        tasks = nodes * (per_node or 1)
    if tasks < nodes:
        if options.nodes_min and not is_range:
            say(f"Warning: can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}")
        nodes = tasks
    if 0 < per_node < tasks and tasks // nodes != per_node:
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
