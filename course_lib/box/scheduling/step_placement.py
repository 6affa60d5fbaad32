"""Placement of a step on nodes, CPUs and devices of its job, by Slurm's gres rules."""

from __future__ import annotations

from dataclasses import dataclass, field

from course_lib.box.queue.records import Job
from course_lib.box.scheduling import job_placement


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
    devices: tuple[tuple[int, ...], ...] = ()

    @property
    def counts(self) -> list[int]:
        return [len(tasks) for tasks in self.tasks]

    @property
    def total(self) -> int:
        return sum(self.counts)

    def tasks_on(self, node: int) -> list[int]:
        return list(self.tasks[node])

    def node_of(self, task: int) -> int:
        return next(node for node, tasks in enumerate(self.tasks) if task in tasks)


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


NO_SUCH_DEVICES = "Invalid generic resource (gres) specification"
NOT_WITHOUT_DEVICES = "Invalid Trackable RESource (TRES) specification"
TOO_MANY_CPUS = "More processors requested than permitted"

NOT_ENOUGH = (
    "Bind request gpu:per_task:{count} does not specify any devices within the allocation for task"
    " {task}. Binding to the first device in the allocation instead."
)

Devices = tuple[int, ...]


class Impossible(Exception):
    """The step can never run. The text is Slurm's; Slurm prints `remark` before it."""

    def __init__(self, why: str, remark: str = "") -> None:
        super().__init__(why)
        self.remark = remark


class Busy(Exception):
    """Other steps hold resources that the step needs."""


@dataclass(frozen=True)
class DeviceRequest:
    """Devices that a step asks for. 0 means that an option was not given. Several counts may be
    set, because the job's environment variables count too."""

    per_step: int = 0
    per_node: int = 0
    per_task: int = 0
    # Any device option was given, even with 0. Otherwise the step gets all devices of its job.
    given: bool = False
    # --gres=none
    none: bool = False
    types: tuple[str, ...] = ()

    @property
    def anything(self) -> bool:
        return bool(self.per_step or self.per_node or self.per_task or self.types)


@dataclass(frozen=True)
class JobDevices:
    """Devices that the job asked for and has. 0 means that an option was not given."""

    per_job: int = 0
    per_node: int = 0
    per_task: int = 0
    kind: str = ""
    # Devices on each of the job's nodes.
    held: tuple[Devices, ...] = ()
    free: tuple[Devices, ...] = ()
    # The job holds all devices of its nodes, no matter how many it asked for.
    unasked: bool = False

    @classmethod
    def of(cls, job: Job, kind: str, held: list[Devices], free: list[Devices]) -> JobDevices:
        total, per_node, per_task = job_placement.devices_wanted(job)
        per_job = total or per_task * job.tasks
        unasked = bool(job.exclusive)
        return cls(per_job, per_node, per_task, kind, tuple(held), tuple(free), unasked)

    def handed_down(self, request: DeviceRequest) -> DeviceRequest:
        """Use the job's own request if the step names no devices and the job holds whole nodes."""
        if request.given or not self.unasked:
            return request
        return DeviceRequest(self.per_job, self.per_node, self.per_task, given=True)


def check_devices(request: DeviceRequest, job: JobDevices, least_nodes: int) -> None:
    """Refuse requests that the controller refuses before it looks at nodes."""
    if not any(job.held):
        if request.anything:
            raise Impossible(NO_SUCH_DEVICES, "Step requested GRES but job doesn't have GRES")
        return
    if request.none and request.per_node:
        raise Impossible(NOT_WITHOUT_DEVICES)
    if strange := {*request.types} - {"", job.kind}:
        text = f"Step requested GRES (gpu:{min(strange)}) not found in the job"
        raise Impossible(NO_SUCH_DEVICES, text)
    compared = (
        ("gres", request.per_step, job.per_job),
        ("gres_per_node", request.per_node, job.per_node),
        ("gres_per_task", request.per_task, job.per_task),
    )
    for name, wanted, most in compared:
        if wanted > most > 0 and not job.unasked:
            text = f"Step requested {name}=gpu:{wanted} is more than the job's {name}=gpu:{most}"
            raise Impossible(NO_SUCH_DEVICES, text)
    if 0 < request.per_step < least_nodes:
        text = f"gres=gpu:{request.per_step} is less than the requested min nodes={least_nodes}"
        raise Impossible(NO_SUCH_DEVICES, f"Step requested {text}")


def lacking(request: DeviceRequest, job: JobDevices, place: int, nodes: int) -> bool:
    """Return True if other steps hold too many devices of a node for any task of this step."""
    request = job.handed_down(request)
    if request.none or not any(job.held):
        return False
    held, free = job.held[place], job.free[place]
    if not request.given:
        return free != held
    return len(free) < (request.per_node or request.per_task or -(-request.per_step // nodes))


def allot_devices(
    request: DeviceRequest,
    job: JobDevices,
    places: list[int],
    counts: list[int],
    overlap: bool,
) -> tuple[Devices, ...]:
    """Choose the devices of a step on each node. `counts` are its tasks per node."""
    request = job.handed_down(request)
    if request.none or (request.given and not request.anything) or not any(job.held):
        return tuple(() for _ in places)
    held = [job.held[place] for place in places]
    free = held if overlap else [job.free[place] for place in places]
    if not request.given:
        if free != held:
            raise Busy
        return tuple(held)
    needed = _needed(request, counts, [len(devices) for devices in held])
    if sum(map(len, held)) < request.per_step:
        raise Impossible(NO_SUCH_DEVICES)
    if sum(map(len, free)) < request.per_step:
        raise Busy
    if any(number > len(devices) for number, devices in zip(needed, free, strict=True)):
        raise Busy
    return tuple(devices[:number] for number, devices in zip(needed, free, strict=True))


def _needed(request: DeviceRequest, counts: list[int], held: list[int]) -> list[int]:
    """Return the devices needed on each node, by whichever of the three requests applies."""
    if request.per_task > min(held):
        raise Impossible(NO_SUCH_DEVICES)
    if any(n * request.per_task > most for n, most in zip(counts, held, strict=True)):
        raise Impossible(TOO_MANY_CPUS)
    if request.per_node:
        if request.per_node > min(held):
            raise Impossible(NO_SUCH_DEVICES)
        return [request.per_node] * len(held)
    if request.per_task:
        return [count * request.per_task for count in counts]
    return job_placement.spread(request.per_step, held)


def devices_of_task(
    held: Devices, task: int, tasks: int, per_task: int
) -> tuple[Devices, list[str]]:
    """Return the devices of a task on its node, and Slurm's complaints. With --gpus-per-task a task
    gets its own devices, otherwise all of the step. `task` counts the node's `tasks`."""
    if not held or tasks == 1:
        return held, []
    if not per_task:
        return held, []
    own = held[task * per_task : (task + 1) * per_task]
    if len(own) == per_task:
        return own, []
    complaint = NOT_ENOUGH.format(count=per_task, task=task)
    return held[:1], [complaint, "Not enough gpus to bind for gpus per task"]


NOT_AVAILABLE = "Requested node configuration is not available"


@dataclass(frozen=True)
class StepRequest:
    """Request of an srun, completed with values of its job."""

    nodes: int
    tasks: int
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    wanted: tuple[str, ...] = ()
    cyclic: bool | None = None
    devices: DeviceRequest = field(default_factory=DeviceRequest)
    # Fewest nodes that are enough, if `nodes` is the upper end of a range.
    nodes_least: int = 0
    # Takes only the CPUs of its own tasks and leaves the others to further steps.
    exact: bool = False
    overlap: bool = False
    overcommit: bool = False


def allot(
    request: StepRequest,
    names: list[str],
    cpus: list[int],
    free: list[int],
    devices: JobDevices,
    busy: frozenset[int] = frozenset(),
) -> Layout:
    """Return the layout of a step. Raise Busy if it must wait, Impossible if it can never run.
    `cpus`, `free` and `devices` describe the job's nodes: all CPUs, free CPUs and devices. `busy`
    are the positions of nodes on which other steps run."""
    least = request.nodes_least or request.nodes
    check_devices(request.devices, devices, least)
    if not {*request.wanted} <= set(names):
        raise Impossible(NOT_AVAILABLE)
    room = cpus if request.overlap else free
    places = _places(request, names, room, devices, busy)
    counts = _counts(request, [cpus[place] for place in places])
    own = allot_devices(request.devices, devices, places, counts, request.overlap)
    needed = [number * request.cpus_per_task for number in counts]
    if not request.overcommit:
        chosen = bool(request.wanted) and len(places) < len(names)
        _check_cpus(
            needed, [cpus[place] for place in places], [room[place] for place in places], chosen
        )
    held = tuple(
        min(need, cpus[place]) if request.exact else cpus[place]
        for need, place in zip(needed, places, strict=True)
    )
    tasks = number_tasks(counts, _tasks_at_once(request, len(places)))
    return Layout(places=tuple(places), tasks=tasks, cpus=held, devices=own)


def _places(
    request: StepRequest,
    names: list[str],
    room: list[int],
    devices: JobDevices,
    busy: frozenset[int],
) -> list[int]:
    """Choose nodes: named nodes, then nodes with room. Nodes without a step come first."""
    able = list(range(len(names)))
    least = request.nodes_least or request.nodes
    count = max(least, min(request.nodes, len(able)), len(request.wanted))
    if count > len(able):
        raise Impossible(NOT_AVAILABLE)

    def rank(place: int) -> tuple[bool, bool, bool]:
        lacks_devices = not request.overlap and lacking(request.devices, devices, place, count)
        lacks = room[place] < request.cpus_per_task or lacks_devices
        return names[place] not in request.wanted, lacks, place in busy

    return sorted(sorted(able, key=rank)[:count])


def _tasks_at_once(request: StepRequest, nodes: int) -> int:
    """Return the number of tasks that a node gets per turn."""
    cyclic = nodes >= request.tasks if request.cyclic is None else request.cyclic
    return 1 if cyclic else request.tasks


def _counts(request: StepRequest, cpus: list[int]) -> list[int]:
    per_node = request.tasks_per_node
    if per_node and per_node * len(cpus) == request.tasks:
        return [per_node] * len(cpus)
    capacity = [max(1, number // request.cpus_per_task) for number in cpus]
    return share_tasks(request.tasks, capacity)


def _check_cpus(needed: list[int], cpus: list[int], free: list[int], chosen: bool) -> None:
    """Check the CPUs of all nodes together; one node may get more tasks than it has CPUs. `chosen`
    means that the step excluded other nodes of the job by name."""
    if sum(needed) > sum(cpus):
        raise Impossible(NOT_AVAILABLE if chosen else TOO_MANY_CPUS)
    if any(min(n, most) > left for n, most, left in zip(needed, cpus, free, strict=True)):
        raise Busy
