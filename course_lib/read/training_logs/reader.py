"""Reader of training logs of Megatron-LM (2020 to today), its relatives, and the course's
programs.

Most lines of a large log are not of interest and differ from an earlier line only in digits. So
each line is first looked up by its other characters (its shape). The same code reads a finished log
and a growing one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from course_lib.read import files, lines
from course_lib.read.files import PathLike, Source
from course_lib.read.training_logs import iteration_lines, trainer_lines
from course_lib.read.training_logs.iteration_lines import HEAD, Form, form_of
from course_lib.read.training_logs.result import Handler, Line, Tables, TrainingLog

_DIGITS_AND_BLANKS = b"0123456789 \t\r"
_MOST_SHAPES, _LONGEST_SHAPE_BYTES, _MOST_FORMS = 10_000, 1000, 200
_HANDLERS = trainer_lines.HANDLERS
_SHORT_WORDS_BYTES = 4 << 20
_REGION_LINES = {"arguments": 2000, "timers": 60}
_MOST_REGIONS = {"arguments": 8, "timers": trainer_lines.MOST_TIMER_REPORTS}
# Most consecutive lines of other processes within a table; more end it.
_MOST_FOREIGN_LINES = {"arguments": 40, "timers": 0}


def _shape(text: bytes) -> bytes:
    return text.translate(None, _DIGITS_AND_BLANKS)


_WORLD = b"using world size"
_SHORT = re.compile(b"|".join(map(re.escape, trainer_lines.SHORT_HANDLERS)))
_ITERATION_SHAPES = tuple(map(_shape, iteration_lines.NEEDLES))
_NEEDLE_SHAPES = tuple((needle, _shape(needle)) for needle in _HANDLERS)
_UNTIMED = _shape(b"consumed samples:")
_SHORT_SHAPES = tuple(map(_shape, trainer_lines.SHORT_HANDLERS))


@dataclass
class Kind:
    """Kinds of lines with one shape, and the form of its iteration lines."""

    is_iteration: bool
    needles: tuple[bytes, ...]
    short: bool
    form: Form | None = None


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
        self._forms: dict[Form, Form] = {}
        self._seen_enough = (False, False)
        self._buffer = lines.LineBuffer()
        self._sources: list[Source] = []
        self._tail: lines.Tail | None = None
        self._lines_before = self._line = self._read_bytes = 0
        self._regions = dict.fromkeys(_MOST_REGIONS, 0)
        self._region: str | None = None
        self._region_left = self._foreign_lines = 0

    def feed(self, data: bytes) -> None:
        """Read some bytes; an incomplete last line waits for its rest."""
        if not self._sources:
            self._begin(Source.unnamed())
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
        """Read a whole file, to its end."""
        self._begin(source)
        for block in lines.blocks(source.path):
            self.feed(block)
        self.finish()

    def finish(self) -> None:
        """End the log: its incomplete last line counts, except for a number that may be cut."""
        if rest := self._buffer.rest():
            whole = rest[: rest.rfind(b"|") + 1] if HEAD.search(rest) else rest
            self._read(whole + b"\n")

    def result(self, last: bool = False) -> TrainingLog:
        """Return the log. With `last`, the reader is not used again, which halves the memory."""
        return self._tables.log(self._sources, self._lines_before + self._line, last)

    def _begin(self, source: Source) -> None:
        self._buffer = lines.LineBuffer()
        self._sources.append(source)
        self._tables.iterations.begin_file(len(self._sources) - 1)
        self._lines_before += self._line
        self._line = self._read_bytes = 0
        self._region = None

    def _read(self, block: bytes) -> None:
        """Read a block of whole lines."""
        self._look_for_less()
        texts, rows, kinds = block.split(b"\n"), self._tables.iterations, self._kinds
        texts.pop()
        for number, shape in enumerate(_shape(block).split(b"\n")[:-1]):
            kind = kinds[shape] if shape in kinds else self._kind_of(shape)
            if kind is None and not self._region:
                continue
            line = self._line + number + 1
            if kind is not None and kind.is_iteration:
                form = kind.form
                if form is None or not rows.read(form, texts[number], line):
                    self._iteration_line(kind, texts, number)
            if self._region or (kind is not None and (kind.needles or kind.short)):
                self._other_line(kind, texts, number)
        rows.flush()
        self._line += len(texts)
        self._read_bytes += len(block)

    def _look_for_less(self) -> None:
        """Stop looking for timers after enough reports, and for short words after a while."""
        timers = self._tables.timer_reports >= trainer_lines.MOST_TIMER_REPORTS
        short = self._read_bytes >= _SHORT_WORDS_BYTES and len(self._tables.iterations) > 0
        if (timers, short) != self._seen_enough:
            self._seen_enough = timers, short
            self._kinds.clear()

    def _kind_of(self, shape: bytes) -> Kind | None:
        timers, short = self._seen_enough
        is_iteration = any(word in shape for word in _ITERATION_SHAPES)
        whole = is_iteration and _UNTIMED in shape
        kind = Kind(
            is_iteration=is_iteration,
            needles=tuple(
                needle
                for needle, letters in _NEEDLE_SHAPES
                if letters in shape and not (timers and needle in trainer_lines.TIMER_NEEDLES)
            ),
            short=not (short or whole) and any(word in shape for word in _SHORT_SHAPES),
        )
        found = kind if kind.is_iteration or kind.needles or kind.short else None
        if len(shape) <= _LONGEST_SHAPE_BYTES:
            if len(self._kinds) >= _MOST_SHAPES:
                self._kinds.clear()
            self._kinds[shape] = found
        return found

    def _iteration_line(self, kind: Kind, texts: Sequence[bytes], number: int) -> None:
        """Read a line with an unknown form, or without a form."""
        text = texts[number]
        if any(needle in text for needle in iteration_lines.NEEDLES):
            for row in iteration_lines.rows_of(text, _following(texts, number)):
                self._tables.iterations.add(row, self._line + number + 1)
            if kind.form is None and len(self._forms) < _MOST_FORMS and (form := form_of(text)):
                kind.form = self._forms.setdefault(form, form)

    def _other_line(self, kind: Kind | None, texts: Sequence[bytes], number: int) -> None:
        handlers = self._handlers_of(kind, texts[number]) if kind is not None else []
        if not handlers and not self._region:
            return
        rows = self._tables.iterations
        place = Line(
            raw=texts[number],
            following=_following(texts, number),
            source=self._sources[-1],
            file=len(self._sources) - 1,
            line=self._line + number + 1,
            rows=rows,
        )
        self._follow_region(place)
        for handler in handlers:
            handler(self._tables, place.text, place)
        if handlers:
            self._begin_region(trainer_lines.region_begun(place.text))
        if _WORLD in place.raw:
            rows.begin_attempt()

    def _handlers_of(self, kind: Kind, text: bytes) -> list[Handler]:
        """Return each handler once, and only the first one for short words."""
        found = [_HANDLERS[needle] for needle in kind.needles if needle in text]
        if kind.short and (match := _SHORT.search(text)):
            found.append(trainer_lines.SHORT_HANDLERS[match[0]])
        return list(dict.fromkeys(found))

    def _begin_region(self, region: str | None) -> None:
        if region is not None and self._regions[region] < _MOST_REGIONS[region]:
            self._regions[region] += 1
            self._region, self._region_left = region, _REGION_LINES[region]
            self._foreign_lines = 0

    def _follow_region(self, place: Line) -> None:
        """Read a line of a table that spans lines."""
        if self._region is None:
            return
        own = trainer_lines.region_line(self._region, self._tables, place.text, place)
        self._foreign_lines = 0 if own else self._foreign_lines + 1
        self._region_left -= 1
        over = self._region_left <= 0 or trainer_lines.region_ended(self._region, place.text)
        if over or self._foreign_lines > _MOST_FOREIGN_LINES[self._region]:
            self._region = None


def _following(texts: Sequence[bytes], number: int) -> bytes:
    return texts[number + 1] if number + 1 < len(texts) else b""


def training_log(path: PathLike | Iterable[PathLike]) -> TrainingLog:
    """Read a log file, a run folder, or a folder of per-rank files as one run."""
    reader = TrainingReader()
    for source in files.sources(path):
        reader.read(source)
    return reader.result(last=True)
