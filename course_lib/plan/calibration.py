"""Fitting the few constants of a site: links from a measurement of links, rates from short runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import median
from typing import TYPE_CHECKING

from course_lib.plan.checks import PlanError
from course_lib.plan.hardware import Cluster, Link
from course_lib.plan.iteration import iteration_parts
from course_lib.plan.kernels import sustained_flops_per_s
from course_lib.plan.layout import Layout
from course_lib.plan.model import Model
from course_lib.plan.stacks import Stack

if TYPE_CHECKING:
    import pandas as pd

# A constant may move by this factor up or down; further, the run was not what was said.
WIDEST = 32.0
# Keeps a constant where it was if the runs do not tell: the one that matters most is free.
FREE_PRIOR, PRIOR = 1e-5, 0.003
# A run further off than this is likely to have a reason that no constant can mend.
FAR_OFF = 0.1
MOST_STEPS, NUDGE = 30, 1e-4


@dataclass(frozen=True)
class Observation:
    """One short run: what ran and the seconds of one iteration (the median of a few)."""

    model: Model
    layout: Layout
    seconds: float


@dataclass(frozen=True)
class Calibration:
    """The site as the runs show it; `factors` says what each constant was multiplied by, and
    `errors` what remains: predicted / measured - 1 of every run."""

    cluster: Cluster
    stack: Stack
    factors: dict[str, float]
    errors: tuple[float, ...]


Site = tuple[Cluster, Stack]


def _faster_products(site: Site, factor: float, precision: str) -> Site:
    cluster, stack = site
    peak = cluster.device.peak_tflops(precision) * 1e12
    share = sustained_flops_per_s(cluster.device, precision) / peak * factor
    return cluster.but(device=replace(cluster.device, lasting_share=share)), stack


def _faster_memory(site: Site, factor: float, precision: str) -> Site:
    cluster, stack = site
    rate = cluster.device.need("memory_gb_per_s") * factor
    return cluster.but(device=replace(cluster.device, memory_gb_per_s=rate)), stack


def _faster_host(site: Site, factor: float, precision: str) -> Site:
    cluster, stack = site
    quicker = replace(
        stack,
        host_forward_ms=stack.host_forward_ms / factor,
        host_backward_ms=stack.host_backward_ms / factor,
        iteration_ms=stack.iteration_ms / factor,
    )
    return cluster, quicker


def _faster_processor(site: Site, factor: float, precision: str) -> Site:
    for change in (_faster_products, _faster_memory, _faster_host):
        site = change(site, factor, precision)
    return site


PROCESSOR = "speed of the processor"  # where one does it all: multiply, move and launch
CONSTANTS: dict[str, Callable[[Site, float, str], Site]] = {
    "rate of matrix products": _faster_products,
    "speed of launching": _faster_host,
    "memory bandwidth": _faster_memory,
}
# Where a processor does it all, a faster one does all of it faster.
ON_PROCESSORS: dict[str, Callable[[Site, float, str], Site]] = {
    "speed of the processor": _faster_processor,
    "speed of launching": _faster_host,
    "rate of matrix products": _faster_products,
}


def calibrate(cluster: Cluster, stack: Stack, runs: Sequence[Observation]) -> Calibration:
    """Moves as many constants as there are runs: on devices those to which the runs are most
    sensitive, on shared processors their speed first. The rest stay as they were."""
    if not runs:
        raise PlanError("nothing to calibrate on: give at least one Observation of a short run")
    site: Site = (cluster, stack)
    moved = list(_constants(site))
    if not cluster.processors:
        moved.sort(key=lambda name: -_sensitivity(site, name, runs))
    moved = moved[: len(runs)]
    factors = _least_squares(site, moved, runs)
    fitted = _moved(site, factors, runs)
    errors = tuple(exp(error) - 1 for error in _errors(fitted, runs))
    return Calibration(fitted[0], fitted[1], factors, errors)


def _constants(site: Site) -> dict[str, Callable[[Site, float, str], Site]]:
    return ON_PROCESSORS if site[0].processors else CONSTANTS


def _moved(site: Site, factors: dict[str, float], runs: Sequence[Observation]) -> Site:
    for name, factor in factors.items():
        site = _constants(site)[name](site, factor, runs[0].layout.precision)
    return site


def _errors(site: Site, runs: Sequence[Observation]) -> list[float]:
    cluster, stack = site
    return [
        log(sum(iteration_parts(run.model, run.layout, cluster, stack).values()) / run.seconds)
        for run in runs
    ]


def _sensitivity(site: Site, name: str, runs: Sequence[Observation]) -> float:
    before = _errors(site, runs)
    after = _errors(_moved(site, {name: 2.0}, runs), runs)
    return sum(abs(a - b) for a, b in zip(after, before, strict=True))


def _least_squares(
    site: Site, names: Sequence[str], runs: Sequence[Observation]
) -> dict[str, float]:
    """Gauss-Newton on the logarithms of the factors, each step damped until it helps."""
    import numpy as np

    def residuals(place: list[float]) -> list[float]:
        factors = {name: exp(value) for name, value in zip(names, place, strict=True)}
        weights = [FREE_PRIOR] + [PRIOR] * (len(names) - 1)
        held = [weight**0.5 * value for weight, value in zip(weights, place, strict=True)]
        return [_tamed(error) for error in _errors(_moved(site, factors, runs), runs)] + held

    place = [0.0] * len(names)
    for _ in range(MOST_STEPS):
        now = residuals(place)
        slopes = [
            [(b - a) / NUDGE for a, b in zip(now, residuals(_nudged(place, k, NUDGE)), strict=True)]
            for k in range(len(names))
        ]
        step = np.linalg.lstsq(np.array(slopes).T, -np.array(now), rcond=None)[0]
        better = _damped(residuals, place, [float(value) for value in step])
        if better is None:
            break
        place = better
    return {name: exp(value) for name, value in zip(names, place, strict=True)}


def _tamed(error: float) -> float:
    """Its square grows with the error's square when it is small, and with the error beyond."""
    size = abs(error)
    if size <= FAR_OFF:
        return error
    return (2 * FAR_OFF * size - FAR_OFF**2) ** 0.5 * (1 if error > 0 else -1)


def _nudged(place: list[float], index: int, by: float) -> list[float]:
    return [value + by * (k == index) for k, value in enumerate(place)]


def _damped(
    residuals: Callable[[list[float]], list[float]], place: list[float], step: list[float]
) -> list[float] | None:
    """The first of the step, its half, its quarter … that lowers the squares; None: none does."""
    before = sum(value**2 for value in residuals(place))
    limit = log(WIDEST)
    for halving in range(8):
        tried = [
            max(-limit, min(limit, value + change / 2**halving))
            for value, change in zip(place, step, strict=True)
        ]
        if sum(value**2 for value in residuals(tried)) < before * (1 - 1e-6):
            return tried
    return None


def with_links(cluster: Cluster, measured: pd.DataFrame, ranks: pd.DataFrame) -> Cluster:
    """The cluster with links as measured. `measured` are the samples of `measure_links.py` (or the
    lines fitted to them: alpha_us, beta_gb_s), `ranks` says on which node each rank was. The median
    pair counts; and if everyone's all-reduce was measured too, what its steps cost beyond that."""
    node = dict(zip(ranks["rank"], ranks["node"], strict=True))
    pairs = measured[measured["kind"] == "point_to_point"]
    line = _line_of_samples if "size_bytes" in measured else _line_of_fit
    crossing = pairs["source"].map(node) != pairs["destination"].map(node)
    found = {}
    for name, rows in (("within", pairs[~crossing]), ("across", pairs[crossing])):
        if len(rows):
            lines = [line(pair) for _, pair in rows.groupby(["source", "destination"])]
            latency, bandwidth = (median(values) for values in zip(*lines, strict=True))
            found[name] = Link(max(0.0, latency), bandwidth, "measured")
    if not found:
        raise PlanError(
            "the measurement has no point_to_point pairs; run measure_links.py with two or more "
            "ranks, and on two nodes to learn the link between them"
        )
    linked = cluster.but(**found)
    return linked.but(turn_us=_turn_us(linked, measured, len(node)))


def _line_of_fit(pair: pd.DataFrame) -> tuple[float, float]:
    return float(pair["alpha_us"].median()), float(pair["beta_gb_s"].median())


def _line_of_samples(pair: pd.DataFrame) -> tuple[float, float]:
    """Latency of the smallest message, and what each further byte of the largest two costs: a
    shaped link lets a short burst pass, so that a line through all sizes shows more than it has."""
    ordered = pair.sort_values("size_bytes")
    size, time = ordered["size_bytes"].tolist(), ordered["time_us"].tolist()
    if len(size) < 2 or time[-1] <= time[-2]:
        return 0.0, size[-1] / time[-1] / 1e3
    return time[0], (size[-1] - size[-2]) / (time[-1] - time[-2]) / 1e3


def _turn_us(cluster: Cluster, measured: pd.DataFrame, ranks: int) -> float:
    """What a step of an all-reduce over everyone takes beyond the latency of the slower link."""
    if not 0 < cluster.processors < ranks or "size_bytes" not in measured:
        return cluster.turn_us
    everyone = measured[(measured["kind"] == "all_reduce") & measured["source"].isna()]
    small = everyone.sort_values("size_bytes").head(3)
    if not len(small):
        return cluster.turn_us
    latency = max(cluster.within.latency_us, cluster.across.latency_us)
    return max(0.0, float(small["time_us"].median()) / (2 * (ranks - 1)) - latency)
