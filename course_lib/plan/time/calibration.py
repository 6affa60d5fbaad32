"""Calibration: fit a site's few constants to short runs on it (its links are measured instead)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, log

from course_lib.plan.checks import expect, expect_each, keep_numbers
from course_lib.plan.code_bases import Stack
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Model
from course_lib.plan.time.iteration import iteration_parts
from course_lib.plan.time.kernels import sustained_flops_per_s
from course_lib.words import N_

# Limit of a constant's factor in both directions; beyond it, the run was not as described.
WIDEST = 32.0
# Weights that keep a constant unless the runs determine it; the first has less weight.
FREE_PRIOR, PRIOR = 1e-5, 1e-3
# Error beyond which a run probably has a cause that no constant can correct.
FAR_OFF = 0.1
MOST_STEPS, NUDGE = 30, 1e-4


@dataclass(frozen=True)
class Observation:
    """Short run: its configuration and the seconds of one iteration (the median of a few)."""

    model: Model
    layout: Layout
    seconds: float

    def __post_init__(self) -> None:
        keep_numbers(self, "seconds", above=True)
        expect(Model, "model", self.model, 'plan.preset("tiny")')
        expect(Layout, "layout", self.layout, "plan.Layout(data=4)")


@dataclass(frozen=True)
class Calibration:
    """Calibrated site: `factors` is the change of each constant, and `errors` the remaining
    predicted / measured - 1 of every run."""

    cluster: Cluster
    stack: Stack
    factors: dict[str, float]
    errors: tuple[float, ...]


Site = tuple[Cluster, Stack]


def _faster_products(site: Site, factor: float, precision: str) -> Site:
    cluster, stack = site
    peak = cluster.device.peak_tflops(precision) * 1e12
    share = sustained_flops_per_s(cluster.device, precision, stack.libraries) / peak * factor
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
        host_sharded_ms=stack.host_sharded_ms / factor,
        iteration_ms=stack.iteration_ms / factor,
    )
    return cluster, quicker


def _faster_processor(site: Site, factor: float, precision: str) -> Site:
    for change in (_faster_products, _faster_memory, _faster_host):
        site = change(site, factor, precision)
    return site


CONSTANTS: dict[str, Callable[[Site, float, str], Site]] = {
    N_("rate of matrix products"): _faster_products,
    N_("speed of launching"): _faster_host,
    N_("memory bandwidth"): _faster_memory,
}
# Processors multiply, move data and launch kernels, so a faster one speeds up all three.
ON_PROCESSORS: dict[str, Callable[[Site, float, str], Site]] = {
    N_("speed of the processor"): _faster_processor,
    N_("speed of launching"): _faster_host,
}


def calibrate(cluster: Cluster, stack: Stack, runs: Sequence[Observation]) -> Calibration:
    """Fit as many constants as there are runs: on devices the ones to which the runs are most
    sensitive, on shared processors their speed first. The other constants stay unchanged."""
    expect(Cluster, "cluster", cluster, "plan.box()")
    expect(Stack, "stack", stack, 'plan.STACKS["course"]')
    runs = expect_each(Observation, "runs", runs, "plan.Observation(model, layout, seconds)")
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


Residuals = Callable[[list[float]], list[float]]


def _least_squares(
    site: Site, names: Sequence[str], runs: Sequence[Observation]
) -> dict[str, float]:
    """Fit logarithms of the factors: first with equal weights, then with less for outliers."""

    def residuals(place: list[float], far_off: float) -> list[float]:
        factors = {name: exp(value) for name, value in zip(names, place, strict=True)}
        weights = [FREE_PRIOR] + [PRIOR] * (len(names) - 1)
        held = [weight**0.5 * value for weight, value in zip(weights, place, strict=True)]
        return [
            _tamed(error, far_off) for error in _errors(_moved(site, factors, runs), runs)
        ] + held

    place = [0.0] * len(names)
    for far_off in (inf, FAR_OFF):
        place = _descend(partial(residuals, far_off=far_off), place)
    return {name: exp(value) for name, value in zip(names, place, strict=True)}


def _descend(residuals: Residuals, place: list[float]) -> list[float]:
    """Minimize by Gauss-Newton, with each step damped until it helps."""
    import numpy as np

    for _unused in range(MOST_STEPS):
        now = residuals(place)
        slopes = [
            [(b - a) / NUDGE for a, b in zip(now, residuals(_nudged(place, k, NUDGE)), strict=True)]
            for k in range(len(place))
        ]
        step = np.linalg.lstsq(np.array(slopes).T, -np.array(now), rcond=None)[0]
        better = _damped(residuals, place, [float(value) for value in step])
        if better is None:
            break
        place = better
    return place


def _tamed(error: float, far_off: float) -> float:
    """Return a residual whose square is quadratic for small errors and linear beyond (Huber)."""
    size = abs(error)
    if size <= far_off:
        return error
    return float((2 * far_off * size - far_off**2) ** 0.5) * (1 if error > 0 else -1)


def _nudged(place: list[float], index: int, by: float) -> list[float]:
    return [value + by * (k == index) for k, value in enumerate(place)]


def _damped(residuals: Residuals, place: list[float], step: list[float]) -> list[float] | None:
    """Try step, step / 2 … and return the first point that lowers the sum of squares, or None."""
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
