"""Megatron-LM's own reader and builder of the indexed format.

    python tests/megatron/indexed.py CHECKOUT <question.json >answer.json

{"read": prefix} gives the sequences, their type and the documents' ends; {"write": prefix,
"documents": [[sequence, …], …], "vocabulary": n} writes them as a builder of Megatron-LM does.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import standins


def read(prefix: str) -> dict[str, Any]:
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    text = IndexedDataset(prefix)
    return {
        "sequences": [text[number].tolist() for number in range(len(text))],
        "middle": text.get(0, offset=1, length=2).tolist(),
        "type": text[0].dtype.name,
        "ends": text.document_indices.tolist(),
    }


def write(prefix: str, documents: list[list[list[int]]], vocabulary: int) -> str:
    import torch
    from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder

    kind = DType.optimal_dtype(vocabulary)
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=kind)
    for document in documents:
        for sequence in document:
            builder.add_item(torch.tensor(sequence))
        builder.end_document()
    builder.finalize(f"{prefix}.idx")
    return str(kind.__name__)


if __name__ == "__main__":
    standins.install(sys.argv[1])
    question = json.load(sys.stdin)
    if "read" in question:
        json.dump(read(question["read"]), sys.stdout)
    else:
        asked = (question["write"], question["documents"], question["vocabulary"])
        json.dump(write(*asked), sys.stdout)
