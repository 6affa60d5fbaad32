"""Where monitor.py gets its numbers: processors, memory, network, ranks and devices of this node.

Nothing but Python's own modules is imported at the top: on Linux the monitor needs no more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Proc:
    """What Linux says in /proc."""

    def cpu_seconds(self) -> tuple[float, float]:
        """Busy and in all, summed over the processors, since the node started."""
        # user, nice, system, idle, iowait, irq, softirq, steal, in ticks. Time of guests comes
        # behind these and stands in "user" already.
        fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        idle = fields[3] + fields[4]  # waiting for a disk is idle too
        return (sum(fields) - idle) / TICKS_PER_S, sum(fields) / TICKS_PER_S

    def memory(self) -> tuple[int, int]:
        # Not "MemFree": files that the kernel keeps in memory go as soon as a program needs room.
        lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        kib = {words[0].rstrip(":"): int(words[1]) for words in lines}
        return (kib["MemTotal"] - kib["MemAvailable"]) * 1024, kib["MemTotal"] * 1024

    def network(self) -> dict[str, tuple[int, int]]:
        """Bytes received and sent by each interface; the file has two lines of headings."""
        lines = Path("/proc/net/dev").read_text().splitlines()[2:]
        found = {}
        for name, _, rest in (line.partition(":") for line in lines):
            numbers = rest.split()
            found[name.strip()] = (int(numbers[0]), int(numbers[8]))
        return found

    def ranks(self) -> dict[int, int]:
        """Process of every rank on this node: the first in its family that has RANK. Where two
        families have the same, one only stands in for the other, and is small."""
        homes: dict[int, tuple[int, int, int]] = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    fields = _after_name(folder)
                    variables = (folder / "environ").read_bytes().split(b"\0")
                    rank = _rank(dict(v.partition(b"=")[::2] for v in variables))
                    if rank is not None:  # its parent, and its resident pages
                        homes[int(folder.name)] = (rank, int(fields[1]), int(fields[21]))
                except (OSError, IndexError):  # ended meanwhile, or somebody else's
                    continue
        heads = [
            (size, rank, process)
            for process, (rank, parent, size) in homes.items()
            if homes.get(parent, (None,))[0] != rank
        ]
        # By size, so that the largest of several comes last and takes the rank's place.
        return {rank: process for _, rank, process in sorted(heads)}

    def process(self, number: int) -> tuple[float, int]:
        """Processor seconds and resident bytes."""
        fields = _after_name(Path(f"/proc/{number}"))  # 11 and 12: ticks in user and kernel mode
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S, int(fields[21]) * PAGE_BYTES


def _after_name(folder: Path) -> list[str]:
    """Fields of `stat` from the state on: the name before them may hold blanks and brackets."""
    return (folder / "stat").read_text().rpartition(")")[2].split()


def _rank(variables: dict[bytes, bytes]) -> int | None:
    """Of this job and node alone: other jobs may run here, and nodes may share their processes."""
    for name in ("SLURM_JOB_ID", "SLURMD_NODENAME"):
        ours, theirs = os.environ.get(name, "").encode(), variables.get(name.encode(), b"")
        if ours and theirs != ours:
            return None
    rank = variables.get(b"RANK", b"")
    return int(rank) if rank.isdigit() else None


class Psutil:
    """The same from psutil, where there is no /proc (macOS)."""

    def __init__(self) -> None:
        import psutil

        self.psutil = psutil

    def cpu_seconds(self) -> tuple[float, float]:
        times = self.psutil.cpu_times()
        return sum(times) - times.idle, sum(times)

    def memory(self) -> tuple[int, int]:
        memory = self.psutil.virtual_memory()
        return memory.total - memory.available, memory.total

    def network(self) -> dict[str, tuple[int, int]]:
        counters = self.psutil.net_io_counters(pernic=True)
        return {name: (c.bytes_recv, c.bytes_sent) for name, c in counters.items()}

    def ranks(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for process in self.psutil.process_iter():
            try:
                variables = {k.encode(): v.encode() for k, v in process.environ().items()}
            except self.psutil.Error:
                continue
            rank = _rank(variables)
            if rank is not None:
                found.setdefault(rank, process.pid)
        return found

    def process(self, number: int) -> tuple[float, int]:
        try:
            process = self.psutil.Process(number)
            times = process.cpu_times()
            return times.user + times.system, process.memory_info().rss
        except self.psutil.Error as error:
            raise ProcessLookupError(number) from error


class Devices:
    """GPUs that this job may use, as NVML sees them; none where there is no NVML."""

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
            name = _text(pynvml.nvmlDeviceGetUUID(handle))
            if not allowed or str(number) in allowed or name in allowed:
                self.handles.append((number, handle))

    def look(self) -> list[dict[str, Any]]:
        return [self._one(number, handle) for number, handle in self.handles]

    def _one(self, number: int, handle: Any) -> dict[str, Any]:
        """A value that a device does not give is left out, and the others stay."""
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


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
