"""Estimates of a run: time and memory by part, and how certain they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from course_lib.mistakes.names import suggests_similar_names
from course_lib.plan.checks import PlanError, expect, number, one_of
from course_lib.plan.code_bases import Stack, stack_named
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.hardware.efficiency import CONTEXT_GIB, USABLE_MEMORY_SHARE
from course_lib.plan.memory.stage_memory import StageMemory, memory_of_stages, peak_stage
from course_lib.plan.published.intervals import (
    Evidence,
    Interval,
    evidence,
    memory_interval,
)
from course_lib.plan.schedules.costs import messages
from course_lib.plan.shapes import flops
from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Model
from course_lib.plan.shapes.parameter_counts import active_parameters, parameters
from course_lib.plan.shapes.stages import head_rank
from course_lib.plan.time.iteration import iteration_parts
from course_lib.words import _

if TYPE_CHECKING:
    import pandas as pd

GIB = 2**30
DAY_S = 86_400
# Share of the usable memory; a run that fills more is one buffer away from out of memory.
TIGHT_SHARE = 0.95


@suggests_similar_names
@dataclass(frozen=True)
class Estimate:
    """Prediction for one run. Times are of one iteration unless the name says otherwise."""

    model: Model
    layout: Layout
    cluster: Cluster
    stack: Stack

    def __post_init__(self) -> None:
        expect(Model, "model", self.model, 'plan.preset("13b")')
        expect(Layout, "layout", self.layout, "plan.Layout(data=4)")
        expect(Cluster, "cluster", self.cluster, 'plan.cluster("juwels-booster", 32)')
        expect(Stack, "stack", self.stack, 'plan.STACKS["megatron-core"]')

    @cached_property
    def parts(self) -> dict[str, float]:
        """Return the seconds of each part; they add up to `seconds`."""
        found = iteration_parts(self.model, self.layout, self.cluster, self.stack)
        return {name: seconds for name, seconds in found.items() if seconds > 0}

    @cached_property
    def seconds(self) -> float:
        return sum(self.parts.values())

    @property
    def interval(self) -> Interval:
        """Return the bounds in seconds that contain 80 % of measured runs of this kind. If runs of
        the kind are often slow, the upper bound is the bound of slow runs."""
        known = self.evidence
        return Interval(self.seconds * known.low, self.slow_s * known.high)

    @cached_property
    def evidence(self) -> Evidence:
        """Return the measured runs from which the interval comes."""
        return evidence(self.model, self.layout, self.cluster, self.stack)

    @property
    def slow(self) -> tuple[float, float] | None:
        """Return the share of this program's measured runs of the kind that took more than twice as
        long as predicted, and the seconds that this run would then take; None if few did."""
        known = self.evidence
        return (known.slow, self.slow_s) if known.lost_s else None

    @property
    def slow_s(self) -> float:
        """Return the seconds of a slow run, or of a healthy run if few were slow."""
        return self.seconds + self.evidence.lost_s * messages(self.layout)

    @property
    def expected_s(self) -> float:
        """Return the mean over healthy and slow runs; it orders the layouts of a search."""
        return self.seconds + self.evidence.slow * (self.slow_s - self.seconds)

    @cached_property
    def stages(self) -> tuple[StageMemory, ...]:
        return memory_of_stages(self.model, self.layout, self.stack)

    @cached_property
    def fullest(self) -> StageMemory:
        return peak_stage(self.model, self.layout, self.stack)

    @property
    def allocated_gib(self) -> float:
        """Return the peak of the fullest stage as the program's allocator counts it."""
        return self.peak_gib("allocated")

    @property
    def device_gib(self) -> float:
        """Return the peak as nvidia-smi would show it: with memory that the allocator reserves but
        cannot use, and with the context of driver and communication library."""
        return self.peak_gib("device")

    def peak_gib(self, kind: str = "device", of: str = "max") -> float:
        """Return the peak of a stage ("first", "last" or "max"), counted as "allocated", "reserved"
        or of the whole "device"."""
        one_of("kind", kind, ("allocated", "reserved", "device"))
        one_of("of", of, ("first", "last", "max"))
        last = head_rank(self.model, self.layout)
        stage = self.fullest if of == "max" else self.stages[0 if of == "first" else last]
        counted = stage.allocated if kind == "allocated" else stage.reserved(self.stack)
        return counted / GIB + (self.context_gib if kind == "device" else 0.0)

    @property
    def context_gib(self) -> float:
        """Return the GiB of driver and communication library; a rank on a processor has none."""
        return 0.0 if self.cluster.processors else CONTEXT_GIB

    @property
    def memory_interval_gib(self) -> Interval:
        return memory_interval(self.device_gib, self.layout, self.stack)

    @property
    def capacity_gib(self) -> float:
        return self.cluster.device.need("memory_gib") * USABLE_MEMORY_SHARE

    @property
    def fits(self) -> bool:
        return self.device_gib <= self.capacity_gib

    @property
    def verdict(self) -> str:
        """Return "fits", "tight" or "overflows". An estimate is tight if the interval exceeds the
        device, or if less than 5 % is free. It is also tight without room for a second block of
        half the logits' size, which fragmentation can require."""
        if not self.fits:
            return "overflows"
        spare = self.device_gib + self.fullest.logits / 2 / GIB
        full = self.device_gib / TIGHT_SHARE
        tight = max(self.memory_interval_gib.high, spare, full) > self.capacity_gib
        return "tight" if tight else "fits"

    @property
    def overflow_chance(self) -> float:
        """Return the chance that a run of this kind needs more memory than the device has."""
        return self.memory_interval_gib.chance_above(self.capacity_gib)

    @property
    def tokens(self) -> int:
        return self.layout.global_batch * self.model.sequence

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds

    @property
    def tflops_per_device(self) -> float:
        """Return the rate of model FLOPs, which do not count recomputation."""
        work = flops.of_iteration(self.model, self.layout).model
        return work / self.seconds / self.layout.devices / 1e12

    @property
    def hardware_tflops_per_device(self) -> float:
        work = flops.of_iteration(self.model, self.layout).hardware
        return work / self.seconds / self.layout.devices / 1e12

    @property
    def mfu(self) -> float:
        return self.tflops_per_device / self.cluster.device.peak_tflops(self.layout.precision)

    @property
    def hfu(self) -> float:
        peak = self.cluster.device.peak_tflops(self.layout.precision)
        return self.hardware_tflops_per_device / peak

    def seconds_for(self, tokens: float) -> float:
        """Return the seconds to train on these tokens (benchmark's "time to report": 20 M)."""
        return number("tokens", tokens, 0) / self.tokens_per_s

    def days(self, tokens: float) -> float:
        return self.seconds_for(tokens) / DAY_S

    def device_hours(self, tokens: float) -> float:
        return self.seconds_for(tokens) / 3600 * self.layout.devices

    def energy_mwh(self, tokens: float) -> float:
        """Return the energy of the devices alone, at the power on their data sheet. Hosts, network
        and cooling add a third to a half."""
        watt = self.cluster.device.need("power_watt")
        return self.device_hours(tokens) * watt / 1e6

    def table(self) -> pd.DataFrame:
        """Return the time and the fullest stage's memory by part, each with its total."""
        import pandas as pd

        rows = [("time", name, value, "s") for name, value in self.parts.items()]
        rows.append(("time", "total", self.seconds, "s"))
        memory = {name: value / GIB for name, value in self.fullest.parts.items() if value > 0}
        memory["allocator"] = (self.fullest.reserved(self.stack) - self.fullest.allocated) / GIB
        memory["context"] = self.context_gib
        rows += [("memory", name, value, "GiB") for name, value in memory.items()]
        rows.append(("memory", "total", self.device_gib, "GiB"))
        return pd.DataFrame(rows, columns=["of", "part", "value", "unit"])

    def __str__(self) -> str:
        low, high = self.interval
        model, slow = self.model, ""
        if known := self.slow:
            slow = _(
                "; {share:.0%} of such runs were slow: about {slow_s:.3g} s",
                share=known[0],
                slow_s=known[1],
            )
        size = ""
        if model.experts:
            size = _(
                " ({total:.1f} billion parameters, {active:.1f} for a token)",
                total=parameters(model).total / 1e9,
                active=active_parameters(model) / 1e9,
            )
        return _(
            "{name}{size} on {devices} × {name2}: {seconds:.4g} s per iteration (80 % "
            "between {low:.4g} and {high:.4g}{slow}), {tokens_per_s:,.0f} tokens/s, MFU "
            "{mfu:.1%}; {device_gib:.1f} of {capacity_gib:.1f} GiB: {verdict}, chance of "
            "overflow {chance:.0%} (evidence: {evidence})",
            name=model.name,
            size=size,
            devices=self.layout.devices,
            name2=self.cluster.device.name,
            seconds=self.seconds,
            low=low,
            high=high,
            slow=slow,
            tokens_per_s=self.tokens_per_s,
            mfu=self.mfu,
            device_gib=self.device_gib,
            capacity_gib=self.capacity_gib,
            verdict=self.verdict,
            chance=self.overflow_chance,
            evidence=self.evidence,
        )


def predict(
    model: Model, layout: Layout, cluster: Cluster, stack: Stack | str = "megatron-core"
) -> Estimate:
    """Predict a run of this model with this layout on this cluster, by this code base."""
    estimate = Estimate(model, layout, cluster, stack_named(stack))
    if layout.devices > cluster.devices:
        text = _(
            "the layout needs {devices} devices and {name} has {nodes} nodes × "
            "{devices_per_node} = {devices2}; use cluster.but(nodes={value})",
            devices=layout.devices,
            name=cluster.name,
            nodes=cluster.nodes,
            devices_per_node=cluster.devices_per_node,
            devices2=cluster.devices,
            value=-(-layout.devices // cluster.devices_per_node),
        )
        raise PlanError(text)
    layout.check(model)
    return estimate
