"""Placement of a step on nodes, CPUs and devices of its job, by Slurm's gres rules."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.box.scheduling import job_placement

Devices = tuple[int, ...]


@dataclass(frozen=True)
class StepRequest:
    """Request of an srun, completed with values of its job."""

    nodes: int
    tasks: int
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    wanted: tuple[str, ...] = ()
    cyclic: bool | None = None
    # Counts of devices, None if an option was not given. Several counts may be set, because the
    # job's environment variables count too.
    gpus: int | None = None
    gpus_per_node: int | None = None
    gpus_per_task: int | None = None
    # Takes only the CPUs of its own tasks and leaves the others to further steps.
    exact: bool = False
    overlap: bool = False


@dataclass(frozen=True)
class JobNode:
    """A node of the job, with the CPUs and devices that it holds and that no step uses now."""

    name: str
    cpus: int
    free_cpus: int
    devices: Devices = ()
    free_devices: Devices = ()
    # Another step runs on the node.
    busy: bool = False


@dataclass(frozen=True)
class Layout:
    """The nodes of a step, in order, with its tasks, CPUs and devices on each node."""

    # Position of each node in the job's allocation.
    places: tuple[int, ...]
    # Task numbers on each node.
    tasks: tuple[tuple[int, ...], ...]
    # CPUs of the step on each node.
    cpus: tuple[int, ...]
    # Devices of the step on each node, by the node's own numbers.
    devices: tuple[Devices, ...] = ()

    @property
    def counts(self) -> list[int]:
        return [len(tasks) for tasks in self.tasks]

    def node_of(self, task: int) -> int:
        return next(node for node, tasks in enumerate(self.tasks) if task in tasks)


class Impossible(Exception):
    """Error: the step can never run. The text is Slurm's; Slurm prints `remark` first."""

    def __init__(self, why: str, remark: str = "") -> None:
        super().__init__(why)
        self.remark = remark


class Busy(Exception):
    """Error: other steps hold resources that the step needs."""


NOT_AVAILABLE = "Requested node configuration is not available"
NO_SUCH_DEVICES = "Invalid generic resource (gres) specification"
TOO_MANY_CPUS = "More processors requested than permitted"


def allot(request: StepRequest, nodes: list[JobNode]) -> Layout:
    """Return the layout of a step on nodes of its job. Raise Busy if the step must wait, and
    Impossible if it can never run."""
    if not {*request.wanted} <= {node.name for node in nodes}:
        raise Impossible(NOT_AVAILABLE)
    places = _places(request, nodes)
    chosen = [nodes[place] for place in places]
    counts = _counts(request, [node.cpus for node in chosen])
    devices = _devices(request, chosen, counts)
    needed = [count * request.cpus_per_task for count in counts]
    if sum(needed) > sum(node.cpus for node in chosen):
        named_others = bool(request.wanted) and len(chosen) < len(nodes)
        raise Impossible(NOT_AVAILABLE if named_others else TOO_MANY_CPUS)
    # One node may get more tasks than it has CPUs, because only their sum is checked.
    cpus = [min(count, node.cpus) for count, node in zip(needed, chosen, strict=True)]
    free = [node.cpus if request.overlap else node.free_cpus for node in chosen]
    if any(number > left for number, left in zip(cpus, free, strict=True)):
        raise Busy
    cyclic = len(places) >= request.tasks if request.cyclic is None else request.cyclic
    return Layout(
        places=tuple(places),
        tasks=number_tasks(counts, 1 if cyclic else request.tasks),
        cpus=tuple(cpus if request.exact else [node.cpus for node in chosen]),
        devices=devices,
    )


def _places(request: StepRequest, nodes: list[JobNode]) -> list[int]:
    """Choose nodes: named nodes, then nodes with room. Nodes without a step come first."""
    count = max(request.nodes, len(request.wanted))
    if count > len(nodes):
        raise Impossible(NOT_AVAILABLE)

    def rank(place: int) -> tuple[bool, bool, bool]:
        node = nodes[place]
        devices = request.gpus_per_node or request.gpus_per_task or -(-(request.gpus or 0) // count)
        if not _asks_for_devices(request):
            devices = len(node.devices)
        lacks = node.free_cpus < request.cpus_per_task or len(node.free_devices) < devices
        return node.name not in request.wanted, lacks and not request.overlap, node.busy

    return sorted(sorted(range(len(nodes)), key=rank)[:count])


def _counts(request: StepRequest, cpus: list[int]) -> list[int]:
    per_node = request.tasks_per_node
    if per_node and per_node * len(cpus) == request.tasks:
        return [per_node] * len(cpus)
    return share_tasks(request.tasks, [max(1, n // request.cpus_per_task) for n in cpus])


def share_tasks(total: int, capacity: list[int]) -> list[int]:
    """Return the number of tasks per node. Each turn gives one task to each node with room. If no
    node has room, each turn gives one to every node."""
    counts = [1] * len(capacity)
    left = total - len(capacity)
    while left > 0:
        room = [node for node, most in enumerate(capacity) if counts[node] < most]
        for node in (room or range(len(capacity)))[:left]:
            counts[node] += 1
            left -= 1
    return counts


def number_tasks(counts: list[int], at_once: int) -> tuple[tuple[int, ...], ...]:
    """Number the tasks. Each turn gives a node `at_once` tasks (block: all, cyclic: one)."""
    tasks: list[list[int]] = [[] for _ in counts]
    number = 0
    while number < sum(counts):
        for node, count in enumerate(counts):
            take = min(at_once, count - len(tasks[node]))
            tasks[node] += range(number, number + take)
            number += take
    return tuple(map(tuple, tasks))


def _asks_for_devices(request: StepRequest) -> bool:
    counts = (request.gpus, request.gpus_per_node, request.gpus_per_task)
    return any(count is not None for count in counts)


def _devices(request: StepRequest, nodes: list[JobNode], counts: list[int]) -> tuple[Devices, ...]:
    """Choose the devices of a step on each node. Without a request the step gets all of them."""
    held = [len(node.devices) for node in nodes]
    if not any(held) and (request.gpus or request.gpus_per_node or request.gpus_per_task):
        raise Impossible(NO_SUCH_DEVICES, "Step requested GRES but job doesn't have GRES")
    if (request.gpus or 0) > sum(held):
        raise Impossible(NO_SUCH_DEVICES)
    needed = _needed(request, counts, held) if _asks_for_devices(request) else held
    if any(count > most for count, most in zip(needed, held, strict=True)):
        raise Impossible(NO_SUCH_DEVICES)
    free = [node.devices if request.overlap else node.free_devices for node in nodes]
    if any(count > len(devices) for count, devices in zip(needed, free, strict=True)):
        raise Busy
    return tuple(devices[:count] for devices, count in zip(free, needed, strict=True))


def _needed(request: StepRequest, counts: list[int], held: list[int]) -> list[int]:
    """Return the devices needed on each node, by the first of the three requests that applies."""
    of_tasks = [count * (request.gpus_per_task or 0) for count in counts]
    on_each = request.gpus_per_node
    most = [on_each] * len(held) if on_each else held
    if any(count > limit for count, limit in zip(of_tasks, most, strict=True)):
        raise Impossible(TOO_MANY_CPUS)
    if on_each:
        return [on_each] * len(held)
    if request.gpus_per_task:
        return of_tasks
    return job_placement.spread(request.gpus or 0, held)


def devices_of_task(held: Devices, task: int, tasks: int, per_task: int) -> Devices:
    """Return the devices of a task on its node. With --gpus-per-task a task gets its own devices,
    otherwise all of the step. `task` counts the node's `tasks`."""
    if tasks == 1 or not per_task:
        return held
    return held[task * per_task : (task + 1) * per_task]
