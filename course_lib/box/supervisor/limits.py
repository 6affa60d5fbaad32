"""Resource limits of the processes of a job."""

from __future__ import annotations

import os
import resource

from course_lib.box.queue.records import Job
from course_lib.box.supervisor import imported_torch

BEYOND_IMPORT_BYTES = 102 * 2**20
"""What gloo and DDP add to the data segment of a Python process with torch, before its first
tensor (measured: 97 to 102 MiB)."""
THREAD_BYTES = 2 * (8 * 2**20 + 2**20)
"""Per CPU: the stacks and heaps of a worker thread of OpenMP and one of autograd or gloo."""

Limits = dict[str, tuple[int, int]]


def of_process(job: Job, has_device: bool, gpus: int) -> Limits:
    """The soft limits of the submitting shell, and device memory where a slot is a CPU rank.

    A device is one process: whoever allocates more than the device has gets the allocator's own
    error. What the process needs to exist at all (a launcher needs the same) is not counted, as
    on a GPU it would lie in the memory of the host. The kernel counts what is reserved for
    writing, not what is touched, as a GPU does.
    """
    found = dict(_of_shell(job.rlimits))
    if has_device and not gpus:
        device_bytes = int(job.memory_per_device_gib * 2**30)
        base_bytes = imported_torch.data_bytes() + BEYOND_IMPORT_BYTES
        most = device_bytes + base_bytes + THREAD_BYTES * (os.cpu_count() or 1)
        found["RLIMIT_DATA"] = (most, most)
    return found


def _of_shell(lines: bytes) -> Limits:
    found: Limits = {}
    for line in lines.decode(errors="replace").splitlines():
        name, _, soft = line.partition("=")
        name = name if name.startswith("RLIMIT_") else f"RLIMIT_{name}"
        kind = getattr(resource, name, None)
        if kind is not None and soft.lstrip("-").isdigit():
            found[name] = (int(soft), resource.getrlimit(kind)[1])
    return found
