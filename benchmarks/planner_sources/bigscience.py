"""Converter of BigScience's tuning runs on V100."""

from __future__ import annotations

import re

import pandas as pd

from course_lib.plan import Layout, Model
from course_lib.plan.code_bases import stack_named
from course_lib.plan.hardware.machines import cluster, device
from planner_sources.common import Row
from planner_sources.runs import MeasuredRun

# Depth and width of BigScience's sizes (its job scripts; 32 heads, 1024 tokens, GPT-2 vocabulary).
BIGSCIENCE = {
    "7.5B": (36, 4096),
    "18B": (40, 6144),
    "25B": (40, 7168),
    "30B": (48, 7168),
    "39B": (48, 8192),
    "52B": (64, 8192),
    "65B": (64, 9216),
    "97B": (64, 11264),
    "116B": (64, 12288),
    "206B": (64, 16384),
}


def _bigscience_model(row: Row) -> Model | None:
    label = str(row.size_label)
    if label == "1.3B":
        return Model(label, 24, 2048, 16, 2048, 50257)
    if label in BIGSCIENCE and str(row.section).startswith("Megatron"):
        layers, hidden = BIGSCIENCE[label]
        return Model(label, layers, hidden, 32, 1024, 50257)
    return None


def _bigscience_layout(row: Row, label: str) -> Layout:
    tensor = int(re.match(r"\d+", str(row.tp)).group())  # type: ignore[union-attr]
    full = "full" in str(row.activation_recompute)
    return Layout(
        data=int(row.dp),
        tensor=tensor,
        pipeline=int(row.pp),
        micro_batch=int(row.micro_batch),
        global_batch=int(row.global_batch_seqs),
        recompute="full" if full else "none",
        precision="fp16",
        flash=False,
        # Not stated for 1.3B; memory shows that the optimizer state is sharded.
        zero=int(label == "1.3B") if pd.isna(row.zero_stage) else int(row.zero_stage),
    )


def bigscience(row: Row) -> MeasuredRun | None:
    """Convert runs of Megatron-LM and Megatron-DeepSpeed with pipelines on Jean Zay's V100. Other
    code bases, offloading, and a misconfigured model (104B) are left out. Memory is
    of the first stage: with two stages or more, the logits alone would exceed it on the last."""
    model = _bigscience_model(row)
    if model is None:
        return None
    if pd.isna(row.pp) or pd.isna(row.dp) or pd.isna(row.global_batch_seqs):
        return None
    layout = _bigscience_layout(row, model.name)
    if layout.devices != row.n_gpus:
        return None
    gib = re.match(r"[\d.]+(?=GB)", str(row.mem_note))
    without = str(row.section) == "Megatron" or "DeepSpeed=N" in str(row.notes)
    machine = cluster("jean-zay-v100", layout.devices)
    if "16GB" in row.gpu:
        machine = machine.but(device=device("V100-16GB"))
    return MeasuredRun(
        "bigscience",
        model,
        layout,
        machine,
        stack_named("megatron-2021" if without else "megatron-deepspeed"),
        None if pd.isna(row.iter_time_s) else float(row.iter_time_s),
        float(gib.group()) if gib else None,
        memory_of="first",
        memory_kind="device",
        overflowed=bool(row.oom) and not gib,
    )
