"""Load of this node for monitor.py: processors, memory, network, ranks and devices."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil


def cpu_seconds() -> tuple[float, float]:
    """Return busy and total seconds, summed over the processors."""
    times = psutil.cpu_times()._asdict()
    # "user" and "nice" already include guest time; waiting for a disk counts as idle.
    total = sum(spent for name, spent in times.items() if not name.startswith("guest"))
    return total - times["idle"] - times.get("iowait", 0.0), total


def memory_bytes() -> tuple[int, int]:
    """Return used and total bytes; the page cache counts as free."""
    memory = psutil.virtual_memory()
    return memory.total - memory.available, memory.total


def network_bytes() -> dict[str, tuple[int, int]]:
    """Return the bytes received and sent by each interface."""
    counters = psutil.net_io_counters(pernic=True)
    return {name: (c.bytes_recv, c.bytes_sent) for name, c in counters.items()}


def rank_processes() -> dict[int, int]:
    """Return the process of every rank on this node: the topmost process with its RANK. If two
    process trees have the same rank, one is a small placeholder, and the larger one counts."""
    homes: dict[int, tuple[int, int, int]] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or belongs to another user
            rank = _rank(process.environ())
            if rank is not None:
                homes[process.pid] = (rank, process.ppid(), process.memory_info().rss)
    heads = [
        (size, rank, process)
        for process, (rank, parent, size) in homes.items()
        if homes.get(parent, (None,))[0] != rank
    ]
    # Sorted by size, so that the largest process of a rank comes last and stays.
    return {rank: process for _, rank, process in sorted(heads)}


def process_load(number: int) -> tuple[float, int] | None:
    """Return processor seconds and resident bytes; None if the process has ended."""
    try:
        process = psutil.Process(number)
        times, size_bytes = process.cpu_times(), process.memory_info().rss
    except psutil.Error:
        return None
    return (times.user + times.system, size_bytes) if size_bytes else None


def _rank(variables: dict[str, str]) -> int | None:
    """Return the rank of a process of this job and node, as other jobs may run here, and nodes of
    the box share their processes."""
    for name in ("SLURM_JOB_ID", "SLURMD_NODENAME"):
        ours = os.environ.get(name)
        if ours and variables.get(name) != ours:
            return None
    rank = variables.get("RANK", "")
    return int(rank) if rank.isdecimal() else None


class Devices:
    """GPUs that this job may use, according to NVML; none if NVML is missing."""

    def __init__(self) -> None:
        self.handles: list[tuple[int, Any]] = []
        try:
            import pynvml
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return
        self.nvml = pynvml
        allowed = [x for x in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if x]
        for number in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(number)
            if not allowed or {str(number), pynvml.nvmlDeviceGetUUID(handle)} & {*allowed}:
                self.handles.append((number, handle))

    def look(self) -> list[dict[str, Any]]:
        return [self._one(number, handle) for number, handle in self.handles]

    def _one(self, number: int, handle: Any) -> dict[str, Any]:
        """Return the values that a device provides."""
        nvml = self.nvml
        asked: dict[str, Callable[[], Any]] = {
            "utilisation_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "memory_used_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
            "memory_total_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total,
            "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, 0),
        }
        row: dict[str, Any] = {"device": number}
        for key, ask in asked.items():
            try:
                row[key] = ask()
            except nvml.NVMLError:
                continue
        return row
