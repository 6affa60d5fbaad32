"""Tokenized text in Megatron-LM's indexed format.

<prefix>.bin   the tokens of all documents, one after the other
<prefix>.idx   magic, version, token type; then length and start of each sequence, and the first
               sequence of each document
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from process.errors import DataError
from process.reading import understood

MAGIC = b"MMIDIDX\x00\x00"
# Without the format's float types 6 and 7, because a token is a whole number.
TYPES = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16}


def token_type(vocabulary: int) -> type[np.generic]:
    """Return the token type: two bytes if they suffice, which halves the disk space and reading."""
    return np.uint16 if vocabulary <= 2**16 else np.int32


def write_indexed(prefix: Path, documents: Iterable[np.ndarray], dtype: type[np.generic]) -> int:
    """Write both files, first under temporary names; return the number of tokens."""
    bin_new, idx_new = (Path(f"{prefix}{end}.{os.getpid()}.tmp") for end in (".bin", ".idx"))
    try:
        sizes = _write_tokens(bin_new, documents, dtype)
        if not sizes.sum():
            raise DataError(
                f"nothing to write to {prefix}.bin: {len(sizes)} documents have 0 tokens; is the "
                "input empty, or the vocabulary of another text?"
            )
        _write_index(idx_new, sizes, dtype)
        bin_new.replace(f"{prefix}.bin")
        idx_new.replace(f"{prefix}.idx")
    finally:
        bin_new.unlink(missing_ok=True)
        idx_new.unlink(missing_ok=True)
    return int(sizes.sum())


def _write_tokens(
    path: Path, documents: Iterable[np.ndarray], dtype: type[np.generic]
) -> np.ndarray:
    """Write the tokens; return the length of each document."""
    lengths = []
    with path.open("wb") as out:
        for tokens in documents:
            out.write(tokens.astype(dtype, copy=False).tobytes())
            lengths.append(len(tokens))
    return np.array(lengths, np.int32)


def _write_index(path: Path, sizes: np.ndarray, dtype: type[np.generic]) -> None:
    starts = np.concatenate([[0], np.cumsum(sizes[:-1], dtype=np.int64)]) * np.dtype(dtype).itemsize
    code = next(code for code, known in TYPES.items() if known == dtype)
    # Header of 34 bytes; per sequence 4 (length) and 8 bytes (start, in bytes); 8 bytes per
    # document and 8 for the end. Here every sequence is one document.
    with path.open("wb") as out:
        out.write(MAGIC + struct.pack("<QB", 1, code))
        out.write(struct.pack("<QQ", len(sizes), len(sizes) + 1))
        out.write(sizes.tobytes() + starts.astype(np.int64)[: len(sizes)].tobytes())
        out.write(np.arange(len(sizes) + 1, dtype=np.int64).tobytes())


def check_present(prefix: str) -> None:
    missing = [end for end in (".bin", ".idx") if not Path(f"{prefix}{end}").is_file()]
    if missing:
        raise DataError(
            f"no data at {prefix}.bin and {prefix}.idx ({' and '.join(missing)} missing); give "
            "--data-path without the ending. Prepare a text with `python code/sample_text.py` "
            "or `python code/preprocess_data.py`, or use --mock-data"
        )


@dataclass(frozen=True)
class IndexedText:
    tokens: np.ndarray
    lengths: np.ndarray  # tokens of each sequence
    documents: np.ndarray  # first sequence of each document, and the end

    @classmethod
    def open(cls, prefix: str) -> IndexedText:
        check_present(prefix)
        index, data = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
        with understood(index, "an index in Megatron's format", "convert the text again"):
            raw = np.memmap(index, mode="r")
            version, code, sequences, documents = struct.unpack_from("<QBQQ", raw.data, 9)
            if raw[:9].tobytes() != MAGIC or version != 1:
                raise ValueError("another magic or version")
            kind = np.dtype(TYPES[code])
            lengths = np.frombuffer(raw, np.int32, sequences, 34)
            starts = np.frombuffer(raw, np.int64, sequences, 34 + 4 * sequences)
            firsts = np.frombuffer(raw, np.int64, documents, 34 + 12 * sequences)
            # Sequences follow one another without gaps, and documents are runs of sequences.
            edges = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
            gaps = (lengths < 0).any() or (starts != edges[:-1] * kind.itemsize).any()
            ends = firsts[[0, -1]].tolist() == [0, sequences]
            if gaps or not ends or (np.diff(firsts) < 0).any():
                raise ValueError("its sequences or documents do not follow one another")
        # An incomplete copy would train without an error, on less text.
        wanted, there = int(edges[-1]), data.stat().st_size
        if there != wanted * kind.itemsize or not wanted:
            raise DataError(
                f"{data} has {there} bytes, but its index lists {wanted} tokens of {kind.itemsize} "
                "bytes; copy both files again, or convert a text that is not empty"
            )
        # Memory-mapped: a page is loaded when a sample needs it, and the kernel shares it among all
        # ranks of the node.
        return cls(np.memmap(data, kind, "r"), lengths, firsts)

    def share(self, first: float, last: float) -> np.ndarray:
        """Return the tokens of the documents between two fractions of their number."""
        starts = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        count = len(self.documents) - 1
        low, high = (int(starts[self.documents[round(share * count)]]) for share in (first, last))
        return self.tokens[low:high]


def split_shares(split: str) -> list[tuple[float, float]]:
    parts = [float(part) for part in split.replace("/", ",").split(",")]
    parts = [*parts, 0.0, 0.0][:3]
    ends = np.cumsum(parts) / sum(parts)
    return list(zip([0.0, *ends[:2]], ends, strict=True))
