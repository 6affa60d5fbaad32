"""How far measured runs lie from predictions: the source of every interval.

`measured_over_predicted.json` holds, for each code base and size of run, the tenth and ninetieth
percentile over published runs; `benchmarks/planner.py --write-residuals` makes it.
"""

from __future__ import annotations

import json
from dataclasses import replace
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
    family = cluster.device.family
    general = [f"time/{stack.name}", f"time/any/{family}", "time"]
    return [*_own_keys(layout, cluster, stack), *general]


def _own_keys(layout: Layout, cluster: Cluster, stack: Stack) -> list[str]:
    """Of this code base on this hardware."""
    nodes = -(-layout.devices // cluster.devices_per_node)
    size = "1" if nodes == 1 else "2-8" if nodes <= 8 else "9-31" if nodes <= 31 else "32+"
    kind = "piped" if layout.pipeline > 1 else "flat"
    own = f"time/{stack.name}/{cluster.device.family}"
    return [f"{own}/{size} nodes/{kind}", f"{own}/{size} nodes", own]


def memory_keys(layout: Layout, stack: Stack) -> list[str]:
    split = "split" if layout.tensor > 1 else "whole"
    return [f"memory/{stack.name}/{split}", f"memory/{stack.name}", "memory"]


@lru_cache(maxsize=1)
def _residuals() -> dict[str, tuple[float, float]]:
    if not RESIDUALS.exists():
        return {}
    table = json.loads(RESIDUALS.read_text(encoding="utf-8"))
    return {key: (float(row["low"]), float(row["high"])) for key, row in table.items()}


def _first(keys: list[str]) -> tuple[float, float] | None:
    table = _residuals()
    return next((table[key] for key in keys if key in table), None)


def _around(value: float, share: tuple[float, float] | None) -> Interval:
    low, high = share or (1 / 2, 2)
    return Interval(value * low, value * high)


def _never_measured(layout: Layout, cluster: Cluster, stack: Stack) -> tuple[float, float] | None:
    """From the least to the most that this code base shows on any hardware, and any code base on
    this one (on all, where nobody measured it): what is unknown is no surer than what is known."""
    table = _residuals()
    names = {key.split("/")[2] for key in table if key.startswith("time/any/")}
    machines = [replace(cluster, device=replace(cluster.device, family=name)) for name in names]
    own = [_first(_own_keys(layout, machine, stack)) for machine in machines]
    here = f"time/any/{cluster.device.family}"
    general = [here] if here in table else ["time", *(f"time/any/{name}" for name in names)]
    found = [*own, *(table.get(key) for key in (f"time/{stack.name}", *general))]
    known = [share for share in found if share]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def time_interval(seconds: float, layout: Layout, cluster: Cluster, stack: Stack) -> Interval:
    keys = [f"time/{UNKNOWN}"] if stack.name == UNKNOWN else _own_keys(layout, cluster, stack)
    return _around(seconds, _first(keys) or _never_measured(layout, cluster, stack))


def memory_interval(gib: float, layout: Layout, stack: Stack) -> Interval:
    return _around(gib, _first(memory_keys(layout, stack)))
