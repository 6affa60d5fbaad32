"""Converters for Megatron-LM and relatives on A100 and V100: papers, READMEs, vTrain, JUBench."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd

from course_lib.plan import Layout, Model
from course_lib.plan.code_bases import stack_named
from course_lib.plan.hardware.machines import cluster
from course_lib.plan.shapes.flops import of_iteration
from planner_sources.common import Row, gpt, run_of
from planner_sources.runs import MeasuredRun


def megatron_sc21(row: Row) -> MeasuredRun:
    virtual = 1 if pd.isna(row.interleave_v_derived) else int(row.interleave_v_derived)
    layout = Layout(
        data=int(row.dp_derived),
        tensor=int(row.tp),
        pipeline=int(row.pp),
        virtual=virtual,
        micro_batch=int(row.micro_batch),
        global_batch=int(row.global_batch_seqs),
        recompute="full",
        precision="fp16",
        flash=False,
    )
    seconds = float(row.iter_time_s_derived_from_rounded_TFLOPs)
    machine = cluster("selene", layout.devices)
    return MeasuredRun(
        "megatron-sc21", gpt(row), layout, machine, stack_named("megatron-2021"), seconds
    )


def korthikanti(row: Row) -> MeasuredRun | None:
    seconds = re.match(r"[\d.]+", str(row.iter_time_s))
    if seconds is None:
        return None
    selective = "selective" in row.activation_recompute
    layout = run_of(
        row,
        virtual=int(row.interleave_m),
        recompute="selective" if selective else "full",
        sequence_parallel=selective,
        precision="fp16",
        flash=False,
    )
    machine = cluster("selene", layout.devices)
    stack = stack_named("megatron-2021")
    return MeasuredRun("korthikanti", gpt(row), layout, machine, stack, float(seconds.group()))


def megatron_2020(row: Row) -> MeasuredRun:
    """Convert runs. Recomputation is not stated, but the published rates include it."""
    batch = int(row.global_batch_seqs) // int(row.dp)
    layout = Layout(
        data=int(row.dp),
        tensor=int(row.tp),
        micro_batch=batch,
        global_batch=int(row.global_batch_seqs),
        recompute="full",
        precision="fp16",
        flash=False,
    )
    machine = cluster("selene" if "A100" in row.system else "dgx-2", layout.devices)
    model = gpt(row, int(row.vocab))
    seconds = float(row.iter_time_ms) / 1e3
    return MeasuredRun(
        "megatron-2020", model, layout, machine, stack_named("megatron-2020"), seconds
    )


def megatron_2021(row: Row) -> MeasuredRun | None:
    """Convert the README of January 2021. It states only the product of tensor and pipeline sizes:
    tensor parallelism came first, up to a node; the micro-batches are from Table 1."""
    micro = {1: 16, 2: 16, 4: 16, 8: 8, 16: 4, 32: 2, 64: 2, 144: 1, 280: 1, 512: 1}
    split = int(row.model_parallel_size)
    tensor = min(8, split)
    if split % tensor or split not in micro:
        return None
    model = Model(str(row.model), int(row.n_layers), int(row.hidden), int(row.n_heads), 2048, 51200)
    layout = Layout(
        data=int(row.n_gpus) // split,
        tensor=tensor,
        pipeline=split // tensor,
        micro_batch=micro[split],
        global_batch=int(row.global_batch_seqs),
        recompute="full",
        precision="fp16",
        flash=False,
    )
    # Its FLOP/s are from the formula with 96: four passes over the layers.
    rate = float(row.achieved_TFLOPs_per_gpu) * 1e12 * layout.devices
    seconds = of_iteration(model, layout).hardware / rate
    machine = cluster("selene", layout.devices)
    stack = stack_named("megatron-2020")
    return MeasuredRun("megatron-2021", model, layout, machine, stack, seconds)


def vtrain(row: Row) -> MeasuredRun | None:
    """Convert runs. Times on one node are sums of profiled parts (docs/evidence.md)."""
    if row.n_gpus != row.tp * row.pp * row.dp:
        return None
    layout = run_of(row, recompute="full", precision="fp16", flash=False)
    source = "vtrain-single" if row.n_gpus <= 8 else "vtrain-multi"
    # Its configurations state 800 Gb/s between nodes: 4 adapters for 8 devices.
    machine = cluster("selene", layout.devices)
    link = machine.across
    machine = machine.but(across=replace(link, gb_per_s=link.gb_per_s / 2))
    stack = stack_named("megatron-deepspeed")
    return MeasuredRun(source, gpt(row, 50257), layout, machine, stack, float(row.iter_time_s))


def jubench(row: Row) -> MeasuredRun:
    layout = run_of(
        row, recompute="selective", sequence_parallel=True, precision="fp16", flash=True, zero=1
    )
    machine = cluster("juwels-booster", layout.devices)
    stack = stack_named("megatron-2023")
    return MeasuredRun("jubench", gpt(row, 50257), layout, machine, stack, float(row.iter_time_s))
