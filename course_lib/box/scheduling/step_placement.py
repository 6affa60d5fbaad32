"""Which nodes, tasks and CPUs of a job a step gets."""

from __future__ import annotations

from dataclasses import dataclass, field

from course_lib.box.scheduling import step_devices
from course_lib.box.scheduling.step_devices import Busy, DeviceRequest, Impossible, JobDevices
from course_lib.box.scheduling.task_layout import Layout, share, spread

NOT_AVAILABLE = "Requested node configuration is not available"
TOO_MANY_CPUS = "More processors requested than permitted"


@dataclass(frozen=True)
class StepRequest:
    """What an srun asks for, with what it inherited from its job already put in."""

    nodes: int
    tasks: int
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    wanted: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    cyclic: bool | None = None
    plane: int = 0
    """Tasks that a node gets at once; 0: not said."""
    devices: DeviceRequest = field(default_factory=DeviceRequest)
    nodes_least: int = 0
    """Fewest that will do, where `nodes` is the most of a range."""
    exact: bool = False
    """Takes only the CPUs of its tasks, and leaves the others to further steps."""
    overlap: bool = False
    overcommit: bool = False
    relative: int = 0
    """Nodes of the job that are passed over."""


def allot(
    request: StepRequest,
    names: list[str],
    cpus: list[int],
    free: list[int],
    devices: JobDevices,
    busy: frozenset[int] = frozenset(),
) -> Layout:
    """`cpus` of the job and `free` ones, and its devices, on each of its nodes; `busy`: those of
    its nodes on which other steps run."""
    least = request.nodes_least or request.nodes
    step_devices.check(request.devices, devices, least)
    if not {*request.wanted} <= set(names):
        raise Impossible(NOT_AVAILABLE)
    room = cpus if request.overlap else free
    places = _places(request, names, room, devices, busy)
    counts = _counts(request, [cpus[place] for place in places])
    own = step_devices.allot(request.devices, devices, places, counts, request.overlap)
    needed = [number * request.cpus_per_task for number in counts]
    if not request.overcommit:
        chosen = bool(request.excluded or request.wanted) and len(places) < len(names)
        _check(needed, [cpus[place] for place in places], [room[place] for place in places], chosen)
    held = tuple(
        min(need, cpus[place]) if request.exact else cpus[place]
        for need, place in zip(needed, places, strict=True)
    )
    tasks = spread(counts, _tasks_at_once(request, len(places)))
    return Layout(places=tuple(places), tasks=tasks, cpus=held, devices=own)


def _places(
    request: StepRequest,
    names: list[str],
    room: list[int],
    devices: JobDevices,
    busy: frozenset[int],
) -> list[int]:
    """Nodes named by the step, then those with room, of these first such as have no step yet."""
    able = [
        place
        for place, name in enumerate(names)
        if name not in request.excluded and place >= request.relative
    ]
    least = request.nodes_least or request.nodes
    count = max(least, min(request.nodes, len(able)), len(request.wanted))
    if count > len(able):
        raise Impossible(NOT_AVAILABLE)

    def rank(place: int) -> tuple[bool, bool, bool]:
        lacks_devices = not request.overlap and step_devices.lacking(
            request.devices, devices, place, count
        )
        lacks = room[place] < request.cpus_per_task or lacks_devices
        return names[place] not in request.wanted, lacks, place in busy

    return sorted(sorted(able, key=rank)[:count])


def _tasks_at_once(request: StepRequest, nodes: int) -> int:
    """That a node gets before it is the next one's turn."""
    cyclic = nodes >= request.tasks if request.cyclic is None else request.cyclic
    return request.plane or (1 if cyclic else request.tasks)


def _counts(request: StepRequest, cpus: list[int]) -> list[int]:
    per_node = request.tasks_per_node
    if per_node and per_node * len(cpus) == request.tasks:
        return [per_node] * len(cpus)
    if request.plane == 1:
        return share(request.tasks, [request.tasks] * len(cpus))
    capacity = [max(1, number // request.cpus_per_task) for number in cpus]
    return share(request.tasks, capacity)


def _check(needed: list[int], cpus: list[int], free: list[int], chosen: bool) -> None:
    """The CPUs of all nodes count together; a node may be given more tasks than it has. `chosen`:
    other nodes of the job were ruled out by name."""
    if sum(needed) > sum(cpus):
        raise Impossible(NOT_AVAILABLE if chosen else TOO_MANY_CPUS)
    if any(min(n, most) > left for n, most, left in zip(needed, cpus, free, strict=True)):
        raise Busy
