"""Which nodes, tasks and CPUs of a job a step gets."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.box.scheduling.task_layout import Layout, share, spread

NOT_AVAILABLE = "Requested node configuration is not available"
TOO_MANY_CPUS = "More processors requested than permitted"
NO_SUCH_DEVICES = "Invalid generic resource (gres) specification"
NOT_WITHOUT_DEVICES = "Invalid Trackable RESource (TRES) specification"


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
    devices_per_task: int = 0
    no_devices: bool = False
    exact: bool = False
    """Takes only the CPUs of its tasks, and leaves the others to further steps."""
    overlap: bool = False
    overcommit: bool = False
    relative: int = 0
    """Nodes of the job that are passed over."""


class Impossible(Exception):
    """Not now and not later; the text is Slurm's."""


class Busy(Exception):
    """Other steps hold the CPUs."""


def allot(
    request: StepRequest, names: list[str], cpus: list[int], free: list[int], devices: list[int]
) -> Layout:
    """`cpus` of the job and `free` ones, and its devices, on each of its nodes."""
    if not {*request.wanted, *request.excluded} <= set(names):
        raise Impossible(NOT_AVAILABLE)
    able = [
        place
        for place, name in enumerate(names)
        if name not in request.excluded and place >= request.relative
    ]
    count = max(request.nodes, len(request.wanted))
    if count > len(able):
        raise Impossible(NOT_AVAILABLE)
    room = cpus if request.overlap else free
    first = [place for place in able if names[place] in request.wanted]
    rest = [place for place in able if place not in first]
    rest.sort(key=lambda place: room[place] < request.cpus_per_task)
    places = sorted([*first, *rest][:count])
    counts = _counts(request, [cpus[place] for place in places])
    _check_devices(request, counts, [devices[place] for place in places])
    needed = [number * request.cpus_per_task for number in counts]
    if not request.overcommit and not request.overlap:
        _check(needed, [cpus[place] for place in places], [free[place] for place in places])
    held = tuple(
        min(need, cpus[place]) if request.exact else cpus[place]
        for need, place in zip(needed, places, strict=True)
    )
    tasks = spread(counts, _tasks_at_once(request, len(places)))
    return Layout(places=tuple(places), tasks=tasks, cpus=held)


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


def _check(needed: list[int], cpus: list[int], free: list[int]) -> None:
    """The CPUs of all nodes count together; a node may be given more tasks than it has."""
    if sum(needed) > sum(cpus):
        raise Impossible(TOO_MANY_CPUS)
    if any(min(n, most) > left for n, most, left in zip(needed, cpus, free, strict=True)):
        raise Busy


def _check_devices(request: StepRequest, counts: list[int], devices: list[int]) -> None:
    if request.no_devices and any(devices):
        raise Impossible(NOT_WITHOUT_DEVICES)
    if request.devices_per_task > max(devices):
        raise Impossible(NO_SUCH_DEVICES)
    if any(n * request.devices_per_task > held for n, held in zip(counts, devices, strict=True)):
        raise Impossible(TOO_MANY_CPUS)
