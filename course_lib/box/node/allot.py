"""Which nodes, tasks and CPUs of a job a step gets; pure."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.box.node.layout import Layout, share, spread

NOT_AVAILABLE = "Requested node configuration is not available"
TOO_MANY_CPUS = "More processors requested than permitted"


@dataclass(frozen=True)
class Request:
    """What an srun asks for, with what it inherited from its job already put in."""

    nodes: int
    tasks: int
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    wanted: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    cyclic: bool | None = None
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


def allot(request: Request, names: list[str], cpus: list[int], free: list[int]) -> Layout:
    """`cpus` of the job and `free` ones on each of its nodes."""
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
    needed = [number * request.cpus_per_task for number in counts]
    if not request.overcommit and not request.overlap:
        _check(needed, [cpus[place] for place in places], [free[place] for place in places])
    cyclic = len(places) >= request.tasks if request.cyclic is None else request.cyclic
    held = tuple(
        min(need, cpus[place]) if request.exact else cpus[place]
        for need, place in zip(needed, places, strict=True)
    )
    return Layout(places=tuple(places), tasks=spread(counts, cyclic), cpus=held)


def _counts(request: Request, cpus: list[int]) -> list[int]:
    per_node = request.tasks_per_node
    if per_node and per_node * len(cpus) == request.tasks:
        return [per_node] * len(cpus)
    capacity = [max(1, number // request.cpus_per_task) for number in cpus]
    return share(request.tasks, capacity, bool(request.cyclic))


def _check(needed: list[int], cpus: list[int], free: list[int]) -> None:
    pairs = list(zip(needed, cpus, strict=True))
    if any(need > most for need, most in pairs):
        raise Impossible(TOO_MANY_CPUS)
    if any(need > left for need, left in zip(needed, free, strict=True)):
        raise Busy
