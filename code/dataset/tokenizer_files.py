"""How large the vocabulary is, from the tokenizer's files; and the tokenizer itself."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from process.errors import DataError


def vocabulary_size(args: argparse.Namespace) -> int:
    """Of the files that the flags name, else of the files beside the data, else --vocab-size."""
    if args.vocab_size:
        return int(args.vocab_size)
    if args.tokenizer_model:
        return len(json.loads(_text(Path(args.tokenizer_model)))["model"]["vocab"])
    beside = Path(args.data_path[-1]).parent / "vocab.json" if args.data_path else None
    file = Path(args.vocab_file) if args.vocab_file else beside
    if file is not None and (args.vocab_file or file.is_file()):
        return len(json.loads(_text(file)))
    if args.mock_data:
        return 8192
    raise DataError(
        "the size of the vocabulary is unknown; give --vocab-file (vocab.json), --tokenizer-model "
        "(tokenizer.json) or --vocab-size"
    )


def _text(path: Path) -> str:
    if not path.is_file():
        raise DataError(f"no vocabulary at {path}; `python code/sample_text.py` makes one in data/")
    return path.read_text(encoding="utf-8")


def padded(size: int, divisible_by: int, tensor: int) -> int:
    """Rows of the embedding matrix: every tensor rank gets the same number, a round one."""
    step = divisible_by * tensor
    return -(-size // step) * step
