"""Which devices of its job a step gets: the rules of Slurm's gres plugins."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.box.queue.records import Job
from course_lib.box.scheduling import job_placement

NO_SUCH_DEVICES = "Invalid generic resource (gres) specification"
NOT_WITHOUT_DEVICES = "Invalid Trackable RESource (TRES) specification"
TOO_MANY_CPUS = "More processors requested than permitted"

Devices = tuple[int, ...]


class Impossible(Exception):
    """Not now and not later; the text is Slurm's, and a remark that it makes before."""

    def __init__(self, why: str, remark: str = "") -> None:
        super().__init__(why)
        self.remark = remark


class Busy(Exception):
    """Other steps hold what it needs."""


@dataclass(frozen=True)
class DeviceRequest:
    """0: not asked for in this way. What the variables of the job say counts too, so that several
    may be set."""

    per_step: int = 0
    per_node: int = 0
    per_task: int = 0
    given: bool = False
    """In any way, 0 too; else the step gets all that its job has on the node."""
    none: bool = False
    """--gres=none"""
    types: tuple[str, ...] = ()

    @property
    def anything(self) -> bool:
        return bool(self.per_step or self.per_node or self.per_task or self.types)


@dataclass(frozen=True)
class JobDevices:
    """What the job asked for and has; 0: not asked for in this way."""

    per_job: int = 0
    per_node: int = 0
    per_task: int = 0
    kind: str = ""
    held: tuple[Devices, ...] = ()
    """On each of its nodes."""
    free: tuple[Devices, ...] = ()
    unasked: bool = False
    """It holds all devices of its nodes, however many it asked for."""

    @classmethod
    def of(cls, job: Job, kind: str, held: list[Devices], free: list[Devices]) -> JobDevices:
        total, per_node, per_task = job_placement.devices_wanted(job)
        per_job = total or per_task * job.tasks
        unasked = bool(job.exclusive)
        return cls(per_job, per_node, per_task, kind, tuple(held), tuple(free), unasked)

    def handed_down(self, request: DeviceRequest) -> DeviceRequest:
        """What a step that asks for no devices gets, where the job holds more than it asked for."""
        if request.given or not self.unasked:
            return request
        return DeviceRequest(self.per_job, self.per_node, self.per_task, given=True)


def check(request: DeviceRequest, job: JobDevices, least_nodes: int) -> None:
    """What the controller sees before it looks at nodes."""
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
    """Whether other steps hold so many devices of a node that none of the step's tasks fits."""
    request = job.handed_down(request)
    if request.none or not any(job.held):
        return False
    held, free = job.held[place], job.free[place]
    if not request.given:
        return free != held
    return len(free) < (request.per_node or request.per_task or -(-request.per_step // nodes))


def allot(
    request: DeviceRequest,
    job: JobDevices,
    places: list[int],
    counts: list[int],
    overlap: bool,
) -> tuple[Devices, ...]:
    """`counts`: tasks on each of those nodes of the job."""
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
    """On each node: of the three ways to ask, the one that decides."""
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
