"""Reads training logs of Megatron-LM (2020 to today), its relatives, and the course's programs.

`TrainingSearch` picks the lines that may matter and decodes iteration lines in bulk; all others are
read one by one (`other_lines.py`). The same code serves a finished log and one that still grows.
"""

from __future__ import annotations

from collections.abc import Iterable

from course_lib.read import files
from course_lib.read.files import PathLike, Source
from course_lib.read.large_files.file_pieces import Piece
from course_lib.read.large_files.two_processes import searched
from course_lib.read.lines import LineBuffer, Tail
from course_lib.read.training_logs.block_search import ITERATION_NEEDLES, TrainingSearch
from course_lib.read.training_logs.iteration_lines.collected_rows import BlockPlace
from course_lib.read.training_logs.iteration_lines.names_and_values import HEAD
from course_lib.read.training_logs.iteration_lines.rows_of_block import BlockFindings
from course_lib.read.training_logs.megatron_lines import MOST_TIMER_REPORTS
from course_lib.read.training_logs.other_lines import LoggedIterations, OtherLines
from course_lib.read.training_logs.result import TrainingLog
from course_lib.read.training_logs.tables import Tables


class TrainingReader:
    """Takes a log in pieces of any size; `result` may be asked at any time.

    >>> reader = TrainingReader()
    >>> reader.feed(b" iteration 1/ 2 | elapsed time per iteration (ms): 12.5 | lm loss: 2.0 |\\n")
    >>> reader.result().iterations.elapsed_ms.tolist()
    [12.5]
    """

    def __init__(self) -> None:
        self._tables = Tables()
        self._other_lines = OtherLines(self._tables)
        self._buffer = LineBuffer()
        self._sources: list[Source] = []
        self._tail: Tail | None = None
        self._lines_before = self._line = self._starts = 0

    def feed(self, data: bytes) -> None:
        """Half a line at the end waits for its other half."""
        if not self._sources:
            self._begin(Source.unnamed())
        if block := self._buffer.feed(data):
            self._read(block)

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
        for who, piece, found in searched(source.path, self._search, self._enough_timers):
            self._cut()
            self._block(piece, found, who)
            if block := self._buffer.feed(found.half):
                self._read(block)
        self.finish()

    def finish(self) -> None:
        """The log will not grow: its last half line counts, but for a number that may be cut."""
        if rest := self._buffer.rest():
            whole = rest[: rest.rfind(b"|") + 1] if HEAD.search(rest) else rest
            self._read(whole + b"\n")

    def _cut(self) -> None:
        """A line goes on in the next piece only where it is too long to be one."""
        if self._buffer.waiting:
            self._read(self._buffer.rest() + b"\n")

    def result(self, last: bool = False) -> TrainingLog:
        """`last`: nothing more will be asked of this reader, which saves half of the memory."""
        return self._tables.log(self._sources, self._lines_before + self._line, last)

    def _begin(self, source: Source) -> None:
        self._buffer = LineBuffer()
        self._search = TrainingSearch()
        self._sources.append(source)
        self._lines_before += self._line
        self._line = 0
        self._other_lines.begin(source, len(self._sources) - 1)

    def _enough_timers(self) -> bool:
        return self._tables.timer_reports >= MOST_TIMER_REPORTS

    def _read(self, block: bytes) -> None:
        self._block(Piece(block), self._search(block, self._enough_timers()), 0)

    def _block(self, piece: Piece, found: BlockFindings, who: int) -> None:
        place = BlockPlace(len(self._sources) - 1, self._line + 1, self._starts)
        line, iteration = self._tables.iterations.add_block(piece, found, who, place)
        self._starts += len(found.begun)
        rows = LoggedIterations(self._line + 1, line, iteration)
        self._other_lines.read(piece, found.others, len(ITERATION_NEEDLES), rows)
        self._line += found.lines


def training_log(path: PathLike | Iterable[PathLike]) -> TrainingLog:
    """Reads a log file, a run folder, or a folder of per-rank files as one run."""
    reader = TrainingReader()
    for source in files.sources(path):
        reader.read(source)
    return reader.result(last=True)
