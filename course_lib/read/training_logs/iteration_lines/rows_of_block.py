"""What one block of a log tells, without the blocks around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from course_lib.read.large_files.line_search import Hits, Ints
from course_lib.read.training_logs.iteration_lines.line_heads import Codes
from course_lib.read.training_logs.iteration_lines.names_and_values import Floats
from course_lib.read.training_logs.iteration_lines.times_of_day import Times


@dataclass(frozen=True)
class BlockRows:
    """Some rows of a block; `line` counts from 0 within it, `codes` say who printed them."""

    line: Ints
    columns: dict[str, Floats]
    codes: Codes
    stamps: Times


@dataclass(frozen=True)
class BlockFindings:
    """`rows` of iteration lines that could be read; hits on other iteration lines and on lines of
    other kinds; lines that state the world size, so begin an attempt (numbered within the block).
    `heads`: what the codes from the last one known on stand for. `half`: a last line without its
    end, not searched."""

    rows: BlockRows | None
    unread: Hits
    others: Hits
    begun: Ints
    heads: list[bytes]
    half: bytes

    @property
    def lines(self) -> int:
        return self.others.lines


def merged(parts: Sequence[BlockRows]) -> BlockRows:
    """All rows in the order of their lines."""
    if len(parts) == 1:
        return parts[0]
    line = np.concatenate([part.line for part in parts])
    order = np.argsort(line, kind="stable")
    names = dict.fromkeys(name for part in parts for name in part.columns)
    columns: dict[str, Floats] = {}
    for name in names:
        pieces = [part.columns.get(name, np.full(len(part.line), np.nan)) for part in parts]
        columns[name] = np.concatenate(pieces)[order]
    codes = np.concatenate([part.codes for part in parts])[order]
    stamps = np.concatenate([part.stamps for part in parts])[order]
    return BlockRows(line[order], columns, codes, stamps)


def by_global_step(columns: dict[str, Floats]) -> dict[str, Floats]:
    """NeMo counts iterations within an epoch, and steps over all of them."""
    if "global_step" not in columns:
        return columns
    known = ~np.isnan(columns["global_step"])
    return columns | {
        "iteration": np.where(known, columns["global_step"], columns["iteration"]),
        "iteration_in_epoch": columns["iteration"],
    }
