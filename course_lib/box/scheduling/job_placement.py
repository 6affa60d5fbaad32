"""Placement of a job: its nodes, CPUs and devices. No state file is needed, which eases tests.

The rules are Slurm's select/cons_tres rules with cores and devices as resources.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice

from course_lib.box import hostlist
from course_lib.box.queue.records import Allocation, Job
from course_lib.box.settings import Settings

MOST_CHOICES = 200


class FreeNode:
    """The remaining CPUs and devices of a node during a scheduling pass."""

    def __init__(self, name: str, cpus: int, devices: int) -> None:
        self.name = name
        self.total_cpus = cpus
        self.cpus = list(range(cpus))
        self.devices = list(range(devices))
        self.exclusive = False
        self.jobs = 0

    def take(self, part: Allocation, exclusive: bool) -> None:
        self.cpus = [cpu for cpu in self.cpus if cpu not in part.cpus]
        self.devices = [device for device in self.devices if device not in part.devices]
        self.exclusive = self.exclusive or exclusive
        self.jobs += 1


def empty_nodes(settings: Settings) -> list[FreeNode]:
    return [
        FreeNode(name, settings.cpus_per_node, settings.devices_per_node)
        for name in settings.node_names
    ]


def per_node(job: Job) -> int:
    """Return the devices that a job asks for on each node; 0 if it asks in another way."""
    return job.gpus_per_node or job.gres


def place(job: Job, nodes: list[FreeNode]) -> list[Allocation] | None:
    """Return the parts of these nodes that the job would get, or None if it does not fit now."""
    wanted = set(hostlist.expand(job.want_nodes))
    excluded = set(hostlist.expand(job.exclude_nodes))
    usable = [node for node in nodes if node.name not in excluded and _is_open(job, node)]
    if wanted - {node.name for node in usable}:
        return None
    required = [node for node in usable if node.name in wanted]
    others = [node for node in usable if node.name not in wanted]
    least = max(job.nodes_min, len(required))
    counts = range(least, (least if job.nodes_given else len(usable)) + 1)
    for count in counts:
        for chosen in _choices(required, others, count):
            parts = _share(job, chosen)
            if parts:
                return parts
    return None


def _is_open(job: Job, node: FreeNode) -> bool:
    return not node.jobs if job.exclusive else not node.exclusive and bool(node.cpus)


def _choices(
    required: list[FreeNode], others: list[FreeNode], count: int
) -> Iterator[list[FreeNode]]:
    """Yield sets of `count` nodes that include the required ones, in node order."""
    for chosen in islice(combinations(others, max(count - len(required), 0)), MOST_CHOICES):
        yield sorted([*required, *chosen], key=lambda node: hostlist.natural(node.name))


def _share(job: Job, nodes: list[FreeNode]) -> list[Allocation] | None:
    tasks = _tasks_on(job, nodes)
    devices = _devices_on(job, nodes, tasks) if tasks else None
    if tasks is None or devices is None:
        return None
    parts = []
    for node, task_count, device_count in zip(nodes, tasks, devices, strict=True):
        cpus = cpus_for(job, task_count)
        if cpus > len(node.cpus) or device_count > len(node.devices):
            return None
        parts.append(
            Allocation(
                node=node.name,
                cpus=tuple(node.cpus if job.exclusive else node.cpus[:cpus]),
                devices=tuple(node.devices[:device_count]),
                tasks=task_count,
            )
        )
    return parts


def cpus_for(job: Job, tasks: int) -> int:
    return max(tasks, 1) * max(job.cpus_per_task, 1)


def _tasks_on(job: Job, nodes: list[FreeNode]) -> list[int] | None:
    """Fill the first nodes, but leave at least one task for each later node."""
    if job.tasks_per_node and (not job.tasks_given or len(nodes) > 1):
        enough = not job.tasks_given or job.tasks <= job.tasks_per_node * len(nodes)
        return [job.tasks_per_node] * len(nodes) if enough else None
    if not job.tasks_given:
        whole = job.exclusive
        return [node.total_cpus // max(job.cpus_per_task, 1) if whole else 1 for node in nodes]
    room = [_room(job, node) for node in nodes]
    given, left = [], job.tasks
    for place_, free in enumerate(room):
        others = len(nodes) - place_ - 1
        given.append(min(free, left - others))
        left -= given[-1]
    return given if not left and min(given) > 0 else None


def _room(job: Job, node: FreeNode) -> int:
    """Return the number of tasks for which the node has CPUs and devices."""
    room = len(node.cpus) // max(job.cpus_per_task, 1)
    if job.tasks_per_node:
        room = min(room, job.tasks_per_node)
    if not job.gpus_per_task:
        return room
    return min(room, (per_node(job) or len(node.devices)) // job.gpus_per_task)


def _devices_on(job: Job, nodes: list[FreeNode], tasks: list[int]) -> list[int] | None:
    on_each, per_task = per_node(job), job.gpus_per_task
    if on_each:
        fits = not per_task or all(per_task * count == on_each for count in tasks)
        return [on_each] * len(nodes) if fits else None
    if per_task:
        return [per_task * count for count in tasks]
    shares = spread(job.gpus, [len(node.devices) for node in nodes])
    return shares if sum(shares) == job.gpus else None


def spread(total: int, held: list[int]) -> list[int]:
    """Fill each node with devices in turn, but leave at least one for each later node."""
    shares, left = [], total
    for place_, most in enumerate(held):
        later = len(held) - place_ - 1
        share = max(min(most, left - later), 0)
        shares.append(share)
        left -= share
    return shares


class NeverFits(Exception):
    """Error: no node can satisfy the request. The text is Slurm's remark, or empty."""


def place_on_empty_box(job: Job, box: Settings) -> list[Allocation]:
    """Return the parts that the job would get. Raise NeverFits if it cannot run."""
    cpus = max(job.tasks_per_node, 1) * max(job.cpus_per_task, 1)
    if cpus > box.cpus_per_node:
        raise NeverFits("CPU count per node can not be satisfied")
    if max(int(job.memory or 0), int(job.memory_per_cpu or 0)) > box.memory_per_node_mib:
        raise NeverFits("Memory specification can not be satisfied")
    parts = place(job, empty_nodes(box))
    if parts is None:
        raise NeverFits("")
    return parts


def could_run(job: Job, box: Settings) -> bool:
    try:
        place_on_empty_box(job, box)
    except NeverFits:
        return False
    return True
