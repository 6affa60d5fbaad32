"""Load of this node while a job runs, once a second: processor, memory, network, devices, ranks.

    srun --overlap --ntasks-per-node=1 python code/monitor.py &

Each line of monitor/<node>.jsonl in the run folder is one look. The network is given as counters
(bytes since the node started): differences survive a look that came late. It ends when it is told
to (SIGTERM) or when whoever started it is gone, and needs nothing but Python on Linux; psutil
elsewhere, pynvml for devices, where they are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
LOOKS_PER_SEARCH = 5  # going through all processes is most of the work
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Proc:
    """What Linux says in /proc."""

    def cpu_seconds(self) -> tuple[float, float]:
        """Busy and in all, summed over the processors, since the node started."""
        fields = [int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        idle = fields[3] + fields[4]  # waiting for a disk is idle too
        return (sum(fields) - idle) / TICKS_PER_S, sum(fields) / TICKS_PER_S

    def memory(self) -> tuple[int, int]:
        lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        kib = {words[0].rstrip(":"): int(words[1]) for words in lines}
        return (kib["MemTotal"] - kib["MemAvailable"]) * 1024, kib["MemTotal"] * 1024

    def network(self) -> dict[str, tuple[int, int]]:
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
                    if rank is not None:
                        homes[int(folder.name)] = (rank, int(fields[1]), int(fields[21]))
                except (OSError, IndexError):  # ended meanwhile, or somebody else's
                    continue
        heads = [
            (size, rank, process)
            for process, (rank, parent, size) in homes.items()
            if homes.get(parent, (None,))[0] != rank
        ]
        return {rank: process for _, rank, process in sorted(heads)}

    def process(self, number: int) -> tuple[float, int]:
        """Processor seconds and resident bytes."""
        fields = _after_name(Path(f"/proc/{number}"))
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
        asked = {
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


class Monitor:
    """Shares are of the time since the look before, so the first look only begins."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.source = Proc() if Path("/proc/stat").exists() else Psutil()
        self.devices = Devices()
        self.cpu_s = self.source.cpu_seconds()
        self.looked_s = time.monotonic()
        self.spent_s: dict[int, float] = {}
        self.homes: dict[int, int] = {}
        self.looks = 0

    def look(self) -> dict[str, Any]:
        busy_s, all_s = self.source.cpu_seconds()
        passed_s = max(all_s - self.cpu_s[1], 1e-9)
        share = (busy_s - self.cpu_s[0]) / passed_s
        now_s = time.monotonic()
        ranks = self._ranks(max(now_s - self.looked_s, 1e-9))
        self.cpu_s, self.looked_s = (busy_s, all_s), now_s
        used, total = self.source.memory()
        interfaces = self.source.network()
        outside = [counts for name, counts in interfaces.items() if not name.startswith("lo")]
        return {
            "unix_s": round(time.time(), 3),
            "node": self.node,
            "cpu_percent": round(100 * min(max(share, 0.0), 1.0), 1),
            "memory_used_bytes": used,
            "memory_total_bytes": total,
            "network_in_bytes": sum(received for received, _ in outside),
            "network_out_bytes": sum(sent for _, sent in outside),
            "ranks": ranks,
            "devices": self.devices.look(),
        }

    def _ranks(self, passed_s: float) -> list[dict[str, Any]]:
        """100 % is one processor, as in top."""
        rows, spent = [], {}
        gone = len(self.spent_s) < len(self.homes)
        if not self.homes or gone or self.looks % LOOKS_PER_SEARCH == 0:
            self.homes = self.source.ranks()
        self.looks += 1
        for rank, number in sorted(self.homes.items()):
            try:
                spent_s, size = self.source.process(number)
            except (OSError, IndexError):
                continue
            if not size:
                continue  # it has ended, and nobody has taken notice yet
            since = spent_s - self.spent_s[number] if number in self.spent_s else None
            percent = None if since is None else round(100 * since / passed_s, 1)
            rows.append({"rank": rank, "pid": number, "cpu_percent": percent, "memory_bytes": size})
            spent[number] = spent_s
        self.spent_s = spent
        return rows


def run(folder: Path, node: str, interval_s: float) -> None:
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    parent = os.getppid()
    folder.mkdir(parents=True, exist_ok=True)
    monitor = Monitor(node)
    with (folder / f"{node}.jsonl").open("a", encoding="utf-8") as file:
        while not ended.wait(interval_s) and os.getppid() == parent:
            file.write(json.dumps(monitor.look(), separators=(",", ":")) + "\n")
            file.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--interval-s", type=float, default=1.0, help="time between two looks")
    options = parser.parse_args()
    folder = os.environ.get("COURSE_RUN_DIR")
    if not folder:
        raise SystemExit("monitor.py: COURSE_RUN_DIR does not say where the run's folder is")
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]
    run(Path(folder) / "monitor", node, max(options.interval_s, 0.05))


if __name__ == "__main__":
    main()
