"""Errors of predictions for measured runs, from which every interval comes.

For each code base and size of run, `measured_over_predicted.json` holds the tenth and ninetieth
percentile over published runs, the number of runs, the most devices and tokens of a sequence, the
precisions, the median error, and the share and loss of slow runs. `benchmarks/planner.py
--write-residuals` writes it."""

from __future__ import annotations

import json
from functools import lru_cache
from math import log, log2, prod
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

from course_lib.plan.code_bases import Stack
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.shapes.layout import LINEAR_PRECISIONS, Layout
from course_lib.plan.shapes.model import Model
from course_lib.words import _

UNKNOWN = "unknown"
RESIDUALS = Path(__file__).with_name("measured_over_predicted.json")

# Factors that widen an interval at both ends for each difference between a run and all measured
# runs. Each is the error that the benchmark found when it first met such runs: 25 % on B200 and
# GB300; up to 20 % from bf16 to fp8; 3 % for each doubling of the devices, and of the sequence
# (NeMo's runs from 2048 to 8192 tokens).
OTHER_DEVICE, OTHER_PRECISION, DOUBLED = 1.25, 1.2, 1.03

# Share of slow runs that is worth a word.
LEAST_SLOW = 0.02


class Interval(NamedTuple):
    """Bounds of 80 % of the measured runs."""

    low: float
    high: float

    def chance_above(self, value: float) -> float:
        """Return the chance of a larger measurement. Its logarithm is taken as normal."""
        low, high = log(self.low), log(self.high)
        spread = (high - low) / 2 / NormalDist().inv_cdf(0.9)
        return 1 - NormalDist((low + high) / 2, spread).cdf(log(value))


class Evidence(NamedTuple):
    """Measured runs behind an interval: their key in the table, their number, their median error.
    `slow` is the share of them that took more than twice as long as predicted. `lost_s` is the
    median of the seconds that these lost for each message, or 0 if fewer than a tenth were slow.
    The bounds are factors on a healthy (`low`) and a slow run's time (`high`). `unlike` lists how
    the planned run differs from all measured runs; each difference widens the bounds."""

    key: str
    runs: int
    median_error: float
    low: float
    high: float
    slow: float
    lost_s: float
    unlike: tuple[str, ...]

    def __str__(self) -> str:
        kind = self.key.removeprefix("time/").replace("/", ", ") if "/" in self.key else _("all")
        text = _(
            "{runs} measured runs ({kind}), median error {error:.0%}",
            runs=self.runs,
            kind=kind,
            error=self.median_error,
        )
        if self.slow >= LEAST_SLOW:
            text = _(
                "{text}; {slow:.0%} of them took more than twice as long", text=text, slow=self.slow
            )
        if not self.unlike:
            return text
        return _("{text}; never compared with {unlike}", text=text, unlike=", ".join(self.unlike))


def bits(layout: Layout) -> str:
    """Return "16 bits" for every precision whose linear layers have 16 bits or more."""
    return layout.precision if layout.precision in LINEAR_PRECISIONS else "16 bits"


def _program(model: Model, stack: Stack) -> str:
    """Return the program's name; a mixture of experts has its own name."""
    return f"{stack.program} with experts" if model.experts else stack.program


def time_keys(model: Model, layout: Layout, cluster: Cluster, stack: Stack) -> list[str]:
    """Return keys from the most to the least specific kind of run. For an unknown code base, the
    other code bases show only how much code bases differ, so the size of the run does not count."""
    if stack.name == UNKNOWN:
        return [f"time/{UNKNOWN}", f"time/device/{cluster.device.family}"]
    nodes = -(-layout.devices // cluster.devices_per_node)
    sizes = ((1, "1"), (8, "2-8"), (31, "9-31"), (63, "32-63"))
    size = next((name for most, name in sizes if nodes <= most), "64+")
    kind = "piped" if layout.pipeline > 1 else "flat"
    program = f"time/{_program(model, stack)}"
    own = f"{program}/{cluster.device.family}"
    narrow = f"{own}/{bits(layout)}"
    sized = f"{narrow}/{size} nodes"
    return [f"{sized}/{kind}", sized, narrow, own, program, f"time/{UNKNOWN}"]


def memory_keys(layout: Layout, stack: Stack) -> list[str]:
    split = "split" if layout.tensor > 1 else "whole"
    return [f"memory/{stack.program}/{split}", f"memory/{stack.program}", "memory"]


@lru_cache(maxsize=1)
def _residuals() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = json.loads(RESIDUALS.read_text(encoding="utf-8"))
    return table


def _first(keys: list[str]) -> str:
    return next(key for key in keys if key in _residuals())


def evidence(model: Model, layout: Layout, cluster: Cluster, stack: Stack) -> Evidence:
    """Return the most specific kind of measured run."""
    key = _first(time_keys(model, layout, cluster, stack))
    row, unlike = _residuals()[key], _unlike(key, model, layout, cluster, stack)
    wider = prod(unlike.values())
    bounds, slow = (row["low"] / wider, row["high"] * wider), (row["slow"], row["lost_s"])
    return Evidence(key, int(row["runs"]), row["median"], *bounds, *slow, tuple(unlike))


def _unlike(
    key: str, model: Model, layout: Layout, cluster: Cluster, stack: Stack
) -> dict[str, float]:
    """Return how the planned run differs from all measured runs of the kind, with a factor for each
    difference. The table knows a device if any code base was measured on it."""
    found: dict[str, float] = {}
    device = _("a device such as {name}", name=cluster.device.name)
    parts = key.split("/")
    families = {name.split("/")[2] for name in _residuals() if name.startswith("time/device/")}
    family = cluster.device.family
    if key == f"time/{UNKNOWN}":
        if stack.name != UNKNOWN:
            found[_program(model, stack)] = 1.0
        if family not in families:
            found[device] = OTHER_DEVICE
    elif len(parts) == 2:
        found[device] = OTHER_DEVICE
    row = _residuals()[key]
    if bits(layout) not in row["precisions"]:
        found[layout.precision] = OTHER_PRECISION
    devices, tokens = layout.devices, model.sequence
    sizes = {
        _("{devices} devices", devices=devices): devices / row["devices"],
        _("sequences of {tokens} tokens", tokens=tokens): tokens / row["sequence"],
    }
    return found | {text: DOUBLED ** log2(more) for text, more in sizes.items() if more > 1}


def memory_interval(gib: float, layout: Layout, stack: Stack) -> Interval:
    row = _residuals()[_first(memory_keys(layout, stack))]
    return Interval(gib * row["low"], gib * row["high"])
