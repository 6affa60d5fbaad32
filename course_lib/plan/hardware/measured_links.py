"""Links of a site, as `measure_links.py` measured them."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from course_lib.plan.checks import PlanError
from course_lib.plan.hardware import efficiency as c
from course_lib.plan.hardware.cluster import Cluster, Link
from course_lib.words import _

if TYPE_CHECKING:
    import pandas as pd

# The time of messages up to this size is latency alone.
SMALL_BYTES = 64 << 10


def with_links(cluster: Cluster, measured: Any, ranks: pd.DataFrame | None = None) -> Cluster:
    """Return the cluster with measured links: `with_links(cluster, run.links)`. Instead of the
    result of `read.links`, you can pass its samples (or fitted lines: alpha_us, bandwidth_gb_s) and
    its ranks. The median pair counts. If the all-reduce of all ranks was measured too, its extra
    cost per step sets `turn_us`. Ranks that keep a pace do not share processors."""
    if ranks is None:
        return with_links(cluster, measured.samples, measured.ranks)
    node = dict(zip(ranks["rank"], ranks["node"], strict=True))
    pairs = measured[measured["kind"] == "point_to_point"]
    line = _line_of_samples if "size_bytes" in measured else _line_of_fit
    crossing = pairs["source"].map(node) != pairs["destination"].map(node)
    found = {}
    for name, rows in (("within", pairs[~crossing]), ("across", pairs[crossing])):
        if len(rows):
            lines = [line(pair) for _unused, pair in rows.groupby(["source", "destination"])]
            latency, bandwidth = (median(values) for values in zip(*lines, strict=True))
            found[name] = Link(max(0.0, latency), bandwidth, "measured")
    if not found:
        raise PlanError(
            _(
                "the measurement has no point_to_point pairs; run measure_links.py with "
                "two or more ranks, and on two nodes to learn the link between them"
            )
        )
    linked = cluster.but(**found, paced=_paced(ranks))
    return linked.but(turn_us=_turn_us(linked, measured, len(node)))


def _paced(ranks: pd.DataFrame) -> bool:
    """Tell whether ranks kept a pace. Files of older programs do not state it and count as no."""
    return "pace" in ranks and bool((ranks["pace"].astype(float) > 1).any())


def _line_of_fit(pair: pd.DataFrame) -> tuple[float, float]:
    return float(pair["alpha_us"].median()), float(pair["bandwidth_gb_s"].median())


def _line_of_samples(pair: pd.DataFrame) -> tuple[float, float]:
    """Return latency and bandwidth: the fastest message's time, because waits for a busy processor
    do not belong to the link, and the cost per further byte of the largest two messages. A shaped
    link lets a short burst pass, so a line through all sizes would overstate the bandwidth."""
    ordered = pair.sort_values("size_bytes")
    size, time = ordered["size_bytes"].tolist(), ordered["time_us"].tolist()
    if len(size) < 2 or time[-1] <= time[-2]:
        return 0.0, size[-1] / time[-1] / 1e3
    return float(_quickest_us(pair).min()), (size[-1] - size[-2]) / (time[-1] - time[-2]) / 1e3


def _quickest_us(rows: pd.DataFrame) -> pd.Series:
    """Return the fastest times; files of older programs have only the usual times."""
    return rows.get("fastest_us", rows["time_us"]).fillna(rows["time_us"])


def _turn_us(cluster: Cluster, measured: pd.DataFrame, ranks: int) -> float:
    """Return the time of a small all-reduce beyond its messages, per step. In the measurement,
    ranks only communicate. Ranks that keep a pace arrive at slightly different times, which the
    fastest attempts measure."""
    if not 0 < cluster.processors < ranks or "size_bytes" not in measured:
        return cluster.turn_us
    everyone = measured[(measured["kind"] == "all_reduce") & measured["source"].isna()]
    small = everyone[everyone["size_bytes"] <= SMALL_BYTES]
    if not len(small):
        return cluster.turn_us
    latency = max(cluster.within.latency_us, cluster.across.latency_us)
    steps = 2 * (ranks - 1)
    times_us = _quickest_us(small) if cluster.paced else small["time_us"]
    turn_us = max(0.0, float(times_us.median()) / steps - latency)
    return c.TURN_AFTER_COMPUTING * turn_us if cluster.paced else turn_us
