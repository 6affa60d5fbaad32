"""The request for a step, from srun's options and the values of its job."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from course_lib.box.frozen_record import Record
from course_lib.box.queue.records import Allocation
from course_lib.box.scheduling.job_placement import count_of, gres_count, typed_counts
from course_lib.box.scheduling.step_placement import NO_SUCH_DEVICES, Impossible
from course_lib.box.steps.streams import say


class SrunOptions(Record):
    """The options of an srun. None and empty mean "not given". Units are MiB and minutes."""

    command: list[str]
    submit_line: str
    environment: dict[bytes, bytes]
    nodes_min: int | None = None
    nodes_max: int | None = None
    # -N was given on the command line, not by a variable of the job.
    nodes_given_here: bool = False
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    nodelist: str = ""
    exclude: str = ""
    distribution: str = ""
    label: bool = False
    unbuffered: bool = False
    kill_on_bad_exit: bool | None = None
    exact: bool = False
    overlap: bool = False
    overcommit: bool = False
    output: str = ""
    error: str = ""
    input: str = ""
    open_mode: str = ""
    chdir: str = ""
    export: str = ""
    time_min: int | None = None
    wait_s: int | None = None
    job_name: str = ""
    jobid: int | None = None
    gpus: str = ""
    gpus_per_node: str = ""
    gpus_per_task: str = ""
    gres: str = ""
    pty: bool = False
    quiet: int = 0

    def with_submission(self) -> SrunOptions:
        """Return the options with the submission's folder and host, as sbatch would set them."""
        added = {
            b"SLURM_SUBMIT_DIR": os.getcwdb(),
            b"SLURM_SUBMIT_HOST": os.fsencode(os.uname().nodename.partition(".")[0]),
        }
        values = {name: getattr(self, name) for name in self.fields()}
        return SrunOptions(**{**values, "environment": {**self.environment, **added}})


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


def request(options: SrunOptions, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a StepRequest. Impossible requests get Slurm's messages."""
    nodes, tasks, per_node = _counts(options, environment)
    is_range = bool(options.nodes_min) and options.nodes_min != options.nodes_max
    least = min(options.nodes_min or 1, nodes) if is_range else nodes
    own_cpus = options.cpus_per_task or number(environment, "SRUN_CPUS_PER_TASK")
    kind = options.distribution.replace(",", ":").partition(":")[0]
    return {
        "nodes": nodes,
        "tasks": tasks,
        "tasks_per_node": per_node,
        "cpus_per_task": own_cpus or 1,
        "wanted": _wanted(options, nodes),
        "cyclic": {"cyclic": True, "block": False}.get(kind),
        "nodes_least": least,
        "devices": _devices(options),
        "exact": options.exact or own_cpus is not None,
        "overlap": options.overlap,
        "overcommit": options.overcommit,
    }


def _wanted(options: SrunOptions, nodes: int) -> tuple[str, ...]:
    """Return the named nodes, at most as many as -N allows."""
    wanted = tuple(name for name in options.nodelist.split(",") if name)
    most = options.nodes_max or 0
    if options.jobid is not None and options.nodes_given_here and len(wanted) > most > 0:
        say(
            "error: Required nodelist includes more nodes than permitted by max-node count"
            f" ({len(wanted)} > {most}). Eliminating nodes from the nodelist."
        )
    return wanted[:nodes]


def _devices(options: SrunOptions) -> dict[str, Any]:
    """Return the fields of a DeviceRequest."""
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


def _counts(options: SrunOptions, environment: Mapping[str, str]) -> tuple[int, int, int]:
    """Return the numbers of nodes, tasks, and tasks per node (0: not given)."""
    held = number(environment, "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
    nodes = options.nodes_min or held or 1
    if options.jobid is None and held:
        nodes = min(nodes, held)  # because of -n, the job may have fewer nodes than -N asked for
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


def check_nodes(options: SrunOptions, request: dict[str, Any], parts: list[Allocation]) -> None:
    """Raise Impossible with srun's message if the job has too few nodes. `parts` are the job's."""
    asked = min(options.nodes_min or 0, request["nodes"]) if options.jobid is not None else 0
    if asked > len(parts) > 0:
        raise Impossible(f"Only allocated {len(parts)} nodes asked for {asked}")
