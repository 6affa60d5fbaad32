"""Converters of runs from 2024 to 2026 with Megatron-Core and relatives, on H100 and Blackwell."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from course_lib.plan import Experts, Latent, Layout, Model, preset
from course_lib.plan.code_bases import stack_of_software
from course_lib.plan.hardware.cluster import Cluster
from course_lib.plan.hardware.machines import cluster
from planner_sources.common import Row
from planner_sources.runs import MeasuredRun

MACHINES = {
    "H100": "dgx-h100",
    "B200": "dgx-b200",
    "B300": "dgx-b300",
    "GB200": "gb200-nvl72",
    "GB300": "gb300-nvl72",
}
PRECISIONS = {
    "bf16": "bf16",
    "fp8": "fp8",
    "fp8-cs": "fp8",
    "fp8-ds": "fp8",
    "fp8-mx": "mxfp8",
    "mxfp8": "mxfp8",
    "nvfp4": "nvfp4",
}
# Latent attention of DeepSeek-V2 and V3, whose heads have 128 + 64 numbers.
LATENT = Latent(512, 64, 128, 1536)
POSITIONS = {"rope": "rotary", "learned": "learned"}
# A squared ReLU has the two matrices of a GELU, and "1p" is a way to store a LayerNorm's weight.
ACTIVATIONS = {"swiglu": "swiglu", "geglu": "swiglu", "gelu": "gelu", "squared-relu": "gelu"}


def _machine(name: str) -> str:
    return MACHINES.get(str(name).replace("DGX-", "").replace("DGX ", ""), str(name))


def _precision(text: str) -> str:
    """Return the format, without the table's remarks on its recipe."""
    return PRECISIONS.get(text.split(" ", maxsplit=1)[0].lower(), text)


def _whole(value: object, usual: int = 1) -> int:
    return usual if pd.isna(value) else int(float(str(value)))  # type: ignore[call-overload]


def published(row: Row) -> MeasuredRun | None:
    """Convert a row with a complete shape. By default, the optimizer state is sharded and sequences
    are split over tensor ranks, as in the scripts of these programs."""
    if row.fully_specified != 1:
        return None
    latent = LATENT if "kv_lora" in str(row.head_dim) else None
    model = Model(
        str(row.model),
        int(row.n_layers),
        int(row.hidden),
        int(row.n_heads),
        int(row.seq_len),
        int(row.vocab),
        kv_groups=_whole(row.n_kv_heads, 0),
        ffn=_whole(row.moe_ffn_hidden, int(row.ffn_hidden)),
        head_size=192 if latent else _whole(row.head_dim, 0),
        tied=row.untied != 1,
        positions=POSITIONS.get(row.positions, "rotary"),
        activation=ACTIVATIONS[str(row.activation).split(" ")[0]],
        norm="rmsnorm" if row.norm == "rmsnorm" else "layernorm",
        bias=row.bias == 1,
        experts=_experts(row),
        latent=latent,
    )
    layout = Layout(
        data=int(row.dp),
        tensor=int(row.tp),
        pipeline=int(row.pp),
        context=_whole(row.cp),
        virtual=_whole(row.vp),
        micro_batch=int(row.micro_batch),
        global_batch=int(row.global_batch_seqs),
        zero=1,
        sequence_parallel=row.tp > 1,
        precision=_precision(row.precision),
        expert=_whole(row.ep) if model.experts else 1,
        expert_tensor=_whole(row.etp, 0) if model.experts else 0,
    )
    machine = cluster(_machine(row.hardware), layout.devices)
    return MeasuredRun(
        _source(machine, layout),
        model,
        layout,
        machine,
        stack_of_software(str(row.software), layout.flash),
        None if pd.isna(row.iter_time_s) else float(row.iter_time_s),
        None if pd.isna(row.peak_mem_GiB) else float(row.peak_mem_GiB),
        memory_kind="allocated",
    )


def _experts(row: Row) -> Experts | None:
    if not _whole(row.n_experts, 0):
        return None
    return Experts(
        int(row.n_experts),
        int(row.moe_topk),
        shared=_whole(row.shared_experts, 0),
        dense_layers=_whole(row.dense_layers, 0),
        dense_ffn=int(row.ffn_hidden),
    )


def _source(machine: Cluster, layout: Layout) -> str:
    return f"vendor-{machine.device.name.lower()}-{layout.precision}"


# Named shapes from the models' own configuration files.
SHAPES = {
    "Qwen3_30B_a3B": "qwen3-30b-a3b",
    "Qwen3_235B_a22B": "qwen3-235b-a22b",
    "DeepSeekV3": "deepseek-v3",
    "LLAMA3_8B": "llama-8b",
    "LLAMA3_70B": "llama-70b",
    "LLAMA3.1_405B": "llama-405b",
}
LLAMA_2 = {
    "LLAMA2-7B": (32, 4096, 32, 32, 11008),
    "LLAMA2-13B": (40, 5120, 40, 40, 13824),
    "LLAMA2-70B": (80, 8192, 64, 8, 28672),
}


# Layers whose activations Megatron-Bridge's recipes keep in host memory, in runs with FSDP
# (scripts/performance/configs/llama).
OFFLOADED = {
    ("LLAMA3_70B", "GB300", "bf16"): 30,
    ("LLAMA3_70B", "GB300", "fp8"): 20,
    ("LLAMA3_70B", "GB200", "bf16"): 20,
    ("LLAMA3_70B", "GB200", "fp8"): 40,
    ("LLAMA3_70B", "B200", "fp8"): 5,
    ("LLAMA3.1_405B", "GB300", "bf16"): 40,
    ("LLAMA3.1_405B", "GB300", "fp8"): 10,
    ("LLAMA3.1_405B", "GB200", "fp8"): 92,
}


def _named_model(name: str, sequence: int) -> Model | None:
    if name in SHAPES:
        return preset(SHAPES[name]).but(sequence=sequence)
    if name in LLAMA_2:
        layers, hidden, heads, groups, ffn = LLAMA_2[name]
        return preset("llama-8b").but(
            name=name, layers=layers, hidden=hidden, heads=heads, kv_groups=groups, ffn=ffn,
            head_size=128, sequence=sequence, vocabulary=32000,
        )  # fmt: skip
    return None


def _program(release: str, model: Model, layout: Layout) -> str:
    """Return "nemo-graphed" for a mixture in MXFP8 since release 26.06, as its recipes say."""
    graphed = model.experts and layout.precision == "mxfp8"
    return "nemo-graphed" if graphed and release.removeprefix("NeMo ") >= "26.06" else release


def bridge(row: Row) -> MeasuredRun | None:
    """Convert pre-training runs of models with a known shape; a table of fine-tuning does not state
    the length of sequences. `fsdp` is the number of ranks that share the parameters."""
    model = _named_model(str(row.model), int(row.seq_len))
    if model is None or not str(row.task).startswith("Pre-Training"):
        return None
    tensor, pipeline, context = int(row.tp), int(row.pp), int(row.cp)
    layout = Layout(
        data=int(row.n_gpus) // (tensor * pipeline * context),
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        virtual=_whole(row.vp) if pipeline > 1 else 1,
        micro_batch=int(row.micro_batch),
        global_batch=int(row.global_batch_seqs),
        zero=3 if _whole(row.fsdp, 0) > 1 else 1,
        sequence_parallel=tensor > 1,
        precision=_precision(row.precision),
        expert=_whole(row.ep) if model.experts else 1,
        expert_tensor=1 if model.experts else 0,
    )
    rate = float(row.tokens_per_s_per_gpu) * layout.devices
    seconds = layout.global_batch * model.sequence / rate
    machine = cluster(_machine(row.system), layout.devices)
    stack = stack_of_software(_program(str(row.release), model, layout), layout.flash)
    if layout.zero == 3:
        layers = OFFLOADED.get((str(row.model), machine.device.name, layout.precision), 0)
        stack = replace(stack, offloaded_share=layers / model.layers)
    return MeasuredRun(_source(machine, layout), model, layout, machine, stack, seconds)
