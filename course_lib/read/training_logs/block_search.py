"""What a block of a training log says without the blocks around it: all but a few of its lines."""

from __future__ import annotations

import numpy as np

from course_lib.read.large_files.line_search import Finder, Hits
from course_lib.read.training_logs.iteration_lines.line_heads import Head
from course_lib.read.training_logs.iteration_lines.many_lines import ManyLines
from course_lib.read.training_logs.iteration_lines.rows_of_block import (
    BlockFindings,
    BlockRows,
    merged,
)
from course_lib.read.training_logs.iteration_lines.times_of_day import as_times, written_times
from course_lib.read.training_logs.megatron_lines import TIMER_NEEDLES
from course_lib.read.training_logs.other_lines import NEEDLES as OTHER_NEEDLES
from course_lib.read.training_logs.other_lines import WORLD_NEEDLE

ITERATION_NEEDLES = (b"elapsed time per iteration", b"train_step_timing in s")
NEEDLES = (*ITERATION_NEEDLES, *OTHER_NEEDLES)
_WORLD = NEEDLES.index(WORLD_NEEDLE)
_FINDER = Finder(NEEDLES)
_WITHOUT_TIMERS = Finder(NEEDLES, TIMER_NEEDLES)


class TrainingSearch:
    """Learns from the lines that it sees how others of the same file are written."""

    BLOCK_BYTES = 2 << 20
    """Large, since lines of one form are read together."""

    def __init__(self) -> None:
        self._many_lines = ManyLines(self._learn)
        self._heads: list[bytes] = []
        self._told = 0

    def __call__(self, block: bytes, hint: bool | None) -> BlockFindings:
        """`hint`: whether enough timers were seen."""
        whole = block.rfind(b"\n") + 1
        block, half = (block, b"") if whole == len(block) else (block[:whole], block[whole:])
        hits = (_WITHOUT_TIMERS if hint else _FINDER).find(block)
        is_iteration = hits.needle < len(ITERATION_NEEDLES)
        rows, unread = self._iterations(block, hits.only(is_iteration))
        begun = np.unique(hits.line[hits.needle == _WORLD])
        heads, self._told = self._heads[self._told :], len(self._heads)
        return BlockFindings(rows, unread, hits.only(~is_iteration), begun, heads, half)

    def _iterations(self, block: bytes, hits: Hits) -> tuple[BlockRows | None, Hits]:
        single = hits.times == 1
        line = hits.line[single]
        batches, left = self._many_lines.read(block, hits.start[single], hits.end[single])
        parts = [
            BlockRows(line[batch.row], batch.columns, batch.codes, as_times(batch.stamps))
            for batch in batches
        ]
        rest = np.concatenate([np.flatnonzero(single)[left], np.flatnonzero(~single)])
        return merged(parts) if parts else None, hits.only(np.sort(rest))

    def _learn(self, head: bytes) -> Head:
        times, date = written_times(head)
        self._heads.append(head)
        return Head(times, date, len(self._heads) - 1)
