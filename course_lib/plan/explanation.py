"""Explanation of an estimate: each part as work over a rate, and what would make it faster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from course_lib.plan.checks import PlanError, expect, whole_number
from course_lib.plan.estimate import Estimate
from course_lib.plan.hardware import efficiency as c
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.layout_search import layout_text
from course_lib.plan.shapes.layout import LINEAR_PRECISIONS, Layout
from course_lib.plan.time.kernels import sustained_flops_per_s
from course_lib.words import N_, _

if TYPE_CHECKING:
    import pandas as pd

# What each part is, by its name: the sentence follows the numbers.
MEANING = {
    "attention": N_("scores and their product with the values, in a fused kernel"),
    "tensor": N_("exchange of activations between tensor ranks that nothing hides"),
    "context": N_("exchange of keys and values between context ranks that nothing hides"),
    "exchange": N_("tokens on their way to experts and back"),
    "launch": N_("time in which the device waits for the next kernel"),
    "recompute": N_("activations that are computed a second time"),
    "bubble": N_("waiting in a pipeline that fills and drains"),
    "sharing": N_("waiting for processors that ranks share"),
    "pipeline": N_("activations sent between stages, and the sum of a shared embedding"),
    "data": N_("sum of gradients, and gather of weights, that computation does not hide"),
    "optimizer": N_("update of the rank's own parameters"),
    "loop": N_("loss, norm, logging and data, once per iteration"),
    "straggler": N_("waiting for the slowest of many nodes"),
}
# Smallest gain that is worth a line.
LEAST_GAIN = 0.005


@dataclass(frozen=True)
class Explanation:
    """Parts of an estimate with their formulas, and changes in the order of their gain."""

    estimate: Estimate

    def table(self) -> pd.DataFrame:
        """Return one row for each part of the time: seconds, share, and where it comes from."""
        import pandas as pd

        whole = self.estimate.seconds
        rows = [
            (name, seconds, seconds / whole, self._formula(name, seconds))
            for name, seconds in sorted(self.estimate.parts.items(), key=lambda part: -part[1])
        ]
        return pd.DataFrame(rows, columns=["part", "seconds", "share", "why"])

    def _formula(self, name: str, seconds: float) -> str:
        device, stack = self.estimate.cluster.device, self.estimate.stack
        precision = self.estimate.layout.precision
        if name == "matmul":
            rate = sustained_flops_per_s(device, precision, stack.libraries)
            peak = device.peak_tflops(precision)
            return _(
                "at most {rate:.0f} TFLOP/s, {share:.0%} of the peak of {peak:.0f} ({source}), and "
                "less if matmuls are small",
                rate=rate / 1e12,
                share=rate / 1e12 / peak,
                peak=peak,
                source=_(device.source) or device.name,
            )
        if name == "memory":
            rate = device.need("memory_gb_per_s") * c.MEMORY_SHARE
            return _(
                "{work:.3g} GB of norms, activations and casts at {rate:.0f} GB/s, {share:.0%} of "
                "the data sheet",
                work=seconds * rate,
                rate=rate,
                share=c.MEMORY_SHARE,
            )
        return _(MEANING.get(name, name))

    def faster(self, count: int = 10) -> pd.DataFrame:
        """Return the changes that gain most, each alone: of the layout, then of the machine."""
        import pandas as pd

        count, rows = whole_number("count", count), []
        for change, other in _changes(self.estimate):
            gain = 1 - self.estimate.tokens_per_s / other.tokens_per_s
            if gain >= LEAST_GAIN:
                rows.append((change, other.tokens_per_s, gain, other.device_gib, other.verdict))
        rows.sort(key=lambda row: -row[1])
        columns = ["change", "tokens_per_s", "gain", "device_gib", "memory"]
        return pd.DataFrame(rows[:count], columns=columns)

    def __str__(self) -> str:
        parts = "\n".join(
            f"  {row.part:10} {row.seconds:8.3f} s {row.share:4.0%}  {row.why}"
            for row in self.table().itertuples()
        )
        faster = "\n".join(
            f"  −{row.gain:.0%}  {row.change} ({row.memory})" for row in self.faster().itertuples()
        )
        faster = faster or "  " + _("no single change gains anything")
        title = _("Less time for each token, in order of gain:")
        return "\n".join([str(self.estimate), parts, title, faster])


def explain(estimate: Estimate) -> Explanation:
    """Explain an estimate: each part with its formula, and what would make the run faster."""
    return Explanation(expect(Estimate, "estimate", estimate, "plan.predict(…)"))


def _changes(estimate: Estimate) -> Iterator[tuple[str, Estimate]]:
    for layout in _other_layouts(estimate.layout):
        try:
            layout.check(estimate.model)
            yield layout_text(layout), replace(estimate, layout=layout)
        except PlanError:
            continue
    batch = 2 * estimate.layout.global_batch
    larger = replace(estimate, layout=estimate.layout.but(global_batch=batch))
    yield _("a batch of {batch} sequences", batch=batch), larger
    for text, cluster in _other_machines(estimate.cluster):
        yield text, replace(estimate, cluster=cluster)
    if estimate.layout.precision == "bf16":
        known = estimate.cluster.device.peaks()
        for precision in (name for name in LINEAR_PRECISIONS if name in known):
            narrow = estimate.layout.but(precision=precision)
            yield _("linear layers in {precision}", precision=precision), replace(
                estimate, layout=narrow
            )  # fmt: skip


def _other_layouts(layout: Layout) -> Iterator[Layout]:
    """Yield possible layouts with the same number of devices and one change."""
    changes: list[tuple[str, Any]] = [("recompute", "none"), ("recompute", "selective")]
    changes += [("zero", 0), ("zero", 1)]
    for name in ("tensor", "pipeline", "context", "expert", "micro_batch", "virtual"):
        now = getattr(layout, name)
        changes += [(name, other) for other in (2 * now, now // 2) if other]
    for name, value in changes:
        sizes = {size: getattr(layout, size) for size in ("tensor", "pipeline", "context")}
        ranks = prod((sizes | {name: value})[size] for size in sizes)
        if layout.devices % ranks or value == getattr(layout, name):
            continue
        spread = {"data": layout.devices // ranks, name: value}
        if name == "tensor":
            spread["sequence_parallel"] = value > 1
        try:
            yield layout.but(**spread)
        except PlanError:
            continue


def _other_machines(cluster: Cluster) -> Iterator[tuple[str, Cluster]]:
    across, within = cluster.across, cluster.within
    yield (
        _("a network twice as fast"),
        cluster.but(across=replace(across, gb_per_s=2 * across.gb_per_s)),
    )
    yield (
        _("links inside a node twice as fast"),
        cluster.but(within=replace(within, gb_per_s=2 * within.gb_per_s)),
    )
    device = cluster.device
    if device.memory_gb_per_s:
        twice = replace(device, memory_gb_per_s=2 * device.memory_gb_per_s)
        yield _("device memory twice as fast"), cluster.but(device=twice)
