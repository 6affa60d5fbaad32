"""Converter of golden values in Megatron-LM's own tests: exact bytes."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from course_lib.plan import Layout, Model
from course_lib.plan.code_bases import stack_named
from course_lib.plan.hardware.machines import cluster
from planner_sources.common import Row
from planner_sources.runs import MeasuredRun


def _ci_fused_attention(row: Row) -> bool:
    """Return whether attention is fused. The table lacks it; memory shows it in tests that stop and
    resume and in tests with context parallelism, but rarely on the oldest cluster."""
    if row.transformer_impl == "local":
        return False
    test = str(row.test_case)
    if row.cp > 1 or "reshard" in test or "memory_speed" in test or "zp_z3" in test:
        return True
    return "resume_torch_dist" in test and "dracooci" not in str(row.platform)


def _ci_sharding(row: Row) -> int:
    if row.dp_sharding_strategy == "optim_grads_params":
        return 3
    return 1 if row.distributed_optimizer is True else 0


NOT_TRAINING = ("inference", "grpo", "fp8", "resume_check")


def _ci_virtual(row: Row) -> int:
    per_stage = str(row.layers_per_virtual_stage)
    if "stages/rank=" in per_stage:
        return int(per_stage.rpartition("=")[2])
    return int(row.n_layers) // int(row.pp) // int(per_stage) if per_stage.isdigit() else 1


def _ci_layout(row: Row) -> Layout | None:
    data = int(row.n_gpus_nominal) // int(row.tp * row.pp * row.cp)
    if data == 0:
        return None
    return Layout(
        data=data,
        tensor=int(row.tp),
        pipeline=int(row.pp),
        context=int(row.cp),
        virtual=_ci_virtual(row),
        micro_batch=int(row.micro_batch),
        global_batch=int(row.global_batch_seqs),
        zero=_ci_sharding(row),
        sequence_parallel=row.sequence_parallel is True and row.tp > 1,
        recompute="none" if pd.isna(row.recompute_granularity) else str(row.recompute_granularity),
        precision=str(row.precision),
        flash=_ci_fused_attention(row),
    )


def megatron_ci(row: Row) -> MeasuredRun | None:
    """Convert tests of Megatron-LM's core: training of GPT without experts on a known number of
    devices. They use deterministic communication and kernels, so only memory is compared."""
    test = str(row.test_case)
    odd = row.suite != "gpt" or any(word in test for word in NOT_TRAINING)
    unknown = pd.notna(row.n_experts) or pd.isna(row.n_gpus_nominal)
    if odd or unknown or row.precision not in ("bf16", "fp16"):
        return None
    layout = _ci_layout(row)
    if layout is None:
        return None
    name = str(row.platform)
    machine = "dgx-b200" if "gb200" in name else "dgx-h100" if "h100" in name else "selene"
    return MeasuredRun(
        "megatron-ci",
        _ci_model(row, test),
        layout,
        cluster(machine, layout.devices),
        # Megatron-LM drops a tenth of the activations by default.
        replace(stack_named("megatron-core"), dropout=True),
        peak_gib=float(row.mem_max_allocated_bytes) / 2**30,
        memory_of="last",
        memory_kind="allocated",
    )


def _ci_model(row: Row, test: str) -> Model:
    return Model(
        test,
        int(row.n_layers),
        int(row.hidden),
        int(row.n_heads),
        int(row.seq_len),
        50257 if pd.isna(row.vocab) else int(row.vocab),
        kv_groups=0 if pd.isna(row.n_query_groups) else int(row.n_query_groups),
        tied=row.untie_embeddings is not True,
        positions="rotary" if "rope" in test else "learned",
        activation="swiglu" if row.swiglu is True else "gelu",
        dropout=True,
    )
