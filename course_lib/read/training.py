"""Reads training logs of Megatron-LM (2020 to today), its relatives, and the course's programs.

`Finder` picks the lines that may matter; iteration lines are decoded in bulk (`iterations.py`),
all others one by one (`marks.py`). The same code serves a finished log and one that still grows.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from course_lib.read import lines
from course_lib.read.events import MOST_TIMER_REPORTS, TIMER_NEEDLES
from course_lib.read.fields import HEAD
from course_lib.read.iterations import Place
from course_lib.read.lines import LineBuffer, PathLike, Source, Tail
from course_lib.read.marks import NEEDLES as MARK_NEEDLES
from course_lib.read.marks import WORLD_NEEDLE, Logged, Marks
from course_lib.read.scan import Finder, Hits, Ints
from course_lib.read.tables import Tables
from course_lib.read.training_result import TrainingLog

ITERATION_NEEDLES = (b"elapsed time per iteration", b"train_step_timing in s")
NEEDLES = (*ITERATION_NEEDLES, *MARK_NEEDLES)
_WORLD = NEEDLES.index(WORLD_NEEDLE)
_FINDER = Finder(NEEDLES)
_WITHOUT_TIMERS = Finder(NEEDLES, TIMER_NEEDLES)
BLOCK_BYTES = 4 << 20
"""Large, since lines of one form are read together."""


class TrainingReader:
    """Takes a log in pieces of any size; `result` may be asked at any time.

    >>> reader = TrainingReader()
    >>> reader.feed(b" iteration 1/ 2 | elapsed time per iteration (ms): 12.5 | lm loss: 2.0 |\\n")
    >>> reader.result().iterations.elapsed_ms.tolist()
    [12.5]
    """

    def __init__(self) -> None:
        self._tables = Tables()
        self._marks = Marks(self._tables)
        self._buffer = LineBuffer()
        self._sources: list[Source] = []
        self._tail: Tail | None = None
        self._lines_before = self._line = self._starts = 0

    def feed(self, data: bytes) -> None:
        """Half a line at the end waits for its other half."""
        if not self._sources:
            self._begin(Source.unnamed())
        if block := self._buffer.feed(data):
            self._block(block, self._find(block))

    def poll(self, path: PathLike) -> bool:
        """Reads what was added to a growing file since the last call; True if anything was."""
        if self._tail is None or str(self._tail.path) != str(path):
            self._tail = Tail(path)
            self._begin(Source(self._tail.path))
        grown = False
        for data in self._tail.poll():
            grown = True
            self.feed(data)
        return grown

    def read(self, source: Source) -> None:
        """A whole file, to its end."""
        self._begin(source)
        for block, hits in lines.ahead(lines.blocks(source.path, BLOCK_BYTES), self._find):
            if block.endswith(b"\n") and not self._buffer.waiting:
                self._block(block, hits)
            else:
                self.feed(block)
        self.finish()

    def finish(self) -> None:
        """The log will not grow: its last half line counts, but for a number that may be cut."""
        if rest := self._buffer.rest():
            whole = rest[: rest.rfind(b"|") + 1] if HEAD.search(rest) else rest
            self._block(whole + b"\n", self._find(whole + b"\n"))

    def result(self, last: bool = False) -> TrainingLog:
        """`last`: nothing more will be asked of this reader, which saves half of the memory."""
        return self._tables.log(self._sources, self._lines_before + self._line, last)

    def _begin(self, source: Source) -> None:
        self._buffer = LineBuffer()
        self._sources.append(source)
        self._lines_before += self._line
        self._line = 0
        self._marks.begin(source, len(self._sources) - 1)

    def _find(self, block: bytes) -> Hits:
        enough = self._tables.timer_reports >= MOST_TIMER_REPORTS
        return (_WITHOUT_TIMERS if enough else _FINDER).find(block)

    def _block(self, block: bytes, hits: Hits) -> None:
        is_iteration = hits.needle < len(ITERATION_NEEDLES)
        rows = self._iterations(block, hits.only(is_iteration), hits.line[hits.needle == _WORLD])
        self._marks.read(block, hits.only(~is_iteration), len(ITERATION_NEEDLES), rows)
        self._line += hits.lines

    def _iterations(self, block: bytes, hits: Hits, begun: Ints) -> Logged:
        """`begun`: lines of this block that state the world size, so begin an attempt."""
        begun = np.unique(begun)
        place = Place(len(self._sources) - 1, self._line + 1, self._starts)
        line, iteration = self._tables.iterations.add_block(block, hits, begun, place)
        self._starts += len(begun)
        return Logged(self._line + 1, line, iteration)


def training_log(path: PathLike | Iterable[PathLike]) -> TrainingLog:
    """Reads a log file, a run folder, or a folder of per-rank files as one run."""
    reader = TrainingReader()
    for source in lines.sources(path):
        reader.read(source)
    return reader.result(last=True)
