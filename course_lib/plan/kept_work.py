"""Goodput: the share of time that is useful work, given checkpoints, restarts and lost work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import exp, expm1, sqrt
from typing import TYPE_CHECKING, Any

from course_lib.plan.checks import (
    expect,
    expect_each,
    flag,
    keep_numbers,
    keep_texts,
    named,
    number,
    positive,
    whole_number,
)
from course_lib.words import N_, _

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Failures:
    """Failure rate of a node, and costs of a failure and of a checkpoint. Meta's 405 B run saw 419
    unexpected interruptions in 54 days on 16 384 devices (arXiv 2407.21783, section 3.3.4): one per
    node of 8 in 6 300 hours.

    `checkpoint_s` is how long training stops for a checkpoint. A program that copies to the host
    and writes in the background stops for the copy alone. During the `written_behind_s` until the
    file is complete, a failure falls back to the previous checkpoint."""

    node_mtbf_hours: float = 6300.0
    checkpoint_s: float = 60.0
    restart_s: float = 900.0
    written_behind_s: float = 0.0
    source: str = ""

    def __post_init__(self) -> None:
        keep_texts(self, "source")
        keep_numbers(self, "node_mtbf_hours", "checkpoint_s", above=True)
        keep_numbers(self, "restart_s", "written_behind_s")

    def mtbf_s(self, nodes: int) -> float:
        """Return the mean time between failures of the whole job: any failing node ends it."""
        return self.node_mtbf_hours * 3600 / nodes

    def but(self, **changes: Any) -> Failures:
        return replace(self, **changes)


TYPICAL = Failures()


@dataclass(frozen=True)
class PublishedFailures:
    """Failures of a published run that ended the job. They give `node_mtbf_hours`."""

    run: str
    source: str
    devices: int
    devices_per_node: int
    days: float
    failures: float

    @property
    def node_mtbf_hours(self) -> float:
        return self.devices / self.devices_per_node * self.days * 24 / self.failures


PUBLISHED: Mapping[str, PublishedFailures] = {
    "llama-405b": PublishedFailures(
        "Llama 3, 405 B",
        N_("arXiv 2407.21783, section 3.3.4: 419 unexpected interruptions in 54 days"),
        16384, 8, 54, 419,
    ),
    "opt-175b": PublishedFailures(
        "OPT-175B",
        N_("arXiv 2205.01068: at least 35 manual restarts in 2 months, about 70 " "automatic ones"),
        992, 8, 60, 105,
    ),
    "bloom-176b": PublishedFailures(
        "BLOOM-176B", N_("arXiv 2211.05100: 1 to 2 device failures a week (here 1.5)"),
        384, 8, 7, 1.5,
    ),
}  # fmt: skip


def young_interval_s(checkpoint_s: float, mtbf_s: float) -> float:
    """Return the compute time between checkpoints that loses least, to first order (Young 1974)."""
    return sqrt(2 * checkpoint_s * mtbf_s)


def daly_interval_s(checkpoint_s: float, mtbf_s: float) -> float:
    """Return the best interval to higher order (Daly 2006, equation 37)."""
    if checkpoint_s >= 2 * mtbf_s:
        return mtbf_s
    ratio = checkpoint_s / (2 * mtbf_s)
    return young_interval_s(checkpoint_s, mtbf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - checkpoint_s


def useful_share(interval_s: float, failures: Failures, nodes: int) -> float:
    """Return the share of the wall clock that is useful work. Failures come at random; each costs
    a restart and the unsaved work (Daly 2006, equation 20)."""
    mtbf = failures.mtbf_s(nodes)
    stretched = (interval_s + failures.checkpoint_s) / mtbf
    again = (failures.restart_s + failures.written_behind_s) / mtbf
    if stretched > 700 or again > 700:  # e**700 is near the largest float
        return 0.0
    return interval_s / (mtbf * exp(again) * expm1(stretched))


def checkpoint_interval(checkpoint_s: float, mtbf_s: float, first_order: bool = False) -> float:
    """Return the best seconds between checkpoints by Daly's or Young's formula. A checkpoint takes
    `checkpoint_s`, and the job fails every `mtbf_s` on average."""
    checkpoint_s = positive("checkpoint_s", checkpoint_s)
    mtbf_s = positive("mtbf_s", mtbf_s)
    formula = young_interval_s if flag("first_order", first_order) else daly_interval_s
    return formula(checkpoint_s, mtbf_s)


@dataclass(frozen=True)
class Goodput:
    """Shares of the wall clock, which add up to 1."""

    nodes: int
    mtbf_s: float
    interval_s: float
    useful: float
    saving: float
    restarting: float
    repeating: float


def goodput(nodes: int, failures: Failures = TYPICAL, interval_s: float | None = None) -> Goodput:
    """Split the time of a job on `nodes` nodes. The default interval is the best interval."""
    nodes = whole_number("nodes", nodes)
    expect(Failures, "failures", failures, "plan.Failures()")
    mtbf = failures.mtbf_s(nodes)
    if interval_s is None:
        interval_s = daly_interval_s(failures.checkpoint_s, mtbf)
    interval_s = positive("interval_s", interval_s)
    useful = useful_share(interval_s, failures, nodes)
    saving = useful * failures.checkpoint_s / interval_s
    # Each failure costs a restart, and another failure can strike during the restart.
    left = 1 - useful - saving
    restarting = min(left, failures.restart_s / (mtbf + failures.restart_s))
    return Goodput(nodes, mtbf, interval_s, useful, saving, restarting, max(0.0, left - restarting))


def goodputs(
    devices: Iterable[int], failures: Failures = TYPICAL, devices_per_node: int = 8
) -> pd.DataFrame:
    """Return a table with one row for each number of devices."""
    import pandas as pd

    each = whole_number("devices_per_node", devices_per_node)
    rows = []
    for count in expect_each(object, "devices", devices, "16"):
        asked = whole_number("devices", count)
        found = goodput(-(-asked // each), failures)
        rows.append({
            "devices": asked, "nodes": found.nodes, "mtbf_hours": found.mtbf_s / 3600,
            "interval_minutes": found.interval_s / 60, "useful_percent": 100 * found.useful,
            "saving_percent": 100 * found.saving, "restarting_percent": 100 * found.restarting,
            "repeating_percent": 100 * found.repeating,
        })  # fmt: skip
    return pd.DataFrame(rows)


def failures_of(run: str, **changes: float) -> Failures:
    """Return the failures of a published run: "llama-405b", "opt-175b" or "bloom-176b"."""
    for name, value in changes.items():
        number(name, value, 0)
    found = named(_("published run"), run, PUBLISHED)
    source = f"{found.run} ({found.source})"
    given: dict[str, Any] = {"node_mtbf_hours": found.node_mtbf_hours, "source": source} | changes
    return Failures(**given)
