"""Placement of a job: its nodes, CPUs and devices. No state file is needed, which eases tests.

The rules are Slurm's select/cons_tres rules with cores and devices as resources.
"""

from __future__ import annotations

from course_lib.box import hostlist
from course_lib.box.queue.records import Allocation, Job
from course_lib.box.settings import Settings


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

    @property
    def untouched(self) -> bool:
        return not self.jobs


def empty_nodes(settings: Settings) -> list[FreeNode]:
    return [
        FreeNode(name, settings.cpus_per_node, settings.devices_per_node)
        for name in settings.node_names
    ]


def devices_wanted(job: Job) -> tuple[int, int, int]:
    """Return the devices for the whole job, per node and per task; 0 if not requested."""
    per_node = gres_count(job.gres) or count_of(job.gpus_per_node)
    return count_of(job.gpus), per_node, count_of(job.gpus_per_task)


def count_of(text: str) -> int:
    """Count devices in `2`, `a100:2` or `a100:2,v100:1`. A type alone means one device."""
    return sum(count for _, count in _typed(text))


def gres_count(text: str) -> int:
    """Count devices in `gpu:2`, `gres:gpu:a100:2` or `gpu`. Other resources do not count."""
    return count_of(_of_gres(text))


def requests(job: Job) -> list[tuple[str, int]]:
    """Return type (empty: any) and count of all device requests of the job."""
    return typed_counts(job.gpus, job.gpus_per_node, job.gpus_per_task, job.gres)


def typed_counts(gpus: str, per_node: str, per_task: str, gres: str) -> list[tuple[str, int]]:
    """Return type and count of the device requests in the texts of the four options."""
    texts = (gpus, per_node, per_task, _of_gres(gres))
    return [request for text in texts for request in _typed(text)]


def is_count(text: str) -> bool:
    """Return True if the text is valid. `1x` and `1.5` are neither numbers nor type names."""
    last = [piece.partition("(")[0].rpartition(":")[2] for piece in text.split(",")]
    return not any(word[:1].isdigit() and not word.isdigit() for word in last)


def _typed(text: str) -> list[tuple[str, int]]:
    found = []
    for piece in filter(None, text.split(",")):
        kind, _, count = piece.rpartition(":")
        found.append((kind, int(count)) if count.isdigit() else (piece, 1))
    return found


def _of_gres(text: str) -> str:
    """Convert `gpu:a100:2,gres:gpu` to the form of `--gpus`: `a100:2,1`."""
    found = []
    for piece in text.split(","):
        name, _, rest = piece.removeprefix("gres:").removeprefix("gres/").partition(":")
        if name == "gpu":
            found.append(rest.partition("(")[0] or "1")
    return ",".join(found)


def place(job: Job, nodes: list[FreeNode]) -> list[Allocation] | None:
    """Return the parts of these nodes that the job would get, or None if it does not fit now."""
    wanted = set(hostlist.expand(job.want_nodes))
    excluded = set(hostlist.expand(job.exclude_nodes))
    usable = [node for node in nodes if node.name not in excluded and _is_open(job, node)]
    if wanted - {node.name for node in usable}:
        return None
    required = [node for node in usable if node.name in wanted]
    others = [node for node in usable if node.name not in wanted]
    most = min(job.nodes_max or len(nodes), len(usable))
    counts = range(max(job.nodes_min, len(required), 1), most + 1)
    few = not job.nodes_given or job.gpus or job.gpus_per_task
    for count in counts if few else reversed(counts):
        for chosen in _choices(required, others, count):
            parts = _share(job, chosen)
            if parts:
                return parts
    return None


def _is_open(job: Job, node: FreeNode) -> bool:
    return node.untouched if job.exclusive else not node.exclusive and bool(node.cpus)


def _choices(required: list[FreeNode], others: list[FreeNode], count: int) -> list[list[FreeNode]]:
    """Return sets of `count` nodes that include the required ones, in node order."""
    free = count - len(required)
    if free < 0:
        return []
    sets: list[list[FreeNode]] = [[]]
    for _ in range(free):
        sets = [
            [*chosen, node]
            for chosen in sets
            for node in others[others.index(chosen[-1]) + 1 if chosen else 0 :]
        ]
    merged = [[*required, *chosen] for chosen in sets[:200]]
    return [sorted(chosen, key=lambda node: hostlist.natural(node.name)) for chosen in merged]


def _share(job: Job, nodes: list[FreeNode]) -> list[Allocation] | None:
    tasks = _tasks_on(job, nodes)
    devices = _devices_on(job, nodes, tasks) if tasks else None
    if tasks is None or devices is None:
        return None
    parts = []
    for node, task_count, device_count in zip(nodes, tasks, devices, strict=True):
        cpus = max(cpus_for(job, task_count), device_count * job.cpus_per_gpu)
        if cpus > len(node.cpus) or device_count > len(node.devices):
            return None
        everything = bool(job.exclusive)
        parts.append(
            Allocation(
                node=node.name,
                cpus=tuple(node.cpus if everything else node.cpus[:cpus]),
                devices=tuple(node.devices if everything else node.devices[:device_count]),
                tasks=task_count,
            )
        )
    return parts


def cpus_for(job: Job, tasks: int) -> int:
    tasks = 1 if job.overcommit else max(tasks, 1)
    return tasks * max(job.cpus_per_task, 1)


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
    room = job.tasks if job.overcommit else len(node.cpus) // max(job.cpus_per_task, 1)
    if job.tasks_per_node:
        room = min(room, job.tasks_per_node)
    _, per_node, per_task = devices_wanted(job)
    return min(room, (per_node or len(node.devices)) // per_task) if per_task else room


def _devices_on(job: Job, nodes: list[FreeNode], tasks: list[int]) -> list[int] | None:
    total, per_node, per_task = devices_wanted(job)
    if per_node and per_task and any(per_task * count != per_node for count in tasks):
        return None
    if per_node:
        shares = [per_node] * len(nodes)
    elif per_task:
        shares = [per_task * count for count in tasks]
    else:
        shares = spread(total, [len(node.devices) for node in nodes])
    if total and sum(shares) != total:
        return None
    return shares


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
    """No node can satisfy the request. The text is the remark of Slurm's controller, or empty."""


def place_on_empty_box(job: Job, box: Settings) -> list[Allocation]:
    """Return the parts that the job would get. Raise NeverFits if it cannot run."""
    cpus = max(job.tasks_per_node, 1) * max(job.cpus_per_task, 1)
    if cpus > box.cpus_per_node:
        raise NeverFits("CPU count per node can not be satisfied")
    if max(int(job.memory or 0), int(job.memory_per_cpu or 0)) > box.memory_per_node_mib:
        raise NeverFits("Memory specification can not be satisfied")
    if not {kind for kind, _ in requests(job)} <= {"", box.device_type}:
        raise NeverFits("")
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
