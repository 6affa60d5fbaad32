"""Converter of nanotron's sweep on 8 to 512 H100, with assumptions for unpublished settings."""

from __future__ import annotations

from course_lib.plan import Model
from course_lib.plan.code_bases import stack_named
from course_lib.plan.hardware.machines import cluster
from planner_sources.common import Row, run_of
from planner_sources.runs import MeasuredRun


def _nanotron_model(row: Row) -> Model:
    return Model(
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


def nanotron(row: Row) -> MeasuredRun | None:
    succeeded = bool(row.succeeded)
    model = _nanotron_model(row)
    # The published batch is rounded in some rows; the product is the actual one.
    row = row._replace(global_batch_seqs=row.dp * row.micro_batch * row.grad_accum)
    # nanotron has two tensor modes, with and without a split sequence. The rows do not say which
    # one they used. Times hardly differ; memory does, so it counts only without tensor ranks.
    layout = run_of(row, zero=int(row.zero_stage), sequence_parallel=row.tp > 1, stages="by-cost")
    machine, stack = cluster("hf-h100", layout.devices), stack_named("nanotron")
    seconds = layout.global_batch * model.sequence / row.tokens_per_s if succeeded else None
    return MeasuredRun(
        "nanotron",
        model,
        layout,
        machine,
        stack,
        seconds,
        float(row.memory_gib) if succeeded and row.tp == 1 else None,
        memory_of="first",
        overflowed=False if succeeded else None,
    )
