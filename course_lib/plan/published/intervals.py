"""How far measured runs lie from predictions: the source of every interval.

`measured_over_predicted.json` holds, for each code base and size of run, the tenth and ninetieth
percentile over published runs; `benchmarks/planner.py --write-residuals` makes it.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from course_lib.plan.code_bases import Stack
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.shapes.layout import Layout

UNKNOWN = "unknown"
RESIDUALS = Path(__file__).with_name("measured_over_predicted.json")


class Interval(NamedTuple):
    low: float
    high: float


def time_keys(layout: Layout, cluster: Cluster, stack: Stack) -> list[str]:
    """From the most to the least specific kind of run. What runs of other code bases teach about
    an unknown one is how far code bases lie apart, whatever the size of the run."""
    if stack.name == UNKNOWN:
        return [f"time/{UNKNOWN}"]
    nodes = -(-layout.devices // cluster.devices_per_node)
    size = "1" if nodes == 1 else "2-8" if nodes <= 8 else "9-31" if nodes <= 31 else "32+"
    kind = "piped" if layout.pipeline > 1 else "flat"
    family = cluster.device.family
    own = f"time/{stack.name}/{family}"
    narrower = [f"{own}/{size} nodes/{kind}", f"{own}/{size} nodes", own]
    return [*narrower, f"time/{stack.name}", f"time/any/{family}", "time"]


def memory_keys(layout: Layout, stack: Stack) -> list[str]:
    split = "split" if layout.tensor > 1 else "whole"
    return [f"memory/{stack.name}/{split}", f"memory/{stack.name}", "memory"]


@lru_cache(maxsize=1)
def _residuals() -> dict[str, tuple[float, float]]:
    if not RESIDUALS.exists():
        return {}
    table = json.loads(RESIDUALS.read_text(encoding="utf-8"))
    return {key: (float(row["low"]), float(row["high"])) for key, row in table.items()}


def _around(value: float, keys: list[str]) -> Interval:
    table = _residuals()
    for key in keys:
        if key in table:
            low, high = table[key]
            return Interval(value * low, value * high)
    return Interval(value / 2, value * 2)


def time_interval(seconds: float, layout: Layout, cluster: Cluster, stack: Stack) -> Interval:
    return _around(seconds, time_keys(layout, cluster, stack))


def memory_interval(gib: float, layout: Layout, stack: Stack) -> Interval:
    return _around(gib, memory_keys(layout, stack))
