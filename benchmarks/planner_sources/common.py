"""Common parts of the converters."""

from __future__ import annotations

from typing import Any

from course_lib.plan import Layout, Model

Row = Any
MEGATRON_VOCABULARY = 51200


def gpt(row: Row, vocabulary: int = MEGATRON_VOCABULARY, sequence: int = 0) -> Model:
    name = str(getattr(row, "model", f"{row.n_layers} × {row.hidden}"))
    return Model(
        name,
        int(row.n_layers),
        int(row.hidden),
        int(row.n_heads),
        int(sequence or row.seq_len),
        vocabulary,
    )


def run_of(row: Row, **more: Any) -> Layout:
    sizes = {"data": row.dp, "tensor": row.tp, "pipeline": row.pp, "micro_batch": row.micro_batch}
    sizes["global_batch"] = row.global_batch_seqs
    return Layout(**{name: int(value) for name, value in sizes.items()}, **more)
