"""Record the load of this node once a second: processors, memory, network, devices, ranks.

    srun --overlap --ntasks-per-node=1 python code/monitor.py &

Each line of monitor/<node>.jsonl in the run folder is one sample. Network values are counters of
bytes since the node started, so that differences stay correct if a sample is late. The program ends
on SIGTERM or when its parent has ended. It needs psutil, and pynvml for devices."""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from observing import node_load
from process.errors import node_name

LOOKS_PER_SEARCH = 5  # a search through all processes is most of the work


class Monitor:
    """Sampler of the node's load. Shares refer to the time since the previous sample."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.devices = node_load.Devices()
        self.cpu_s = node_load.cpu_seconds()
        self.looked_s = time.monotonic()
        self.spent_s: dict[int, float] = {}
        self.homes: dict[int, int] = {}
        self.looks = 0
        self.pace = float(os.environ.get("COURSE_DEVICE_PACE") or 1)  # see process/pace.py

    def look(self) -> dict[str, Any]:
        # The share is of processor seconds, which count the elapsed time themselves, so it is
        # correct even if a sample is late.
        busy_s, all_s = node_load.cpu_seconds()
        passed_s = max(all_s - self.cpu_s[1], 1e-9)
        share = (busy_s - self.cpu_s[0]) / passed_s
        now_s = time.monotonic()
        ranks = self._ranks(max(now_s - self.looked_s, 1e-9))
        self.cpu_s, self.looked_s = (busy_s, all_s), now_s
        used, total = node_load.memory_bytes()
        interfaces = node_load.network_bytes()
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
        """Return each rank's load: 100 % is one processor, or a slot's rate if it is paced."""
        rows, spent = [], {}
        gone = len(self.spent_s) < len(self.homes)  # a rank ended; torchrun may restart it
        begins = self.looks < LOOKS_PER_SEARCH  # a rank's process may replace a temporary one
        if begins or gone or self.looks % LOOKS_PER_SEARCH == 0:
            self.homes = node_load.rank_processes()
        self.looks += 1
        for rank, number in sorted(self.homes.items()):
            if (found := node_load.process_load(number)) is None:
                continue
            spent_s, size = found
            since = spent_s - self.spent_s[number] if number in self.spent_s else None
            percent = None if since is None else round(100 * since / passed_s, 1)
            row = {"rank": rank, "pid": number, "cpu_percent": percent, "memory_bytes": size}
            if self.pace > 1 and percent is not None:
                row["slot_percent"] = round(self.pace * percent, 1)
            rows.append(row)
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
    parser.add_argument("--interval-s", type=float, default=1.0, help="seconds between two records")
    options = parser.parse_args()
    folder = os.environ.get("COURSE_RUN_DIR")
    if not folder:
        raise SystemExit("monitor.py: COURSE_RUN_DIR is not set; export the folder of the run")
    run(Path(folder) / "monitor", node_name(), max(options.interval_s, 0.05))


if __name__ == "__main__":
    main()
