"""Predictions of logged runs, compared with what their logs measured."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from math import inf, nan
from typing import TYPE_CHECKING, Any, NamedTuple

from course_lib.mistakes.kinds import shown
from course_lib.plan.checks import PlanError, whole_number
from course_lib.plan.code_bases import Stack
from course_lib.plan.estimate import GIB, Estimate, predict
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.hardware.machines import cluster
from course_lib.plan.shapes.layout import Layout
from course_lib.plan.shapes.model import Experts, Latent, Model
from course_lib.words import _

if TYPE_CHECKING:
    import pandas as pd

# Group of timers -> the parts of the estimate that it measures, and the names of its timers.
TIMED = {
    "computing, by timers": (
        "matmul attention memory tensor context exchange launch recompute sharing",
        "(for|back)ward(-compute)?",
    ),
    "pipeline, by timers": (
        "bubble pipeline",
        "(for|back)ward-(send|recv).*|.*embedding.*-all-reduce",
    ),
    "data, by timers": ("data", "all-grads-sync|.*params-all-.*"),
    "optimizer, by timers": ("optimizer", "optimizer"),
}
# A smaller difference needs no explanation. A part is a likely one if an error of at most this
# factor in it alone would explain the difference.
FAR_OFF, LIKELY = 0.1, 2.0
# Arguments that change time or memory, and that the planner does not know.
UNKNOWN = (
    *("partition_activations", "checkpoint_in_cpu", "distribute_checkpointed_activations"),
    *("distribute_saved_activations", "cpu_offload", "cpu_offloading", "optimizer_cpu_offload"),
    *("attention_output_gate", "experimental_attention_variant", "reset_attention_mask"),
)
PRECISIONS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


class Row(NamedTuple):
    part: str
    predicted: float
    measured: float = nan
    alone: float = nan
    unit: str = "s"


@dataclass(frozen=True)
class LoggedRun:
    """Prediction of a logged run beside its measurements: the median iteration, the tenth
    percentile (without stalls), the peak of memory, and the medians of the program's timers."""

    estimate: Estimate
    seconds: float
    fastest_s: float
    peak_gib: float
    memory_kind: str
    timers_s: dict[str, float]
    unlike: tuple[str, ...]

    @cached_property
    def rows(self) -> list[Row]:
        """Return the parts of time and memory, the groups of timers, and both totals."""
        estimate = self.estimate
        predicted_gib = estimate.peak_gib(self.memory_kind)
        late, more = self.seconds - estimate.seconds, self.peak_gib - predicted_gib
        rows = [Row(name, part, alone=1 + late / part) for name, part in estimate.parts.items()]
        for group, (names, _timers) in TIMED.items():
            if group in self.timers_s:
                together = sum(estimate.parts.get(name, 0.0) for name in names.split())
                rows.append(Row(group, together, self.timers_s[group]))
        memory = {name: part / GIB for name, part in estimate.fullest.parts.items() if part}
        rows += [Row(name, gib, nan, 1 + more / gib, "GiB") for name, gib in memory.items()]
        rows.append(Row("iteration", estimate.seconds, self.seconds))
        return [*rows, Row("peak memory", predicted_gib, self.peak_gib, unit="GiB")]

    def table(self) -> pd.DataFrame:
        """Return each part, predicted and measured. `alone` is the factor on the predicted part
        that would explain the whole difference, if it is below 100."""
        import pandas as pd

        table = pd.DataFrame(self.rows)
        return table.assign(alone=table.alone.where(table.alone.between(0, 100)))

    def __str__(self) -> str:
        lines = [str(self.estimate)]
        for row in self.rows[-2:]:
            if row.measured > 0:
                error = row.predicted / row.measured - 1
                text = _("{part}: predicted {predicted:.4g}, measured {measured:.4g} {unit} "
                         "({error:+.0%})", **row._asdict(), error=error)  # fmt: skip
                lines += [text] + [self._cause(row)] * (abs(error) > FAR_OFF)
        if self.unlike:
            unlike = ", ".join(self.unlike)
            lines.append(_("The planner does not know these arguments: {unlike}.", unlike=unlike))
        return "\n".join(lines)

    def _cause(self, total: Row) -> str:
        """Return where the difference in time or memory probably comes from."""
        timed = [row for row in self.rows[:-2] if row.measured >= 0]
        if total.unit == "s" and self.fastest_s < self.estimate.interval.high < self.seconds:
            return _("The run stalls now and then: a tenth of its iterations take {seconds:.4g} s "
                     "or less, as predicted.", seconds=self.fastest_s)  # fmt: skip
        if total.unit == "s" and timed:
            worst = max(timed, key=lambda row: abs(row.measured - row.predicted))
            return _("The largest difference is in {part}: predicted {predicted:.3g} s, measured "
                     "{measured:.3g} s.", **worst._asdict())  # fmt: skip
        own = [row for row in self.rows if row.unit == total.unit]
        likely = [f"{r.part} × {r.alone:.2g}" for r in own if 1 / LIKELY <= r.alone <= LIKELY]
        if not likely:
            return _("No part alone explains the difference; check the arguments and the hardware.")
        return _("An error in one part alone would explain it: {parts}.", parts=", ".join(likely))


def from_log(
    log: Any, hardware: str | Cluster, software: str | Stack | None = None, **arguments: Any
) -> LoggedRun:
    """Predict a logged run, to compare the prediction with what the log measured:
    plan.from_log(read.training_log("out.log"), "H100").

    The log needs the table of arguments that Megatron-LM, its relatives and the course's program
    print, with layers, hidden size, heads, sequence length, vocabulary and micro-batch. An argument
    that the log lacks can be given by its name, such as `padded_vocab_size=50304`. No log states
    the `hardware`: give a cluster or its name. Without `software`, the arguments tell the code
    base."""
    if not hasattr(log, "arguments"):
        text = _('log = {log} is not a log; use read.training_log("out.log"), or run.log',
                 log=shown(log))  # fmt: skip
        raise PlanError(text)
    given = _Arguments(log.arguments | {name: str(value) for name, value in arguments.items()})
    model, layout = _model(given), _layout(given, log)
    stack = _software(given) if software is None else software
    if unknown := sorted(set(arguments) - given.asked):
        text = _("{unknown} is not an argument that the planner uses; use one of {known}",
                 unknown=unknown[0], known=", ".join(sorted(given.asked)))  # fmt: skip
        raise PlanError(text)
    where = cluster(hardware, layout.devices) if isinstance(hardware, str) else hardware
    estimate = predict(model, layout, where, stack)
    settled = log.iterations.elapsed_ms.loc[lambda ms: ms < inf] / 1e3  # not missing either
    settled = settled.iloc[1:] if len(settled) > 1 else settled
    peaks = {kind: log.memory[f"max_{kind}_mib"].max() for kind in ("reserved", "allocated")}
    kind = next((kind for kind, mib in peaks.items() if mib > 0), "reserved")
    timers = log.timers[log.timers.iteration.notna()]
    medians = timers.max_ms.groupby(timers.name).median() / 1e3
    timers_s: dict[str, float] = {
        group: float(own.sum())
        for group, (_parts, names) in TIMED.items()
        if len(own := medians[[bool(re.fullmatch(names, name)) for name in medians.index]])
    }
    median_s, fastest_s = float(settled.median()), float(settled.quantile(0.1))
    peak_gib, unlike = float(peaks[kind]) / 1024, tuple(filter(given.used, UNKNOWN))
    return LoggedRun(estimate, median_s, fastest_s, peak_gib, kind, timers_s, unlike)


# Argument of the course's program alone.
COURSE = "planted_fault"


def _software(given: _Arguments) -> str:
    """Return the code base whose arguments these are."""
    if COURSE in given.texts:
        return "course"
    plain = "megatron-lm" if given.text("transformer_impl") else "megatron-2021"
    return "megatron-deepspeed" if given.true("deepspeed") else plain


class _Arguments:
    """Arguments of a program by name. The object remembers which names were requested."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts, self.asked = texts, set[str]()

    def text(self, *names: str) -> str:
        """Return the first value of these names, or ""."""
        self.asked |= set(names)
        return next((t for n in names if (t := self.texts.get(n, "")) not in ("", "None")), "")

    def whole(self, *names: str, usual: int = 0, need: bool = False) -> int:
        """Return the first value, or `usual` for 0. Another process's text may follow it."""
        text = self.text(*names)
        if need and not text:
            text = _("the log does not state {name}; use a log with a table of arguments, or give "
                     "{name}=…", name=names[0])  # fmt: skip
            raise PlanError(text)
        digits = re.match(r"[\[(]?(\d+)", text)
        return whole_number(names[0], int(digits[1]) if digits else text or 0, 0) or usual

    def true(self, *names: str) -> bool:
        return any(self.text(name) == "True" for name in names)

    def used(self, name: str) -> bool:
        return self.text(name) not in ("", "False")


def _model(given: _Arguments) -> Model:
    position = given.text("position_embedding_type")
    rotary = position in ("rope", "yarn") or given.true("use_rotary_position_embeddings")
    grouped = given.true("group_query_attention") or given.text("num_key_value_heads")
    plain = given.text("add_bias_linear") == "False" or given.true("disable_bias_linear")
    ffn, head_size = given.whole("ffn_hidden_size"), given.whole("kv_channels")
    padded = bool(given.text("padded_vocab_size"))
    experts = latent = None
    if (count := given.whole("num_experts")) > 1:
        own, dense = given.whole("moe_ffn_hidden_size", usual=ffn), ffn
        shared = given.whole("moe_shared_expert_intermediate_size")
        frequency, per_token = given.text("moe_layer_freq") or "1", given.whole("moe_router_topk")
        first = frequency.count("0") if "[" in frequency else 0  # a list: 0 for each dense layer
        every = 1 if "[" in frequency else given.whole("moe_layer_freq", usual=1)
        groups = given.whole("moe_router_num_groups", usual=1), given.whole("moe_router_group_topk")
        shared = -(-shared // max(1, own))
        experts = Experts(count, per_token, shared, first, dense, every, *groups)
        ffn = own
    if given.true("multi_latent_attention"):
        names = ("kv_lora_rank", "qk_pos_emb_head_dim", "v_head_dim")
        kv_rank, rotary_size, value_size = (given.whole(name, need=True) for name in names)
        latent = Latent(kv_rank, rotary_size, value_size, given.whole("q_lora_rank"))
        head_size = given.whole("qk_head_dim", need=True) + latent.rotary_size
    sizes = ("num_layers", "hidden_size", "num_attention_heads", "seq_length")
    layers, hidden, heads, sequence = (given.whole(name, need=True) for name in sizes)
    skipped, every = given.text("window_attn_skip_freq"), given.whole("window_attn_skip_freq")
    full = skipped.count("0") if "[" in skipped else layers // every if every else 0
    windowed = layers - full if given.text("window_size") else 0
    dropped = [given.text(name) for name in ("hidden_dropout", "attention_dropout")]
    return Model(
        "logged", layers, hidden, heads, sequence,
        given.whole("padded_vocab_size", "vocab_size", need=True),
        kv_groups=given.whole("num_query_groups", "num_key_value_heads") if grouped else 0,
        ffn=ffn, head_size=head_size, experts=experts, latent=latent,
        tied=not given.true("untie_embeddings_and_output_weights"),
        positions="rotary" if rotary else position if position in ("alibi", "none") else "learned",
        activation="swiglu" if given.true("swiglu") else "gelu",
        norm="rmsnorm" if given.text("normalization").lower() == "rmsnorm" else "layernorm",
        bias=not plain,
        pad_vocabulary_to=1 if padded else given.whole("make_vocab_size_divisible_by", usual=1),
        window=given.whole("window_size") + 1 if windowed else 0,
        windowed=windowed,
        mtp_layers=given.whole("mtp_num_layers"),
        dropout=any(share.strip("0.") for share in dropped) if any(dropped) else None,
    )  # fmt: skip


def _layout(given: _Arguments, log: Any) -> Layout:
    world, size = log.world, {}
    for name in ("tensor", "pipeline", "context", "expert"):
        argument = f"{name}{'' if name == 'context' else '_model'}_parallel_size"
        size[name] = given.whole(argument, usual=getattr(world, name) or 1)
    devices = world.world_size or given.whole("world_size", need=True)
    layers = max(1, given.whole("num_layers") // size["pipeline"])
    per_chunk = given.whole("num_layers_per_virtual_pipeline_stage") or layers
    batches = log.iterations.global_batch_size.dropna()
    recompute, schedule = given.text("recompute_granularity"), given.text("pipeline_schedule")
    if not recompute:
        selective = "selective" if given.true("recompute_activations") else "none"
        recompute = "full" if given.true("checkpoint_activations") else selective
    fused = given.text("transformer_impl") == "transformer_engine" or COURSE in given.texts
    fused &= not given.text("attention_backend").endswith(("unfused", "local"))
    dtype = given.text("params_dtype").removeprefix("torch.") or world.precision
    precision = PRECISIONS.get(dtype or "", "bf16")
    if given.text("fp8"):
        precision = "mxfp8" if given.text("fp8_recipe") == "mxfp8" else "fp8"
    zero = given.whole("zero_stage", usual=int(given.true("use_distributed_optimizer")))
    return Layout(
        data=max(1, devices // (size["tensor"] * size["pipeline"] * size["context"])),
        **size,
        virtual=given.whole("virtual_pipeline_model_parallel_size") or layers // per_chunk,
        micro_batch=given.whole("micro_batch_size", "batch_size", need=True),
        global_batch=int(batches.iloc[-1]) if len(batches) else given.whole("global_batch_size"),
        zero=3 if given.true("use_torch_fsdp2") else zero,
        sequence_parallel=given.true("sequence_parallel"),
        recompute=recompute,
        recompute_method=given.text("recompute_method") or "uniform",
        recompute_layers=given.whole("recompute_num_layers", "checkpoint_num_layers") or 1,
        schedule=schedule if schedule in ("gpipe", "zero-bubble") else "",
        flash=fused or given.true("use_flash_attn", "use_flash_attn_v1", "use_flash_attn_v2"),
        precision=precision,
        order="tp-cp-ep-pp-dp" if given.true("use_tp_pp_dp_mapping") else "tp-cp-ep-dp-pp",
        stages="ends-count" if given.true("account_for_embedding_in_pipeline_split") else "even",
        expert_tensor=given.whole("expert_tensor_parallel_size") if size["expert"] > 1 else 0,
    )
