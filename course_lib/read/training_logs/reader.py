"""Reader of training logs of Megatron-LM (2020 to today), its relatives, and the course's
programs.

Most lines of a large log are not of interest and differ from an earlier line only in digits. So
each line is first looked up by its other characters (its shape). The same code reads a finished log
and a growing one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.read import files, lines, prefix
from course_lib.read.files import PathLike, Source
from course_lib.read.training_logs import iteration_lines
from course_lib.read.training_logs.iteration_lines import HEAD
from course_lib.read.training_logs.result import LONGEST_LINE_BYTES, Line, Tables, TrainingLog
from course_lib.read.training_logs.trainer_lines import RULES, UNREAD_LOSS, LineRule

_DIGITS_AND_BLANKS = b"0123456789 \t\r"
_MOST_SHAPES, _LONGEST_SHAPE_BYTES = 10_000, 1000
# Loss with its value. A line that states one in an unknown form is kept as a note.
_LOSS = re.compile(rb"(?i)loss(?![a-z_])\W{1,4}[-+]?\d")
# Most consecutive lines of other processes within the table of arguments; more end it.
_MOST_FOREIGN_LINES = 40


def _shape(text: bytes) -> bytes:
    return text.translate(None, _DIGITS_AND_BLANKS)


_ITERATION_SHAPES = tuple(map(_shape, iteration_lines.NEEDLES))
_WORD_SHAPES = tuple((rule, tuple(map(_shape, rule.words))) for rule in RULES)


@dataclass
class Kind:
    """Rules for lines with one shape."""

    is_iteration: bool
    rules: tuple[LineRule, ...]
    may_state_loss: bool


class TrainingReader:
    """Reader of a log in pieces of any size; `result` can be called at any time.

    >>> reader = TrainingReader()
    >>> reader.feed(b" iteration 1/ 2 | elapsed time per iteration (ms): 12.5 | lm loss: 2.0 |\\n")
    >>> reader.result().iterations.elapsed_ms.tolist()
    [12.5]
    """

    def __init__(self) -> None:
        self._tables = Tables()
        self._kinds: dict[bytes, Kind | None] = {}
        self._buffer = lines.LineBuffer()
        self._sources: list[Source] = []
        self._tail: lines.Tail | None = None
        self._lines_before = self._line = 0
        # Lines that may follow before the table of arguments is over; 0 outside of it.
        self._arguments_left = 0

    def feed(self, data: bytes) -> None:
        """Read some bytes; an incomplete last line waits for its rest."""
        if not self._sources:
            self._begin(Source(Path()))
        if block := self._buffer.feed(data):
            self._read(block)

    def poll(self, path: PathLike) -> bool:
        """Read what was added to a growing file since the last call; return whether it grew."""
        if self._tail is None or str(self._tail.path) != str(path):
            self._tail = lines.Tail(path)
            self._begin(Source(self._tail.path))
        grown = False
        for data in self._tail.poll():
            grown = True
            self.feed(data)
        return grown

    def read(self, source: Source) -> None:
        """Read a file to its end."""
        self._begin(source)
        for block in lines.blocks(source.path):
            self.feed(block)
        self.finish()

    def finish(self) -> None:
        """End the log: its incomplete last line counts, except for a number that may be cut."""
        if rest := self._buffer.rest():
            whole = rest[: rest.rfind(b"|") + 1] if HEAD.search(rest) else rest
            self._read(whole + b"\n")

    def result(self) -> TrainingLog:
        return self._tables.log(self._sources, self._lines_before + self._line)

    def _begin(self, source: Source) -> None:
        self._buffer = lines.LineBuffer()
        self._sources.append(source)
        self._tables.begin_file(len(self._sources) - 1)
        self._lines_before += self._line
        self._line = 0
        self._arguments_left = 0

    def _read(self, block: bytes) -> None:
        """Read a block of whole lines."""
        texts, kinds = block.split(b"\n"), self._kinds
        texts.pop()
        for number, shape in enumerate(_shape(block).split(b"\n")[:-1]):
            kind = kinds[shape] if shape in kinds else self._kind_of(shape)
            if kind is None and not self._arguments_left:
                continue
            understood = kind is not None and kind.is_iteration and self._iterations(texts, number)
            if self._arguments_left or (kind is not None and kind.rules):
                rules = kind.rules if kind is not None else ()
                understood |= self._other_line(rules, texts, number)
            if kind is not None and kind.may_state_loss and not understood:
                self._unread_loss(texts[number], number)
        self._line += len(texts)

    def _kind_of(self, shape: bytes) -> Kind | None:
        is_iteration = any(word in shape for word in _ITERATION_SHAPES)
        rules = tuple(
            rule
            for rule, words in _WORD_SHAPES
            if any(word in shape for word in words) and not (rule.short and is_iteration)
        )
        may_state_loss = b"loss" in shape.lower()
        matters = is_iteration or rules or may_state_loss
        found = Kind(is_iteration, rules, may_state_loss) if matters else None
        if len(shape) <= _LONGEST_SHAPE_BYTES:
            if len(self._kinds) >= _MOST_SHAPES:
                self._kinds.clear()
            self._kinds[shape] = found
        return found

    def _iterations(self, texts: Sequence[bytes], number: int) -> bool:
        """Read a line of iterations, and tell whether it has one."""
        text, found = texts[number], False
        if any(needle in text for needle in iteration_lines.NEEDLES):
            for values, head in iteration_lines.rows_of(text, _following(texts, number)):
                self._tables.iterations.add(values, head, self._line + number + 1)
                found = True
        return found

    def _place(self, text: bytes, number: int) -> Line:
        text = prefix.without_colours(text[:LONGEST_LINE_BYTES])
        return Line(text, self._sources[-1], len(self._sources) - 1, self._line + number + 1)

    def _unread_loss(self, text: bytes, number: int) -> None:
        if _LOSS.search(text[:LONGEST_LINE_BYTES]):
            self._tables.add(UNREAD_LOSS, {}, self._place(text, number))

    def _other_line(self, rules: Sequence[LineRule], texts: Sequence[bytes], number: int) -> bool:
        """Apply rules to a line, and tell whether one of them, or the arguments, have used it."""
        place = self._place(texts[number], number)
        text, understood = place.text, False
        if self._arguments_left:
            own = understood = self._tables.argument(text)
            self._arguments_left = _MOST_FOREIGN_LINES if own else self._arguments_left - 1
        for rule in rules:
            found = list(rule.rows(text, _following(texts, number)))
            for row in found:
                self._tables.add(rule, row, place)
            understood |= bool(found)
            if found and rule.table == "arguments":
                self._arguments_left = _MOST_FOREIGN_LINES if rule.name == "arguments" else 0
        return understood


def _following(texts: Sequence[bytes], number: int) -> bytes:
    return texts[number + 1] if number + 1 < len(texts) else b""


def training_log(path: PathLike | Iterable[PathLike]) -> TrainingLog:
    """Read a log file, a run folder, or a folder of per-rank files as one run."""
    reader = TrainingReader()
    for source in files.sources(path):
        reader.read(source)
    return reader.result()
