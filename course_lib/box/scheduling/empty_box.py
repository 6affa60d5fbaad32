"""Whether a job could run at all, on a box where nothing else does."""

from __future__ import annotations

from course_lib.box.queue.records import Allocation, Job
from course_lib.box.scheduling import job_placement
from course_lib.box.settings import Settings


class NeverFits(Exception):
    """No node has what the job asks for; the text is the remark of Slurm's controller, or empty."""


def place(job: Job, box: Settings) -> list[Allocation]:
    """The parts that it would get; raises NeverFits."""
    cpus = max(job.tasks_per_node, 1) * max(job.cpus_per_task, 1)
    if max(cpus, job.cpus_min) > box.cpus_per_node:
        raise NeverFits("CPU count per node can not be satisfied")
    if max(int(job.memory or 0), int(job.memory_per_cpu or 0)) > box.memory_per_node_mib:
        raise NeverFits("Memory specification can not be satisfied")
    if job.threads_per_core > 1:
        raise NeverFits("Socket, core and/or thread specification can not be satisfied")
    if not {kind for kind, _ in job_placement.requests(job)} <= {"", box.device_type}:
        raise NeverFits("")
    parts = job_placement.place(job, job_placement.empty_nodes(box))
    if parts is None:
        raise NeverFits("")
    return parts


def could_run(job: Job, box: Settings) -> bool:
    try:
        place(job, box)
    except NeverFits:
        return False
    return True
