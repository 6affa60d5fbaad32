"""Jobs of the class in the cluster's queue, and how many of its devices they hold."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from course_lib.lab.errors import LabError
from course_lib.lab.job.site import Site
from course_lib.lab.queue.nodes import ask
from course_lib.lab.queue.slurm import UNIT, Slurm
from course_lib.lab.queue.states import explain
from course_lib.words import told

REST_S = 10.0
"""Between two questions to the cluster, however often the table is drawn."""
DEVICES = re.compile(r"gpu(?::[^:=,()]+)?[:=](\d+)")
FIELDS = ("%T", "%D", "%b", "%r")


@dataclass
class ClassQueue:
    """The lines are made anew every REST_S."""

    site: Site
    asked_s: float = 0.0
    said: str = ""

    def text(self, uids: Collection[int]) -> str:
        if self.site.box or self.site.recorded:
            return told("queue: every learner has a cluster of their own (the box)")
        if not self.asked_s or time.monotonic() - self.asked_s > REST_S:
            self.said, self.asked_s = self._ask(uids), time.monotonic()
        return self.said

    def _ask(self, uids: Collection[int]) -> str:
        if not uids:
            return ""
        command = ("squeue", "--noheader", "--states=PENDING,RUNNING")
        try:
            lines = Slurm().call(
                *command, f"--user={','.join(map(str, sorted(uids)))}", "-o", UNIT.join(FIELDS)
            )
        except LabError as error:
            return told("queue: the cluster does not answer") + f" ({str(error).splitlines()[0]})"
        return told(words(lines, sum({row.name: row.gpus for row in ask(Slurm())}.values())))


def words(lines: str, devices: int) -> str:
    """`queue of the class: 3 jobs run on 8 of 16 devices, 5 wait (…)`."""
    rows = [line.split(UNIT) for line in lines.splitlines() if line.count(UNIT) == len(FIELDS) - 1]
    running = [row for row in rows if row[0] == "RUNNING"]
    waiting = [row for row in rows if row[0] == "PENDING"]
    held = sum(_devices(row) for row in running)
    said = f"queue of the class: {len(running)} jobs run on {held} of {devices} devices, "
    said += f"{len(waiting)} wait"
    if waiting:
        reason = Counter(row[3] for row in waiting).most_common(1)[0][0]
        said += f"; mostly: {explain(reason) or reason}"
    return said


def _devices(row: list[str]) -> int:
    found = DEVICES.search(row[2])
    return int(found[1]) * int(row[1]) if found and row[1].isdecimal() else 0
