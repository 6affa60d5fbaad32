"""Size of the vocabulary, from the tokenizer's files."""

from __future__ import annotations

import argparse
from pathlib import Path

from process.errors import DataError
from process.reading import read_json, understood


def vocabulary_size(args: argparse.Namespace) -> int:
    """Return --vocab-size, or read the named files, or else the files beside the data."""
    if args.vocab_size:
        return int(args.vocab_size)
    beside = Path(args.data_path).parent / "vocab.json" if args.data_path else None
    file = Path(args.vocab_file) if args.vocab_file else beside
    if file is not None and (args.vocab_file or file.is_file()):
        return max(read_vocabulary(file).values()) + 1
    if args.mock_data:
        return 8192
    raise DataError(
        "the vocabulary size is unknown; give --vocab-file (vocab.json) or --vocab-size"
    )


def read_vocabulary(path: Path) -> dict[str, int]:
    """Return token → number, as in GPT-2's vocab.json."""
    what = "a vocabulary, a JSON object of tokens and numbers"
    cure = "did you swap --vocab-file and --merge-file? `python code/sample_text.py` makes both"
    with understood(path, what, cure):
        found: dict[str, int] = read_json(path)
        if not found or not all(map(_is_token, found.values())):
            raise ValueError("it has no tokens, or one without a number")
        return found


def _is_token(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def padded(size: int, divisible_by: int, tensor: int) -> int:
    """Return the rows of the embedding matrix: the same round number on every tensor rank.

    GPT-2's 50257 become 50304 (393 × 128) on one tensor rank, 50688 (99 × 512) on four."""
    step = divisible_by * tensor
    return -(-size // step) * step
