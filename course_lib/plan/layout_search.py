"""The best layouts for a model, a cluster and a batch, and why the others cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

from course_lib.plan.checks import (
    PlanError,
    expect,
    expect_each,
    keep_flags,
    one_of,
    whole_number,
)
from course_lib.plan.code_bases import Stack, stack_named
from course_lib.plan.estimate import Estimate
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.shapes.layout import RECOMPUTE, Layout
from course_lib.plan.shapes.model import Model

if TYPE_CHECKING:
    import pandas as pd

MICRO_BATCHES = (1, 2, 4, 8, 16)
VIRTUAL = (1, 2, 3, 4, 6, 8)
LAYOUT_COLUMNS = (
    *("tensor", "pipeline", "data", "context", "virtual", "micro_batch", "zero", "recompute"),
    "sequence_parallel",
)


@dataclass(frozen=True)
class Choice:
    """What the search may vary; a tuple of one value fixes it."""

    tensor: tuple[int, ...] = (1, 2, 4, 8)
    context: tuple[int, ...] = (1,)
    micro_batch: tuple[int, ...] = MICRO_BATCHES
    virtual: tuple[int, ...] = VIRTUAL
    zero: tuple[int, ...] = (1,)
    recompute: tuple[str, ...] = ("none", "selective", "full")
    precision: str = "bf16"
    flash: bool = True

    def __post_init__(self) -> None:
        for name in ("tensor", "context", "micro_batch", "virtual", "zero"):
            values = expect_each(object, name, getattr(self, name), "1")
            least = 0 if name == "zero" else 1
            kept = tuple(whole_number(name, value, least) for value in values)
            object.__setattr__(self, name, kept)
        for value in expect_each(str, "recompute", self.recompute, '"none"'):
            one_of("recompute", value, RECOMPUTE)
        keep_flags(self, "flash")


@dataclass(frozen=True)
class Found:
    """`fitting` has the fastest first; `overflowing` those of which the least is missing first;
    `refused` counts what does not divide, by reason."""

    fitting: tuple[Estimate, ...]
    overflowing: tuple[Estimate, ...]
    refused: dict[str, int]

    @property
    def best(self) -> Estimate:
        if self.fitting:
            return self.fitting[0]
        if not self.overflowing:
            reasons = "; ".join(f"{text} ({count} ×)" for text, count in self.refused.items())
            raise PlanError(f"no layout divides: {reasons}; change the batch or the devices")
        nearest = self.overflowing[0]
        raise PlanError(
            f"no layout fits: the nearest needs {nearest.device_gib:.1f} of "
            f"{nearest.capacity_gib:.1f} GiB ({layout_text(nearest.layout)}); use more devices, "
            f"a higher zero stage, or more context ranks"
        )

    @cached_property
    def frontier(self) -> tuple[Estimate, ...]:
        """Layouts than which none is both faster and smaller, the fastest first."""
        kept: list[Estimate] = []
        for estimate in self.fitting:
            if not kept or estimate.device_gib < kept[-1].device_gib:
                kept.append(estimate)
        return tuple(kept)

    def table(self, count: int = 10) -> pd.DataFrame:
        """The fastest layouts, and below them the nearest of those that do not fit."""
        import pandas as pd

        best = {id(estimate) for estimate in self.frontier}
        rows = [
            {name: getattr(estimate.layout, name) for name in LAYOUT_COLUMNS}
            | {
                "iteration_s": estimate.seconds,
                "tokens_per_s": estimate.tokens_per_s,
                "mfu": estimate.mfu,
                "device_gib": estimate.device_gib,
                "verdict": why_not(estimate) or estimate.verdict,
                "frontier": id(estimate) in best,
            }
            for estimate in (*self.fitting[:count], *self.overflowing[:count])
        ]
        return pd.DataFrame(rows)

    def points(self) -> pd.DataFrame:
        """Every layout as a point for the figure: memory against time."""
        import pandas as pd

        best = {id(estimate) for estimate in self.frontier}
        return pd.DataFrame(
            [
                {
                    "layout": layout_text(estimate.layout),
                    "iteration_s": estimate.seconds,
                    "device_gib": estimate.device_gib,
                    "fits": estimate.fits,
                    "frontier": id(estimate) in best,
                }
                for estimate in (*self.fitting, *self.overflowing)
            ]
        )


def layout_text(layout: Layout) -> str:
    """Short name of a layout, such as "t8 p16 d6 v2 mb1 zero1 selective"."""
    words = [f"t{layout.tensor}", f"p{layout.pipeline}", f"d{layout.data}"]
    words += [f"c{layout.context}"] if layout.context > 1 else []
    words += [f"v{layout.virtual}"] if layout.virtual > 1 else []
    words += [f"mb{layout.micro_batch}", f"zero{layout.zero}"]
    return " ".join(words + ([layout.recompute] if layout.recompute != "none" else []))


def why_not(estimate: Estimate) -> str:
    """What overflows, and by how much, of an estimate that does not fit; else ""."""
    if estimate.fits:
        return ""
    missing = estimate.device_gib - estimate.capacity_gib
    part, size = max(estimate.fullest.parts.items(), key=lambda item: item[1])
    return f"{missing:.1f} GiB too much, most of it {part} ({size / 2**30:.1f} GiB)"


def search(
    model: Model,
    cluster: Cluster,
    global_batch: int,
    choice: Choice = Choice(),
    stack: Stack | str = "megatron-core",
) -> Found:
    """Every layout of the choice that uses all devices of the cluster."""
    code = stack_named(stack)
    expect(Model, "model", model, 'plan.preset("13b")')
    expect(Cluster, "cluster", cluster, 'plan.cluster("juwels-booster", 32)')
    expect(Choice, "choice", choice, "plan.Choice(tensor=(1, 2))")
    global_batch = whole_number("global_batch", global_batch)
    refused: dict[str, int] = {}
    fitting: list[Estimate] = []
    overflowing: list[Estimate] = []
    for layout in _layouts(model, cluster.devices, global_batch, choice, refused):
        estimate = Estimate(model, layout, cluster, code)
        (fitting if estimate.fits else overflowing).append(estimate)
    fitting.sort(key=lambda estimate: estimate.seconds)
    overflowing.sort(key=lambda estimate: estimate.device_gib)
    return Found(tuple(fitting), tuple(overflowing), refused)


def _refuse(refused: dict[str, int], reason: str) -> None:
    refused[reason] = refused.get(reason, 0) + 1


def _layouts(
    model: Model, devices: int, batch: int, choice: Choice, refused: dict[str, int]
) -> Iterator[Layout]:
    for tensor, context in product(choice.tensor, choice.context):
        if model.heads % tensor or model.kv_groups % tensor or model.ffn % tensor:
            _refuse(refused, f"tensor {tensor} does not divide heads, groups or ffn")
            continue
        if devices % (tensor * context) or model.sequence % (2 * context * tensor):
            _refuse(refused, f"tensor {tensor} × context {context} does not divide")
            continue
        for pipeline in _divisors(model.layers):
            if devices % (tensor * context * pipeline):
                _refuse(refused, f"pipeline {pipeline} does not divide the devices")
                continue
            data = devices // (tensor * context * pipeline)
            yield from _of_grid(model, (tensor, context, pipeline, data), batch, choice, refused)


def _of_grid(
    model: Model,
    grid: tuple[int, int, int, int],
    batch: int,
    choice: Choice,
    refused: dict[str, int],
) -> Iterator[Layout]:
    tensor, context, pipeline, data = grid
    for micro in choice.micro_batch:
        if batch % (micro * data):
            _refuse(refused, "micro_batch × data does not divide the batch")
            continue
        count = batch // (micro * data)
        plain = Layout(
            data, tensor, pipeline, context, micro_batch=micro, global_batch=batch,
            sequence_parallel=tensor > 1, precision=choice.precision, flash=choice.flash,
        )  # fmt: skip
        for virtual in _virtual(model, pipeline, count, choice.virtual):
            for zero, recompute in product(choice.zero, choice.recompute):
                if zero >= 2 and pipeline > 1:
                    _refuse(refused, "zero 2 and 3 do not go with a pipeline")
                    continue
                if recompute == "selective" and choice.flash:
                    continue  # A fused kernel keeps no scores: the same as "none".
                sharded = zero if data * context > 1 else 0
                yield replace(
                    plain, virtual=virtual, schedule="", zero=sharded, recompute=recompute
                )


def _virtual(model: Model, pipeline: int, count: int, allowed: Iterable[int]) -> Iterator[int]:
    for virtual in allowed:
        if virtual == 1:
            yield 1
        elif pipeline > 1 and count % pipeline == 0 and model.layers % (pipeline * virtual) == 0:
            yield virtual


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
