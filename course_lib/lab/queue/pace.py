"""How fast a device slot computes, as the cluster tells it."""

from __future__ import annotations

import re

from course_lib.lab.queue.slurm import Slurm

PACE = re.compile(r"Comment=device_pace=(?P<factor>[\d.]+) \((?P<why>.*)\)")


def pace_line() -> re.Match[str] | None:
    """None where slots compute as fast as they go."""
    return PACE.search(Slurm().call("scontrol", "show", "node"))


def told_pace() -> float:
    told = pace_line()
    return float(told["factor"]) if told else 1.0
