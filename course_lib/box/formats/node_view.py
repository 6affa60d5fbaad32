"""What a node has and gives away, for sinfo and scontrol."""

from __future__ import annotations

import os
import time

from course_lib.box import settings
from course_lib.box.queue import rows
from course_lib.box.queue.records import Allocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

SHORT = {"allocated": "alloc", "mixed": "mix", "completing": "comp", "idle": "idle"}
ORDER = ("completing", "mixed", "allocated", "idle")


class NodeView:
    def __init__(self, name: str, box: settings.Settings) -> None:
        self.name = name
        self.box = box
        self.parts: list[Allocation] = []
        self.completing = False
        self.busy_s = 0.0

    @property
    def cpus_used(self) -> int:
        return sum(len(part.cpus) for part in self.parts)

    @property
    def devices_used(self) -> tuple[int, ...]:
        return tuple(sorted(device for part in self.parts for device in part.devices))

    @property
    def load_state(self) -> str:
        if not self.parts:
            return "idle"
        return "allocated" if self.cpus_used >= self.box.cpus_per_node else "mixed"

    @property
    def state(self) -> str:
        """In one word: what ends there hides what runs there."""
        return "completing" if self.completing else self.load_state

    @property
    def full_state(self) -> str:
        return self.load_state + ("+completing" if self.completing else "")

    @property
    def gres(self) -> str:
        if not self.box.devices_per_node:
            return "(null)"
        kind = f"{self.box.device_type}:" if self.box.device_type else ""
        return f"gpu:{kind}{self.box.devices_per_node}"

    @property
    def features(self) -> str:
        return "(null)" if self.box.features in ("any", "none", "") else self.box.features


def load() -> str:
    try:
        return f"{os.getloadavg()[0]:.2f}"
    except OSError:
        return "N/A"


def free_mib() -> str:
    """Free memory of the machine as Slurm counts it; N/A where it cannot be asked."""
    try:
        return str(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20)
    except (OSError, ValueError):
        return "N/A"


def boot_s() -> float:
    """When the machine started; 0 where that is not known."""
    try:
        with open("/proc/uptime", encoding="ascii") as file:
            return time.time() - float(file.read().split()[0])
    except (OSError, ValueError):
        return 0.0


def views(db: Connection, box: settings.Settings) -> list[NodeView]:
    found = {name: NodeView(name, box) for name in box.node_names}
    active = {job.id: job for job in rows.jobs(db, rows.HOLDING_NODES)}
    where = f"job_id IN (SELECT id FROM job WHERE {rows.HOLDING_NODES})"  # noqa: S608
    for job_id, part in rows.all_allocations(db, where):
        if part.node not in found or job_id not in active:
            continue
        view = found[part.node]
        if active[job_id].completing:
            view.completing = True  # Slurm shows what a job held as free from here on
        else:
            view.parts.append(part)
        view.busy_s = max(view.busy_s, active[job_id].start_s)
    return list(found.values())
