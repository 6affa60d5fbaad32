"""Published measurements into one form: a converter per source, chosen by its columns.

What a source does not say is decided here, in one place, with the reason beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from course_lib.plan import Layout, Model, PlanError, preset
from course_lib.plan.estimate import Estimate
from course_lib.plan.flops import of_iteration
from course_lib.plan.machines import cluster, device
from course_lib.plan.measured import COLUMNS, Measured, read_measured
from course_lib.plan.stacks import stack_named

Row = Any
MEGATRON_VOCABULARY = 51200

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


def _gpt(row: Row, vocabulary: int = MEGATRON_VOCABULARY, sequence: int = 0) -> Model:
    name = str(getattr(row, "model", f"{row.n_layers} × {row.hidden}"))
    return Model(
        name,
        int(row.n_layers),
        int(row.hidden),
        int(row.n_heads),
        int(sequence or row.seq_len),
        vocabulary,
    )


def _run(row: Row, **more: Any) -> Layout:
    sizes = {"data": row.dp, "tensor": row.tp, "pipeline": row.pp, "micro_batch": row.micro_batch}
    sizes["global_batch"] = row.global_batch_seqs
    return Layout(**{name: int(value) for name, value in sizes.items()}, **more)


def megatron_sc21(row: Row) -> Measured:
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
    return Measured(
        "megatron-sc21", _gpt(row), layout, machine, stack_named("megatron-2021"), seconds
    )


def korthikanti(row: Row) -> Measured | None:
    seconds = re.match(r"[\d.]+", str(row.iter_time_s))
    if seconds is None:
        return None
    selective = "selective" in row.activation_recompute
    layout = _run(
        row,
        virtual=int(row.interleave_m),
        recompute="selective" if selective else "full",
        sequence_parallel=selective,
        precision="fp16",
        flash=False,
    )
    machine = cluster("selene", layout.devices)
    stack = stack_named("megatron-2021")
    return Measured("korthikanti", _gpt(row), layout, machine, stack, float(seconds.group()))


def megatron_2020(row: Row) -> Measured:
    """Recomputation is not stated; the published rates count it, as the scripts of then did."""
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
    model = _gpt(row, int(row.vocab))
    seconds = float(row.iter_time_ms) / 1e3
    return Measured("megatron-2020", model, layout, machine, stack_named("megatron-2020"), seconds)


def vtrain(row: Row) -> Measured | None:
    if row.n_gpus != row.tp * row.pp * row.dp:
        return None
    layout = _run(row, recompute="full", precision="fp16", flash=False)
    source = "vtrain-single" if row.n_gpus <= 8 else "vtrain-multi"
    machine = cluster("selene", layout.devices)
    stack = stack_named("megatron-deepspeed")
    return Measured(source, _gpt(row, 50257), layout, machine, stack, float(row.iter_time_s))


def jubench(row: Row) -> Measured:
    layout = _run(
        row, recompute="selective", sequence_parallel=True, precision="fp16", flash=True, zero=1
    )
    machine = cluster("juwels-booster", layout.devices)
    stack = stack_named("megatron-core")
    return Measured("jubench", _gpt(row, 50257), layout, machine, stack, float(row.iter_time_s))


def _nanotron_splits(row: Row) -> bool:
    """Whether the sequence is split over tensor ranks is not published; memory shows that both
    modes were run. These kept too little for the unsplit mode."""
    if row.tp == 1:
        return False
    if row.pp == 2 and row.micro_batch <= 2 * row.tp:
        return True
    if row.pp > 1 and (row.tp == 32 or (row.pp > 2 and row.hidden >= 4096)):
        return True
    unsharded = row.pp > 2 and row.zero_stage == 0 and row.dp > 1
    return bool(unsharded or (row.n_gpus >= 512 and row.tp < 32))


def _nanotron_stalls(row: Row) -> bool:
    """Part of the sweep ran on a sick network: whatever the model, each message between stages
    took a quarter of a second. It shows on 64 nodes, on 32 with many data ranks, and without ZeRO
    if the stages fill nodes; nothing published says why."""
    if row.pp == 1 or row.n_gpus <= 8:
        return False
    fills = row.tp * row.dp >= 8 and row.dp > 1 and not (row.pp == 2 and row.dp >= 32)
    unsharded = row.zero_stage == 0 and fills
    return bool(row.n_gpus >= 512 or (row.n_gpus >= 256 and row.dp >= 32) or unsharded)


def nanotron(row: Row) -> Measured | None:
    succeeded = bool(row.succeeded)
    model = Model(
        str(row.model),
        int(row.n_layers),
        int(row.hidden),
        int(row.n_heads),
        int(row.seq_len),
        int(row.vocab),
        kv_groups=int(row.n_kv_heads_inferred),
        ffn=int(row.ffn_hidden),
        tied=bool(row.tied_embeddings),
        positions="rotary",
        activation="swiglu",
        norm="rmsnorm",
        bias=False,
        pad_vocabulary_to=1,
    )
    # The published batch is rounded in some rows; the product is what ran.
    row = row._replace(global_batch_seqs=row.dp * row.micro_batch * row.grad_accum)
    layout = _run(row, zero=int(row.zero_stage), sequence_parallel=_nanotron_splits(row))
    machine, stack = cluster("hf-h100", layout.devices), stack_named("nanotron")
    if succeeded and row.tp > 1 and not Estimate(model, layout, machine, stack).fits:
        layout = layout.but(sequence_parallel=True)  # it ran, so it must have fitted
    seconds = layout.global_batch * model.sequence / row.tokens_per_s if succeeded else None
    return Measured(
        "nanotron",
        model,
        layout,
        machine.but(stall_ms=240 if _nanotron_stalls(row) else 0),
        stack,
        seconds,
        float(row.memory_gib) if succeeded else None,
        memory_of="first",
        overflowed=False if succeeded else None,
    )


def _ci_fused_attention(row: Row) -> bool:
    """Not in the table; memory shows it: tests that stop and resume and those with context
    parallelism take the fused kernel, the others, and most on the oldest cluster, do not."""
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


def megatron_ci(row: Row) -> Measured | None:
    """Tests of Megatron-LM's core: GPT without experts, trained, on a known number of devices.
    Their times are of deterministic communication and kernels, so only memory is compared."""
    test = str(row.test_case)
    odd = row.suite != "gpt" or any(word in test for word in NOT_TRAINING)
    unknown = pd.notna(row.n_experts) or pd.isna(row.n_gpus_nominal)
    if odd or unknown or row.precision not in ("bf16", "fp16"):
        return None
    layout = _ci_layout(row)
    if layout is None:
        return None
    model = Model(
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
    )
    name = str(row.platform)
    machine = "dgx-b200" if "gb200" in name else "dgx-h100" if "h100" in name else "selene"
    return Measured(
        "megatron-ci",
        model,
        layout,
        cluster(machine, layout.devices),
        stack_named("megatron-core"),
        peak_gib=float(row.mem_max_allocated_bytes) / 2**30,
        memory_of="last",
        memory_kind="allocated",
    )


def llm_foundry(row: Row) -> Measured | None:
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
    return Measured(source, model, layout, machine, stack_named("llm-foundry"), seconds)


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


def bigscience(row: Row) -> Measured | None:
    """Megatron-LM and Megatron-DeepSpeed with pipelines, on Jean Zay's V100; runs of other code
    bases, with offloading, or with a mis-set model (104B) are left out."""
    label = str(row.size_label)
    if label == "1.3B":
        model = Model(label, 24, 2048, 16, 2048, 50257)
    elif label in BIGSCIENCE and str(row.section).startswith("Megatron"):
        layers, hidden = BIGSCIENCE[label]
        model = Model(label, layers, hidden, 32, 1024, 50257)
    else:
        return None
    if pd.isna(row.pp) or pd.isna(row.dp) or pd.isna(row.global_batch_seqs):
        return None
    tensor = int(re.match(r"\d+", str(row.tp)).group())  # type: ignore[union-attr]
    full = "full" in str(row.activation_recompute)
    layout = Layout(
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
    if layout.devices != row.n_gpus:
        return None
    gib = re.match(r"[\d.]+(?=GB)", str(row.mem_note))
    machine = cluster("jean-zay-v100", layout.devices)
    if "16GB" in row.gpu:
        machine = machine.but(device=device("V100-16GB"))
    return Measured(
        "bigscience",
        model,
        layout,
        machine,
        stack_named("megatron-deepspeed"),
        None if pd.isna(row.iter_time_s) else float(row.iter_time_s),
        float(gib.group()) if gib else None,
        memory_kind="device",
        overflowed=bool(row.oom) and not gib,
    )


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


def torchtitan(row: Row) -> Measured | None:
    """bf16 only. Recomputation of single operations costs little time; what it keeps is not
    published, so memory is compared where everything or nothing is recomputed."""
    model = _llama(str(row.model), int(row.seq_len))
    if model is None or row.precision != "bf16":
        return None
    how = str(row.activation_checkpointing)
    layout = Layout(
        data=int(row.fsdp_ranks),
        tensor=int(row.tp),
        pipeline=int(row.pp),
        context=int(row.cp),
        micro_batch=int(row.local_batch),
        zero=3,
        sequence_parallel=row.tp > 1,
        recompute="none" if how == "none" else "full",
        # "selective (op)" recomputes every other matrix product: the time of half the layers.
        recompute_method="block" if "op" in how else "uniform",
        recompute_layers=model.layers // 2 if "op" in how else 1,
    )
    machine = cluster("grand-teton" if "H100" in row.gpu else "selene", layout.devices)
    overflowed = row.tokens_per_s_per_gpu == "OOM"
    seconds = None
    if not overflowed:
        rate = float(row.tokens_per_s_per_gpu) * layout.devices
        seconds = layout.global_batch * model.sequence / rate
    told = how in ("full", "none") and not overflowed and pd.notna(row.peak_mem_GiB)
    return Measured(
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


def single_file(row: Row) -> Measured | None:
    """llm.c on 8 devices; "about" and inconsistent rows are marked in the notes."""
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
    return Measured("single-file", model, layout, machine, stack, float(row.iter_time_s))


def megatron_2021(row: Row) -> Measured | None:
    """The README of January 2021: only the product of tensor and pipeline sizes is given; tensor
    parallelism was used up to the node first, and the micro-batches are those of Table 1."""
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
    # Its FLOP/s are those of the formula with 96: four passes over the layers.
    rate = float(row.achieved_TFLOPs_per_gpu) * 1e12 * layout.devices
    seconds = of_iteration(model, layout).hardware / rate
    machine = cluster("selene", layout.devices)
    stack = stack_named("megatron-2020")
    return Measured("megatron-2021", model, layout, machine, stack, seconds)


CONVERTERS: dict[frozenset[str], Callable[[Row], Measured | None]] = {
    frozenset({"interleave_v_derived", "dp_derived"}): megatron_sc21,
    frozenset({"interleave_m", "iter_time_s"}): korthikanti,
    frozenset({"system", "iter_time_ms", "scaling_pct"}): megatron_2020,
    frozenset({"tp*pp*dp==n_gpus", "params_B_as_published"}): vtrain,
    frozenset({"system", "TFLOPs_per_gpu", "options"}): jubench,
    frozenset({"n_kv_heads_inferred", "zero_stage", "succeeded"}): nanotron,
    frozenset({"mem_max_allocated_bytes", "test_case", "suite"}): megatron_ci,
    frozenset({"file", "section", "size_label", "hw_TFLOPs_per_gpu", "mem_note"}): bigscience,
    frozenset({"fsdp(dp_shard)", "local_batch", "torch_compile"}): torchtitan,
    frozenset({"tokens_per_iter", "recompute", "sharding"}): single_file,
    frozenset({"model_parallel_size", "achieved_TFLOPs_per_gpu"}): megatron_2021,
    frozenset({"fsdp_sharding", "mfu_pct", "n_params"}): llm_foundry,
}


def _rename(name: str) -> str:
    """Column names that Python cannot spell."""
    if name == "fsdp(dp_shard)":
        return "fsdp_ranks"
    return "memory_gib" if name.startswith("peak_gpu_mem_reported") else name


def read_file(path: Path) -> Iterator[Measured]:
    """Runs of one CSV file, of whatever source; nothing from a file of another kind."""
    with path.open(encoding="utf-8") as file:
        header = set(next(file, "").strip().split(","))
    if {"hardware", "software"} <= header and header & set(COLUMNS):
        yield from read_measured(path)
        return
    found = [make for columns, make in CONVERTERS.items() if columns <= header]
    if not found:
        return
    table = pd.read_csv(path).rename(columns=_rename)
    for row in table.itertuples(index=False):
        try:
            run = found[0](row)
        except PlanError as error:
            print(f"{path.name}: left out: {error}")
            continue
        if run is not None:
            yield run


def read_folder(folder: Path) -> list[Measured]:
    return [run for path in sorted(folder.glob("*.csv")) for run in read_file(path)]
