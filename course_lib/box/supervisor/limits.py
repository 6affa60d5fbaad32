"""Resource limits of a job's processes, including device memory if a device is a process."""

from __future__ import annotations

import os
from importlib.util import find_spec

from course_lib.box.processes import finding
from course_lib.box.queue.records import Job
from course_lib.box.supervisor.context import JobContext

# Data segment of a process that has imported torch: a CPU build and a GPU build (measured with
# torch 2.13; the GPU build is for CUDA 13).
OF_PROCESSORS_BYTES = 218 * 2**20
OF_GPUS_BYTES = 766 * 2**20
LIBRARIES_FOR_GPUS = ("libtorch_cuda.so", "libtorch_hip.so", "libtorch_xpu.so")


def data_bytes() -> int:
    found = find_spec("torch")
    for folder in (found and found.submodule_search_locations) or []:
        paths = (os.path.join(folder, "lib", name) for name in LIBRARIES_FOR_GPUS)
        if any(map(os.path.exists, paths)):
            return OF_GPUS_BYTES
    return OF_PROCESSORS_BYTES


# Memory that gloo and DDP add to the data segment of a Python process with torch before its first
# tensor (measured: 97 to 102 MiB).
BEYOND_IMPORT_BYTES = 102 * 2**20
# Memory per CPU: stacks and heaps of one OpenMP thread and one thread of autograd or gloo.
THREAD_BYTES = 2 * (8 * 2**20 + 2**20)

Limits = dict[str, tuple[int, int]]


def of_process(job: Job, has_device: bool, gpus: int) -> Limits:
    """Return the limit of device memory if a slot is a CPU rank, otherwise no limits.

    A device is one process. If the process allocates more than the device has, it gets the
    allocator's own error. The limit excludes the memory that every such process needs (a launcher
    needs the same), because on a GPU this would be host memory. The kernel counts memory that is
    reserved for writing, even if it is not touched, as a GPU does.
    """
    if not has_device or gpus:
        return {}
    device_bytes = int(job.memory_per_device_gib * 2**30)
    base_bytes = data_bytes() + BEYOND_IMPORT_BYTES
    most = device_bytes + base_bytes + THREAD_BYTES * (os.cpu_count() or 1)
    return {"RLIMIT_DATA": (most, most)}


def exceeds_memory(context: JobContext) -> bool:
    """Tell whether the job uses more memory than it asked for with --mem."""
    per_node = [memory_limit_bytes(context.job, len(part.cpus)) for part in context.parts]
    # All nodes are on one machine, so only their total can be measured
    most = sum(number or 0 for number in per_node)
    return None not in per_node and private_bytes(context.processes.guard) > most


def memory_limit_bytes(job: Job, cpus_on_node: int) -> int | None:
    """Return the memory that the job's --mem options allow on one node, or None for no limit."""
    mib = int(job.memory or 0) or int(job.memory_per_cpu or 0) * cpus_on_node
    return mib * 2**20 or None


def private_bytes(root: int) -> int:
    """Return the memory without shared pages, such as pages of the warm process."""
    return sum(_private(pid) for pid in finding.descendants(root))


def _private(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            kib = [int(line.split()[1]) for line in file if line.startswith("Private_")]
    except (OSError, ValueError):
        return 0
    return sum(kib) * 1024
