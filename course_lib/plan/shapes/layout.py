"""Layout of a run: how it is distributed over devices and computed on each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from course_lib.mistakes.arguments import explained_methods
from course_lib.mistakes.kinds import shown
from course_lib.mistakes.names import suggests_similar_names
from course_lib.plan.checks import (
    MOST_PARTS,
    PlanError,
    divides,
    expect,
    expect_each,
    keep_flags,
    keep_whole,
    multiple_of,
    one_of,
    whole_number,
)
from course_lib.plan.numbers import whole
from course_lib.plan.shapes.model import Model
from course_lib.words import _

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble")
RECOMPUTE = ("none", "selective", "full")
RECOMPUTE_METHODS = ("uniform", "block")
WHOLE_PRECISIONS = ("fp32", "fp16", "bf16")
# Formats in which only the transformer's linear layers multiply; the rest is in bf16.
LINEAR_PRECISIONS = ("fp8", "mxfp8", "nvfp4")
PRECISIONS = (*WHOLE_PRECISIONS, *LINEAR_PRECISIONS)
STAGES = ("even", "nearly-even", "ends-count", "by-cost")
DIMENSIONS = ("tp", "cp", "ep", "dp", "pp")


@suggests_similar_names
@explained_methods("layout", "__init__", "check", only_failures=True)
@dataclass(frozen=True)
class Layout:
    """Layout of a run. `global_batch` 0 means one micro-batch per data rank; `schedule` "" means
    1f1b, or interleaved if there are virtual stages. `zero`: 0 plain data parallelism, 1 optimizer
    state sharded (distributed optimizer), 2 gradients too, 3 parameters too (FSDP).

    `stages` sets the layers of each stage: "even" means equal numbers; "nearly-even" gives the
    first stages one layer more if needed; "ends-count" counts embedding and head as a layer each
    (BLOOM, Llama 3.1 405B); "by-cost" fills each stage until it exceeds its share of the matmuls,
    with the head as one block (nanotron). A tuple lists the layers of every stage, with those of
    the first virtual stages first.

    A mixture's experts divide the ranks of a stage anew: `expert` ranks share a layer's experts,
    `expert_tensor` ranks share each expert's matrices (0: as many as `tensor`), and the rest hold
    copies."""

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
    stages: str | tuple[int, ...] = "even"
    expert: int = 1
    expert_tensor: int = 0

    def __post_init__(self) -> None:
        keep_whole(self, "data", "tensor", "pipeline", "context", "virtual", "micro_batch")
        keep_whole(self, "recompute_layers", "expert")
        keep_whole(self, "expert_tensor", least=0)
        whole_number("data × tensor × pipeline × context =", self.devices, most=MOST_PARTS)
        keep_whole(self, "global_batch", least=0)
        if whole(self.zero) not in (0, 1, 2, 3):
            raise PlanError(
                _("zero stage {zero} is unknown; use 0, 1, 2 or 3", zero=shown(self.zero))
            )
        keep_whole(self, "zero", least=0)
        keep_flags(self, "sequence_parallel", "flash")
        one_of("recompute", self.recompute, RECOMPUTE)
        one_of("recompute_method", self.recompute_method, RECOMPUTE_METHODS)
        one_of("precision", self.precision, PRECISIONS)
        if isinstance(self.stages, str):
            one_of("stages", self.stages, STAGES)
        else:
            self._keep_stages(expect_each(int, "stages", self.stages, "8"))
        self._settle_batch()
        self._settle_schedule()
        self._check_order()
        if self.sequence_parallel and self.tensor == 1:
            text = _("sequence_parallel splits the sequence over the tensor ranks, and "
                     "tensor is 1; use tensor 2 or more, or sequence_parallel False")  # fmt: skip
            raise PlanError(text)

    def _keep_stages(self, layers: tuple[int, ...]) -> None:
        kept = tuple(whole_number("stages", count, 0, MOST_PARTS) for count in layers)
        object.__setattr__(self, "stages", kept)
        if len(kept) != self.pipeline * self.virtual:
            text = _("stages lists {count} numbers for pipeline {pipeline} × virtual {virtual} = "
                     "{stages} stages; use one number of layers for each", count=len(kept),
                     pipeline=self.pipeline, virtual=self.virtual,
                     stages=self.pipeline * self.virtual)  # fmt: skip
            raise PlanError(text)

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
            text = _("schedule {schedule!r} has one stage per device and virtual is "
                     '{virtual}; use schedule "interleaved" or virtual 1', schedule=self.schedule,
                     virtual=self.virtual)  # fmt: skip
            raise PlanError(text)
        if self.schedule != "interleaved":
            return
        if self.virtual == 1 or self.pipeline == 1:
            text = _("an interleaved schedule needs pipeline ≥ 2 and virtual ≥ 2, not "
                     'pipeline {pipeline} and virtual {virtual}; use schedule "1f1b" or '
                     "virtual 2", pipeline=self.pipeline, virtual=self.virtual)  # fmt: skip
            raise PlanError(text)
        if self.micro_batches % self.pipeline == 0:
            return  # before a sentence is translated, as a search makes thousands of layouts
        text = _("pipeline {pipeline}, as the interleaved schedule needs", pipeline=self.pipeline)
        multiple_of(_("number of micro-batches"), self.micro_batches, text, self.pipeline)

    def _check_order(self) -> None:
        words = expect(str, "order", self.order, '"tp-cp-ep-dp-pp"').split("-")
        sizes = {"tp": self.tensor, "cp": self.context, "dp": self.data, "pp": self.pipeline}
        for word in words:
            if word not in DIMENSIONS:
                one_of(_("dimension in order"), word, DIMENSIONS)
            if words.count(word) > 1:
                text = _("order {order!r} names {word} twice; name it once", order=self.order,
                         word=word)  # fmt: skip
                raise PlanError(text)
        missing = [name for name, size in sizes.items() if size > 1 and name not in words]
        if missing:
            works = "-".join(words + missing)
            text = _('order {order!r} does not say where {missing} belongs; use "{works}"',
                     order=self.order, missing=", ".join(missing), works=works)  # fmt: skip
            raise PlanError(text)

    @property
    def expert_ranks(self) -> int:
        """Return the ranks that together hold the experts of a layer once."""
        return self.expert * (self.expert_tensor or self.tensor)

    @property
    def devices(self) -> int:
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def micro_batches(self) -> int:
        """Return the micro-batches that each data rank computes in one iteration."""
        return self.global_batch // (self.micro_batch * self.data)

    def but(self, **changes: Any) -> Layout:
        """Return the layout with some values changed; a default schedule is chosen anew if
        `virtual` changes."""
        if "virtual" in changes and self.schedule in ("1f1b", "interleaved"):
            changes.setdefault("schedule", "")
        return replace(self, **changes)

    def check(self, model: Model, devices: int = 0) -> None:
        """Raise a PlanError that says what does not divide, if anything."""
        if devices and devices != self.devices:
            text = _("data {data} × tensor {tensor} × pipeline {pipeline} × context "
                     "{context} = {devices} devices, and there are {devices2}; {devices3}",
                     data=self.data, tensor=self.tensor, pipeline=self.pipeline,
                     context=self.context, devices=self.devices, devices2=devices,
                     devices3=self._devices_that_work(devices))  # fmt: skip
            raise PlanError(text)
        divides("tensor", self.tensor, "heads", model.heads)
        divides("tensor", self.tensor, "kv_groups", model.kv_groups)
        divides("tensor", self.tensor, "ffn", model.dense_ffn)
        self._check_experts(model)
        self._check_stages(model.layers)
        if self.context > 1:
            # Each rank gets one early and one late piece, which balances causal attention.
            pieces = 2 * self.context if model.causal else self.context
            divides(_("pieces of the sequence"), pieces, "sequence", model.sequence)
        if self.sequence_parallel:
            local = model.sequence // self.context
            divides(_("tensor (with sequence_parallel)"), self.tensor, _("local sequence"), local)

    def _check_experts(self, model: Model) -> None:
        if model.experts is None:
            if self.expert > 1 or self.expert_tensor:
                raise PlanError(
                    _("{model} has no experts; use expert 1 and expert_tensor 0", model=model.name)
                )
            return
        divides("expert", self.expert, "experts", model.experts.count)
        shared = self.expert_tensor or self.tensor
        divides("expert_tensor", shared, "ffn", model.ffn)
        text = f"expert {self.expert} × expert_tensor {shared} ="
        whole = self.tensor * self.context * self.data
        divides(text, self.expert_ranks, "tensor × context × data", whole)
        if self.tensor > 1 and not self.sequence_parallel:
            text = _("experts with tensor {tensor} need each token on one rank; use "
                     "sequence_parallel=True", tensor=self.tensor)  # fmt: skip
            raise PlanError(text)

    def _check_stages(self, layers: int) -> None:
        count = self.pipeline * self.virtual
        text = _(
            "pipeline {pipeline} × virtual {virtual} =",
            pipeline=self.pipeline,
            virtual=self.virtual,
        )
        if self.stages == "even":
            divides(text, count, "layers", layers)
        if self.stages == "ends-count":
            divides(text, count, _("layers and both ends"), layers + 2)
        if self.stages == "nearly-even" and count > layers:
            raise PlanError(
                _(
                    "{text} {count} stages are more than the {layers} layers; use {layers} or less",
                    text=text,
                    count=count,
                    layers=layers,
                )
            )
        if isinstance(self.stages, tuple) and sum(self.stages) != layers:
            raise PlanError(
                _(
                    "stages hold {held} layers in all and the model has {layers}; use numbers that "
                    "add up to {layers}",
                    held=sum(self.stages),
                    layers=layers,
                )
            )

    def _devices_that_work(self, devices: int) -> str:
        rest = self.tensor * self.pipeline * self.context
        if devices % rest == 0:
            return _("use data {devices}", devices=devices // rest)
        return _("use a tensor × pipeline × context that divides {devices}", devices=devices)
