"""Converters for sharded data parallelism and small loops: llm-foundry, torchtitan, llm.c."""

from __future__ import annotations

import re

import pandas as pd

from course_lib.plan import Layout, Model, preset
from course_lib.plan.code_bases import stack_named
from course_lib.plan.hardware.machines import cluster
from planner_sources.common import Row
from planner_sources.runs import MeasuredRun

# Depth, width and heads of MosaicML's MPT family (llm-foundry's configurations).
MPT = {
    "125m": (12, 768, 12),
    "350m": (24, 1024, 16),
    "760m": (24, 1536, 12),
    "1b": (24, 2048, 16),
    "3b": (32, 2560, 20),
    "7b": (32, 4096, 32),
    "13b": (40, 5120, 40),
    "30b": (48, 7168, 56),
    "70b": (80, 8192, 64),
}
MPT_CLUSTERS = {"h100_80gb": "dgx-h100", "a100_80gb": "selene", "a100_40gb": "a100-40gb-roce"}


def llm_foundry(row: Row) -> MeasuredRun | None:
    if "fp8" in row.precision or row.activation_cpu_offload is True:
        return None
    layers, hidden, heads = MPT[row.model]
    model = Model(row.model, layers, hidden, heads, int(row.seq_len), 50368, pad_vocabulary_to=1)
    share = row.global_batch_seqs / row.n_gpus
    micro = int(row.micro_batch)
    # The micro-batch need not divide the batch there: the number of steps is rounded up.
    batch = max(1, round(share / micro)) * micro * int(row.n_gpus)
    layout = Layout(
        data=int(row.n_gpus),
        micro_batch=micro,
        global_batch=batch,
        zero=3 if row.fsdp_sharding == "FULL_SHARD" else 2,
        recompute="full" if row.activation_checkpointing else "none",
    )
    seconds = batch * model.sequence / row.tokens_per_s
    machine = cluster(MPT_CLUSTERS[row.gpu], layout.devices)
    source = f"llm-foundry-{row.gpu[:4]}"
    return MeasuredRun(source, model, layout, machine, stack_named("llm-foundry"), seconds)


LLAMA = {
    "Llama 3.1 8B": "llama-8b",
    "Llama 3.1 70B": "llama-70b",
    "Llama 3 70B": "llama-70b",
}
LLAMA_2 = {
    "Llama 2 13B": (40, 5120, 40, 0, 13824),
    "Llama 2 70B": (80, 8192, 64, 8, 28672),
}


def _llama(name: str, sequence: int) -> Model | None:
    if name in LLAMA:
        return preset(LLAMA[name]).but(sequence=sequence)
    if name not in LLAMA_2:
        return None
    layers, hidden, heads, groups, ffn = LLAMA_2[name]
    llama = preset("llama-70b").but(layers=layers, hidden=hidden, heads=heads, ffn=ffn)
    return llama.but(
        name=name, kv_groups=groups, head_size=128, sequence=sequence, vocabulary=32000
    )


def _titan_layout(row: Row, layers: int, how: str) -> Layout:
    return Layout(
        data=int(row.fsdp_ranks),
        tensor=int(row.tp),
        pipeline=int(row.pp),
        context=int(row.cp),
        micro_batch=int(row.local_batch),
        zero=3,
        sequence_parallel=row.tp > 1,
        recompute="none" if how == "none" else "full",
        # "selective (op)" recomputes every other matmul: the time of half the layers.
        recompute_method="block" if "op" in how else "uniform",
        recompute_layers=layers // 2 if "op" in how else 1,
    )


def torchtitan(row: Row) -> MeasuredRun | None:
    """Convert bf16 runs. Recomputation of single operations takes little time. Its memory is not
    published, so memory is compared only if everything or nothing is recomputed."""
    model = _llama(str(row.model), int(row.seq_len))
    if model is None or row.precision != "bf16":
        return None
    how = str(row.activation_checkpointing)
    layout = _titan_layout(row, model.layers, how)
    machine = cluster("grand-teton" if "H100" in row.gpu else "selene", layout.devices)
    overflowed = row.tokens_per_s_per_gpu == "OOM"
    seconds = None
    if not overflowed:
        rate = float(row.tokens_per_s_per_gpu) * layout.devices
        seconds = layout.global_batch * model.sequence / rate
    told = how in ("full", "none") and not overflowed and pd.notna(row.peak_mem_GiB)
    return MeasuredRun(
        f"torchtitan-{'h100' if 'H100' in row.gpu else 'a100'}",
        model,
        layout,
        machine,
        stack_named("torchtitan"),
        None if how == "selective layer" else seconds,
        float(row.peak_mem_GiB) if told and _is_number(row.peak_mem_GiB) else None,
        overflowed=overflowed and how != "selective layer",
    )


def _is_number(value: object) -> bool:
    return re.fullmatch(r"[\d.]+", str(value)) is not None


def single_file(row: Row) -> MeasuredRun | None:
    """Convert llm.c's runs on 8 devices; the notes mark "about" and inconsistent rows."""
    if "do not use" in str(row.notes) or pd.isna(row.iter_time_s) or pd.isna(row.seq_len):
        return None
    if row.n_gpus == 1:  # the batch of bench.py is not stated
        return None
    heads = {768: 12, 1024: 16, 1280: 20, 1600: 25}
    model = Model(
        str(row.model), int(row.n_layers), int(row.hidden), heads[int(row.hidden)],
        int(row.seq_len), 50257,
    )  # fmt: skip
    batch = int(row.tokens_per_iter) // model.sequence
    micro = int(row.micro_batch)
    layout = Layout(data=int(row.n_gpus), micro_batch=micro, global_batch=batch, zero=1)
    machine = cluster("dgx-h100" if "H100" in row.gpu else "selene", layout.devices)
    stack = stack_named("single-file")
    return MeasuredRun("single-file", model, layout, machine, stack, float(row.iter_time_s))
