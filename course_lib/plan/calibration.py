"""Fitting the few constants of a site: links from a measurement of links, rates from short runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, log
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
PRIOR = 1e-5  # keeps a constant where it was if the runs do not tell
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


CONSTANTS: dict[str, Callable[[Site, float, str], Site]] = {
    "rate of matrix products": _faster_products,
    "speed of launching": _faster_host,
    "memory bandwidth": _faster_memory,
}


def calibrate(cluster: Cluster, stack: Stack, runs: Sequence[Observation]) -> Calibration:
    """Moves as many constants as there are runs, those first to which the runs are most
    sensitive; the rest stay as they were."""
    if not runs:
        raise PlanError("nothing to calibrate on: give at least one Observation of a short run")
    site: Site = (cluster, stack)
    moved = sorted(CONSTANTS, key=lambda name: -_sensitivity(site, name, runs))[: len(runs)]
    factors = _least_squares(site, moved, runs)
    fitted = _moved(site, factors, runs)
    errors = tuple(exp(error) - 1 for error in _errors(fitted, runs))
    return Calibration(fitted[0], fitted[1], factors, errors)


def _moved(site: Site, factors: dict[str, float], runs: Sequence[Observation]) -> Site:
    for name, factor in factors.items():
        site = CONSTANTS[name](site, factor, runs[0].layout.precision)
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
        held = [PRIOR**0.5 * value for value in place]
        return _errors(_moved(site, factors, runs), runs) + held

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


def with_links(cluster: Cluster, fits: pd.DataFrame, ranks: pd.DataFrame) -> Cluster:
    """The cluster with links as measured: `fits` has one row per pair (kind, source, destination,
    alpha_us, beta_gb_s), `ranks` says on which node each rank was. The median pair counts."""
    node = dict(zip(ranks["rank"], ranks["node"], strict=True))
    pairs = fits[fits["kind"] == "point_to_point"]
    crossing = pairs["source"].map(node) != pairs["destination"].map(node)
    found = {}
    for name, rows in (("within", pairs[~crossing]), ("across", pairs[crossing])):
        if len(rows):
            latency, bandwidth = rows["alpha_us"].median(), rows["beta_gb_s"].median()
            found[name] = Link(max(0.0, float(latency)), float(bandwidth), "measured")
    if not found:
        raise PlanError(
            "the measurement has no point_to_point pairs; run measure_links.py with two or more "
            "ranks, and on two nodes to learn the link between them"
        )
    return cluster.but(**found)
