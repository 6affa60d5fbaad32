"""Resource limits of the processes of a job, and its memory."""

from __future__ import annotations

import os
import resource

from course_lib.box.processes import finding
from course_lib.box.queue.records import Job

BASE_BYTES = 320 * 2**20
"""Data segment of a Python process with torch, gloo and DDP loaded, before its first tensor
(measured: 276 MiB)."""
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
        most = device_bytes + BASE_BYTES + THREAD_BYTES * (os.cpu_count() or 1)
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


def memory_limit_bytes(job: Job, cpus_on_node: int, devices_on_node: int) -> int | None:
    """What --mem, --mem-per-cpu or --mem-per-gpu allow the job on one node; None: no limit."""
    for text, times in (
        (job.memory, 1),
        (job.memory_per_cpu, cpus_on_node),
        (job.memory_per_gpu, devices_on_node),
    ):
        if text and text != "0":
            return _mebibytes(text) * times * 2**20
    return None


def _mebibytes(text: str) -> int:
    units = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}
    unit = text[-1].upper()
    return int(float(text[:-1]) * units[unit]) if unit in units else int(text)


def resident_bytes(root: int) -> int:
    """Of all descendants of a process, shared pages counted again for each; quick."""
    return sum(_resident(pid) for pid in finding.descendants(root))


def private_bytes(root: int) -> int:
    """The same without what they share, such as the pages of the warm process; slow."""
    return sum(_private(pid) for pid in finding.descendants(root))


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


def _private(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            kib = [int(line.split()[1]) for line in file if line.startswith("Private_")]
    except (OSError, ValueError):
        return 0
    return sum(kib) * 1024
