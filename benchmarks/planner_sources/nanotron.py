"""Converter of nanotron's sweep on 8 to 512 H100, with assumptions for unpublished settings."""

from __future__ import annotations

from course_lib.plan import Model
from course_lib.plan.code_bases import stack_named
from course_lib.plan.estimate import Estimate
from course_lib.plan.hardware.machines import cluster
from course_lib.plan.published.runs import MeasuredRun
from planner_sources.common import Row, run_of


def _nanotron_splits(row: Row) -> bool:
    """Return whether the sequence is split over tensor ranks. This is not published; memory shows
    that both modes were used. These runs kept too little for the unsplit mode."""
    if row.tp == 1:
        return False
    if row.pp == 2 and row.micro_batch <= 2 * row.tp:
        return True
    if row.pp > 1 and (row.tp == 32 or (row.pp > 2 and row.hidden >= 4096)):
        return True
    unsharded = row.pp > 2 and row.zero_stage == 0 and row.dp > 1
    return bool(unsharded or (row.n_gpus >= 512 and row.tp < 32))


def _nanotron_stalls(row: Row) -> bool:
    """Return whether a run was on a faulty network: in part of the sweep each message between
    stages took a quarter of a second, for any model. This happened on 64 nodes, on 32 with many
    data ranks, and without ZeRO if the stages fill nodes; the reason is not published."""
    if row.pp == 1 or row.n_gpus <= 8:
        return False
    fills = row.tp * row.dp >= 8 and row.dp > 1 and not (row.pp == 2 and row.dp >= 32)
    unsharded = row.zero_stage == 0 and fills
    return bool(row.n_gpus >= 512 or (row.n_gpus >= 256 and row.dp >= 32) or unsharded)


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
    layout = run_of(
        row, zero=int(row.zero_stage), sequence_parallel=_nanotron_splits(row), stages="by-cost"
    )
    machine, stack = cluster("hf-h100", layout.devices), stack_named("nanotron")
    if succeeded and row.tp > 1 and not Estimate(model, layout, machine, stack).fits:
        layout = layout.but(sequence_parallel=True)  # it ran, so it must have fitted
    seconds = layout.global_batch * model.sequence / row.tokens_per_s if succeeded else None
    return MeasuredRun(
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
