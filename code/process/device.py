"""Process and device of a rank: threads, process group, memory limit and out-of-memory message."""

from __future__ import annotations

import argparse
import ctypes
import importlib
import os
import re
import resource
import socket
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from process.device_sharing import agree, follow, seat_of
from process.environment import environment_of_rank, environment_or_alone, threads, whole_number
from process.peers import Peers
from process.rendezvous import open_store

MIB = 2**20
STATUS = Path("/proc/self/status")
SMALL_DEVICE_BYTES = 2**30
# On a GPU the matmul library allocates workspaces, twice 32 MiB on an H100 (for the forward and the
# backward pass). This would be most of a small device's memory, so it gets 128 KiB each; the
# library reads the variables at the first matmul.
SMALL_WORKSPACES = {"CUBLAS_WORKSPACE_CONFIG": ":16:8", "CUBLASLT_WORKSPACE_SIZE": "128"}
# Variable of NCCL's warning that one group runs its messages one after the other. The pipeline
# expects this: each direction has its own group (parallel/layout.py).
WARNS_OF_ORDER = "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING"
# Peers of this process, once it has met them.
PEERS: list[Peers] = []


def choose_device(local_rank: int) -> torch.device:
    accelerator = (
        torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    )
    if accelerator is None or accelerator.type == "mps":  # gloo cannot send from mps
        return torch.device("cpu")
    index = index_of(local_rank, torch.accelerator.device_count())
    torch.accelerator.set_device_index(index)
    return torch.device(accelerator.type, index)


def index_of(local_rank: int, visible: int) -> int:
    """Return the device index: a rank may see only one device, and ranks may share one."""
    return local_rank % visible


def start(args: argparse.Namespace) -> torch.device:
    """Join the process group, with one thread per rank, as ranks share a node's cores."""
    rank, world_size, local_rank = environment_of_rank()
    torch.set_num_threads(threads())
    device = choose_device(local_rank)
    backend = args.distributed_backend
    if device.type == "cpu":
        keep_memory()
        load_what_the_first_step_loads()
        torch.set_flush_denormal(True)  # sums with numbers below 1e-38 take a hundred times longer
    if backend == "nccl" and device.type != "cuda":
        backend = dist.get_default_backend_for_device(device)
    if not dist.is_initialized():
        os.environ.setdefault(WARNS_OF_ORDER, "false")
        timeout = timedelta(minutes=args.distributed_timeout_minutes)
        store = open_store(rank, world_size, timeout)
        # Before the group is made, which waits for every rank, even for a failed one.
        if world_size > 1:
            PEERS.append(Peers(store, rank, world_size))
            PEERS[-1].watch()
        # Through the store, as the process group does not exist yet.
        follow(agree(store, rank, world_size, seat_of(device), timeout), rank)
        dist.init_process_group(
            backend,
            store=store,
            rank=rank,
            world_size=world_size,
            timeout=timeout,
            device_id=device if device.type == "cuda" else None,
        )
    return device


def keep_memory() -> None:
    """Make the C library keep freed memory for the next step, as a GPU's allocator does.

    By default every large tensor is mapped anew, and the kernel zeroes its pages, which takes
    longer than filling it."""
    largest_quick, trim_threshold, mmap_max = 1, -1, -4
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(mmap_max, 0)
        library.mallopt(largest_quick, 0)
        library.mallopt(trim_threshold, 2**31 - 1)


def load_what_the_first_step_loads() -> None:
    """Load 60 MiB of Python modules, in a third of a second, that no step or model should count."""
    import numpy.random  # noqa: F401

    torch.ones(1, requires_grad=True).clone().backward(torch.ones(1))


def status_bytes(*names: str) -> list[int]:
    """Return the values of lines of /proc/self/status such as VmData, in bytes. Without this file
    (macOS), return the process's peak memory for all."""
    if not STATUS.exists():
        unit_bytes = 1 if sys.platform == "darwin" else 1024
        return [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes] * len(names)
    found = dict(re.findall(r"^(\w+):\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE))
    return [int(found.get(name, 0)) * 1024 for name in names]


def memory_limit_bytes() -> int | None:
    return whole_number("COURSE_DEVICE_MEMORY_BYTES", 1)


def limit_memory(device: torch.device) -> None:
    """Limit the memory that a CPU rank allocates from now on to its device's memory. A GPU may be
    limited to less memory than it has."""
    wanted = memory_limit_bytes()
    if wanted is None:
        return
    if device.type != "cpu":
        if wanted < SMALL_DEVICE_BYTES:
            os.environ.update(SMALL_WORKSPACES)
        share = wanted / torch.accelerator.get_memory_info(device)[1]
        torch.get_device_module(device).set_per_process_memory_fraction(min(share, 1.0), device)
        return
    importlib.import_module("torch._dynamo")  # 35 MiB that DDP or an optimizer would load later
    # VmData is the private writable memory, which RLIMIT_DATA counts. Memory of libraries and
    # threads has no counterpart on a device, so the limit counts from here.
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = status_bytes("VmData")[0] + wanted
    if soft == resource.RLIM_INFINITY or limit < soft:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def capacity_bytes(device: torch.device) -> int | None:
    """Return the memory that this rank may use of its device; None for an unlimited CPU rank."""
    limit = memory_limit_bytes()
    if device.type == "cpu":
        return limit
    total = torch.accelerator.get_memory_info(device)[1]
    return min(total, limit or total)


class MemoryUse:
    """Allocated and reserved bytes, and their peaks: from the allocator on a GPU, otherwise from
    the operating system, minus what the process had before the model was built."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        *self.at_start, self.own_at_start = status_bytes("VmRSS", "VmData", "RssAnon")

    def own_bytes(self) -> int:
        """Return the allocated bytes without library files, of which a new process reads more than
        a process that was kept ready."""
        if self.device.type != "cpu":
            return torch.accelerator.memory_allocated()
        return status_bytes("RssAnon")[0] - self.own_at_start

    def bytes(self) -> tuple[int, int, int, int]:
        if self.device.type != "cpu":
            count = torch.accelerator
            return (
                count.memory_allocated(),
                count.max_memory_allocated(),
                count.memory_reserved(),
                count.max_memory_reserved(),
            )
        resident, data, peak = status_bytes("VmRSS", "VmData", "VmHWM")
        now, reserved = resident - self.at_start[0], data - self.at_start[1]
        return now, peak - self.at_start[0], reserved, reserved


def human(size_bytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.2f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.2f} GiB"


def out_of_memory_line(error: BaseException) -> str | None:
    """Return a line with the rank, the requested size, the size in use and the limit."""
    text = str(error)
    asked = re.search(r"tried to allocate (\d+) bytes", text, re.IGNORECASE)
    full = isinstance(error, MemoryError | torch.OutOfMemoryError) or "bad_alloc" in text
    if not asked and not full and "Cannot allocate memory" not in text:
        return None
    rank = environment_or_alone()[0]
    if isinstance(error, torch.OutOfMemoryError):
        return f"[rank{rank}]: OutOfMemoryError: {text}"
    size = human(int(asked[1])) if asked else "an unknown size"
    line = f"[rank{rank}]: OutOfMemoryError: CPU out of memory. Tried to allocate {size}."
    (used,) = status_bytes("VmData")
    limit, capacity = resource.getrlimit(resource.RLIMIT_DATA)[0], memory_limit_bytes()
    if limit == resource.RLIM_INFINITY or capacity is None:
        return f"{line} Rank {rank} on {socket.gethostname()} has no limit of its own."
    free = max(0, limit - used)
    return (
        f"{line} Rank {rank} on {socket.gethostname()} has a total capacity of {human(capacity)} "
        f"of which {human(free)} is free. {human(capacity - free)} is in use."
    )
