"""How a run is spread over devices, and how it is computed there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from course_lib.mistakes.arguments import explained_methods
from course_lib.mistakes.kinds import shown
from course_lib.mistakes.names import answers_misspelt
from course_lib.plan.checks import (
    PlanError,
    divides,
    expect,
    keep_flags,
    keep_whole,
    multiple_of,
    one_of,
)
from course_lib.plan.numbers import whole
from course_lib.plan.shapes.model import Model

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble")
RECOMPUTE = ("none", "selective", "full")
RECOMPUTE_METHODS = ("uniform", "block")
PRECISIONS = ("fp32", "fp16", "bf16")
DIMENSIONS = ("tp", "cp", "ep", "dp", "pp")


@answers_misspelt
@explained_methods("layout", "__init__", "check", only_failures=True)
@dataclass(frozen=True)
class Layout:
    """`global_batch` 0 means one micro-batch per data rank; `schedule` "" means 1f1b, or
    interleaved if there are virtual stages. `zero`: 0 plain data parallelism, 1 optimizer state
    sharded (distributed optimizer), 2 gradients too, 3 parameters too (FSDP)."""

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    virtual: int = 1
    micro_batch: int = 1
    global_batch: int = 0
    zero: int = 0
    sequence_parallel: bool = False
    recompute: str = "none"
    recompute_method: str = "uniform"
    recompute_layers: int = 1
    schedule: str = ""
    precision: str = "bf16"
    flash: bool = True
    order: str = "tp-cp-ep-dp-pp"

    def __post_init__(self) -> None:
        keep_whole(self, "data", "tensor", "pipeline", "context", "virtual", "micro_batch")
        keep_whole(self, "recompute_layers")
        keep_whole(self, "global_batch", least=0)
        if whole(self.zero) not in (0, 1, 2, 3):
            raise PlanError(f"zero stage {shown(self.zero)} is unknown; use 0, 1, 2 or 3")
        keep_whole(self, "zero", least=0)
        keep_flags(self, "sequence_parallel", "flash")
        one_of("recompute", self.recompute, RECOMPUTE)
        one_of("recompute_method", self.recompute_method, RECOMPUTE_METHODS)
        one_of("precision", self.precision, PRECISIONS)
        self._settle_batch()
        self._settle_schedule()
        self._check_order()
        if self.sequence_parallel and self.tensor == 1:
            raise PlanError(
                "sequence_parallel splits the sequence over the tensor ranks, and tensor is 1; "
                "use tensor 2 or more, or sequence_parallel False"
            )

    def _settle_batch(self) -> None:
        per_step = self.micro_batch * self.data
        if self.global_batch == 0:
            object.__setattr__(self, "global_batch", per_step)
        text = f"micro_batch {self.micro_batch} × data {self.data} = {per_step}"
        multiple_of("global_batch", self.global_batch, text, per_step)

    def _settle_schedule(self) -> None:
        if expect(str, "schedule", self.schedule, '"1f1b"') == "":
            usual = "interleaved" if self.virtual > 1 else "1f1b"
            object.__setattr__(self, "schedule", usual)
        one_of("schedule", self.schedule, SCHEDULES)
        if self.virtual > 1 and self.schedule != "interleaved":
            raise PlanError(
                f"schedule {self.schedule!r} has one stage per device and virtual is "
                f'{self.virtual}; use schedule "interleaved" or virtual 1'
            )
        if self.schedule != "interleaved":
            return
        if self.virtual == 1 or self.pipeline == 1:
            raise PlanError(
                f"an interleaved schedule needs pipeline ≥ 2 and virtual ≥ 2, not pipeline "
                f'{self.pipeline} and virtual {self.virtual}; use schedule "1f1b" or virtual 2'
            )
        text = f"pipeline {self.pipeline}, as the interleaved schedule needs"
        multiple_of("number of micro-batches", self.micro_batches, text, self.pipeline)

    def _check_order(self) -> None:
        words = expect(str, "order", self.order, '"tp-cp-ep-dp-pp"').split("-")
        sizes = {"tp": self.tensor, "cp": self.context, "dp": self.data, "pp": self.pipeline}
        for word in words:
            one_of("dimension in order", word, DIMENSIONS)
            if words.count(word) > 1:
                raise PlanError(f"order {self.order!r} names {word} twice; name it once")
        missing = [name for name, size in sizes.items() if size > 1 and name not in words]
        if missing:
            works = "-".join(words + missing)
            raise PlanError(
                f"order {self.order!r} does not say where {', '.join(missing)} belongs; "
                f'use "{works}"'
            )

    @property
    def devices(self) -> int:
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def micro_batches(self) -> int:
        """Micro-batches that each data rank works through in one iteration."""
        return self.global_batch // (self.micro_batch * self.data)

    def but(self, **changes: Any) -> Layout:
        """The same layout with some values changed; a schedule that followed from `virtual`
        follows again."""
        if "virtual" in changes and self.schedule in ("1f1b", "interleaved"):
            changes.setdefault("schedule", "")
        return replace(self, **changes)

    def check(self, model: Model, devices: int = 0) -> None:
        """Raises a PlanError that says what does not divide, if anything."""
        if devices and devices != self.devices:
            raise PlanError(
                f"data {self.data} × tensor {self.tensor} × pipeline {self.pipeline} × context "
                f"{self.context} = {self.devices} devices, and there are {devices}; "
                + self._devices_that_work(devices)
            )
        divides("tensor", self.tensor, "heads", model.heads)
        divides("tensor", self.tensor, "kv_groups", model.kv_groups)
        divides("tensor", self.tensor, "ffn", model.ffn)
        stages = self.pipeline * self.virtual
        divides(
            f"pipeline {self.pipeline} × virtual {self.virtual} =", stages, "layers", model.layers
        )
        if self.context > 1:
            # Causal work is balanced by giving each rank one early and one late piece.
            pieces = 2 * self.context if model.causal else self.context
            divides("pieces of the sequence", pieces, "sequence", model.sequence)
        if self.sequence_parallel:
            local = model.sequence // self.context
            divides("tensor (with sequence_parallel)", self.tensor, "local sequence", local)

    def _devices_that_work(self, devices: int) -> str:
        rest = self.tensor * self.pipeline * self.context
        if devices % rest == 0:
            return f"use data {devices // rest}"
        return f"use a tensor × pipeline × context that divides {devices}"
