"""Search for the best layouts of a model on a cluster, with the reasons why others fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

from course_lib.plan.checks import (
    PlanError,
    divisors,
    expect,
    expect_each,
    keep_flags,
    one_of,
    whole_number,
)
from course_lib.plan.code_bases import Stack, stack_named
from course_lib.plan.estimate import Estimate
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.shapes.layout import PRECISIONS, RECOMPUTE, Layout
from course_lib.plan.shapes.model import Model
from course_lib.words import N_, _

if TYPE_CHECKING:
    import pandas as pd

MICRO_BATCHES = (1, 2, 4, 8, 16)
VIRTUAL = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12)
# Least tokens of a sequence for each context rank, if the user does not choose.
CONTEXT_TOKENS = 16384
LAYOUT_COLUMNS = (
    *("tensor", "pipeline", "data", "context", "expert", "virtual", "micro_batch", "zero"),
    "recompute",
    "sequence_parallel",
)


@dataclass(frozen=True)
class Choice:
    """Values that the search may vary; a tuple of one value fixes it. An empty `context` means
    powers of two that leave each rank at least 16,384 tokens of a sequence; an empty `expert`
    means all numbers of ranks that divide a mixture's experts. Matrices of experts stay whole."""

    tensor: tuple[int, ...] = (1, 2, 4, 8)
    context: tuple[int, ...] = ()
    micro_batch: tuple[int, ...] = MICRO_BATCHES
    virtual: tuple[int, ...] = VIRTUAL
    zero: tuple[int, ...] = (1,)
    recompute: tuple[str, ...] = ("none", "selective", "full")
    precision: str = "bf16"
    flash: bool = True
    expert: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("tensor", "context", "micro_batch", "virtual", "zero", "expert"):
            least = int(name not in ("context", "expert"))
            values = expect_each(object, name, getattr(self, name), "1", least)
            least = 0 if name == "zero" else 1
            kept = tuple(whole_number(name, value, least) for value in values)
            object.__setattr__(self, name, kept)
        for value in expect_each(str, "recompute", self.recompute, '"none"'):
            one_of("recompute", value, RECOMPUTE)
        one_of("precision", self.precision, PRECISIONS)
        keep_flags(self, "flash")


@dataclass(frozen=True)
class Found:
    """Result of a search: `fitting` starts with the shortest expected time, `overflowing` with the
    layout that lacks the least memory; `refused` counts impossible layouts by reason."""

    fitting: tuple[Estimate, ...]
    overflowing: tuple[Estimate, ...]
    refused: dict[str, int]

    @property
    def best(self) -> Estimate:
        if self.fitting:
            return self.fitting[0]
        if not self.overflowing:
            reasons = "; ".join(f"{text} ({count} ×)" for text, count in self.refused.items())
            text = _("no layout is possible: {reasons}; use a different batch, other devices or a "
                     "wider choice", reasons=reasons or _("the choice is empty"))  # fmt: skip
            raise PlanError(text)
        nearest = self.overflowing[0]
        text = _("no layout fits: the nearest needs {device_gib:.1f} of "
                 "{capacity_gib:.1f} GiB ({layout}); use more devices, a higher zero "
                 "stage, or more context ranks", device_gib=nearest.device_gib,
                 capacity_gib=nearest.capacity_gib, layout=layout_text(nearest.layout))  # fmt: skip
        raise PlanError(text)

    @cached_property
    def frontier(self) -> tuple[Estimate, ...]:
        """Return the Pareto frontier in expected time and memory, the fastest layout first."""
        kept: list[Estimate] = []
        for estimate in self.fitting:
            if not kept or estimate.device_gib < kept[-1].device_gib:
                kept.append(estimate)
        return tuple(kept)

    def table(self, count: int = 10) -> pd.DataFrame:
        """Return the fastest layouts, and below them the nearest of the layouts that do not fit."""
        import pandas as pd

        count = whole_number("count", count)
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
        """Return every layout as a point of memory against time, for the figure."""
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
    """Return the short name of a layout, such as "t8 p16 d6 v2 mb1 zero1 selective"."""
    words = [f"t{layout.tensor}", f"p{layout.pipeline}", f"d{layout.data}"]
    words += [f"c{layout.context}"] if layout.context > 1 else []
    words += [f"e{layout.expert}"] if layout.expert > 1 else []
    words += [f"v{layout.virtual}"] if layout.virtual > 1 else []
    words += [str(layout.stages)] if layout.stages != "even" else []
    words += [f"mb{layout.micro_batch}", f"zero{layout.zero}"]
    return " ".join(words + ([layout.recompute] if layout.recompute != "none" else []))


def why_not(estimate: Estimate) -> str:
    """Return which part overflows and by how much if an estimate does not fit; otherwise ""."""
    if estimate.fits:
        return ""
    missing = estimate.device_gib - estimate.capacity_gib
    part, size = max(estimate.fullest.parts.items(), key=lambda item: item[1])
    return _(
        "{missing:.1f} GiB too much, most of it {part} ({size:.1f} GiB)",
        missing=missing,
        part=part,
        size=size / 2**30,
    )


def search(
    model: Model,
    cluster: Cluster,
    global_batch: int,
    choice: Choice = Choice(),
    stack: Stack | str = "megatron-core",
) -> Found:
    """Try every layout of the choice that uses all devices of the cluster."""
    code = stack_named(stack)
    expect(Model, "model", model, 'plan.preset("13b")')
    expect(Cluster, "cluster", cluster, 'plan.cluster("juwels-booster", 32)')
    expect(Choice, "choice", choice, "plan.Choice(tensor=(1, 2))")
    global_batch = whole_number("global_batch", global_batch)
    refused: Refused = {}
    fitting: list[Estimate] = []
    overflowing: list[Estimate] = []
    for layout in _layouts(model, cluster.devices, global_batch, choice, refused):
        estimate = Estimate(model, layout, cluster, code)
        (fitting if estimate.fits else overflowing).append(estimate)
    fitting.sort(key=lambda estimate: estimate.expected_s)
    overflowing.sort(key=lambda estimate: estimate.device_gib)
    reasons = {_(reason, **dict(values)): count for (reason, *values), count in refused.items()}
    return Found(tuple(fitting), tuple(overflowing), reasons)


# Number of layouts for each sentence with its values; they are translated once, at the end.
Refused = dict[tuple[Any, ...], int]


def _refuse(refused: Refused, reason: str, **values: int) -> None:
    key = (reason, *values.items())
    refused[key] = refused.get(key, 0) + 1


def _layouts(
    model: Model, devices: int, batch: int, choice: Choice, refused: Refused
) -> Iterator[Layout]:
    for tensor, context in product(choice.tensor, choice.context or _contexts(model)):
        pieces = 2 * context if context > 1 and model.causal else context
        if model.heads % tensor or model.kv_groups % tensor or model.dense_ffn % tensor:
            reason = N_("tensor {tensor} does not divide heads, groups or ffn")
            _refuse(refused, reason, tensor=tensor)
            continue
        if devices % (tensor * context):
            reason = N_("tensor {tensor} × context {context} does not divide the number of devices")
            _refuse(refused, reason, tensor=tensor, context=context)
            continue
        if model.sequence % pieces or model.sequence // context % tensor:
            reason = N_("tensor {tensor} × context {context} does not divide the sequence")
            _refuse(refused, reason, tensor=tensor, context=context)
            continue
        for pipeline in divisors(devices // (tensor * context)):
            if pipeline > model.layers:
                _refuse(refused, N_("more stages than layers"))
                continue
            data = devices // (tensor * context * pipeline)
            yield from _on_grid(model, (tensor, context, pipeline, data), batch, choice, refused)


def _on_grid(
    model: Model,
    grid: tuple[int, int, int, int],
    batch: int,
    choice: Choice,
    refused: Refused,
) -> Iterator[Layout]:
    tensor, context, pipeline, data = grid
    for micro in choice.micro_batch:
        if batch % (micro * data):
            _refuse(refused, N_("micro_batch × data does not divide the batch"))
            continue
        count = batch // (micro * data)
        plain = Layout(
            data, tensor, pipeline, context, micro_batch=micro, global_batch=batch,
            sequence_parallel=tensor > 1, precision=choice.precision, flash=choice.flash,
        )  # fmt: skip
        for virtual in choice.virtual:
            stages = _stages_of(model.layers, pipeline, virtual)
            if not stages or (virtual > 1 and (pipeline == 1 or count % pipeline)):
                _refuse(
                    refused,
                    N_("virtual {virtual} does not divide the layers of a pipeline"),
                    virtual=virtual,
                )
                continue
            for zero, recompute in product(choice.zero, choice.recompute):
                if recompute == "selective" and choice.flash and "none" in choice.recompute:
                    continue  # a fused kernel keeps no scores, so this equals "none"
                sharded = zero if data * context > 1 else 0
                for expert in _expert_ranks(model, tensor * context * data, choice):
                    yield replace(
                        plain, virtual=virtual, schedule="", zero=sharded, recompute=recompute,
                        stages=stages, expert=expert, expert_tensor=int(model.experts is not None),
                    )  # fmt: skip


def _expert_ranks(model: Model, ranks: int, choice: Choice) -> Iterator[int]:
    """Yield the numbers of a stage's ranks that can share a layer's experts."""
    if model.experts is None:
        yield 1
        return
    for expert in choice.expert or divisors(model.experts.count):
        if ranks % expert == 0 and model.experts.count % expert == 0:
            yield expert


def _contexts(model: Model) -> tuple[int, ...]:
    """Return 1, 2, 4 … as long as each rank has at least CONTEXT_TOKENS of the sequence."""
    sizes = [1]
    while model.sequence >= 2 * sizes[-1] * CONTEXT_TOKENS:
        sizes.append(2 * sizes[-1])
    return tuple(sizes)


def _stages_of(layers: int, pipeline: int, virtual: int) -> str:
    """Return how to split layers into stages: evenly, with embedding and head as a layer each, or
    (without virtual stages) nearly evenly, the first that works; otherwise ""."""
    count = pipeline * virtual
    if layers % count == 0:
        return "even"
    if (layers + 2) % count == 0:
        return "ends-count"
    return "nearly-even" if virtual == 1 and count <= layers else ""
