"""Scanner of a run's logs: it collects lines about a failure, and facts about their ranks.

Only lines with certain words are examined. A log may end early: a full disk, a killed node, a
damaged packed file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from course_lib.read import lines, prefix
from course_lib.read.files import Source
from course_lib.read.first_causes.causes import WORDS as LISTED_WORDS
from course_lib.read.first_causes.later_steps import LaterSteps, steps_of
from course_lib.read.first_causes.quoted_text import is_quoted
from course_lib.read.first_causes.rules import (
    WARNED,
    Finding,
    classify,
    following,
    moment,
)
from course_lib.read.first_causes.tracebacks import Traceback, tracebacks
from course_lib.read.lines import UnreadableError
from course_lib.read.prefix import Prefix

# Words of interest; lines without any are skipped.
WORDS = tuple(word.encode() for word in LISTED_WORDS)
BACK_BYTES = 64 << 10
AHEAD_BYTES = 16 << 10


@dataclass(frozen=True)
class Window:
    """Bytes around the lines from `begin` to `end`: some before, to look back, and after."""

    text: bytes
    begin: int
    end: int
    line: int


def windows(source: Source) -> Iterator[Window]:
    text, begin, line = b"", 0, 1
    for block in _then_nothing(lines.all_blocks(source.path)):
        text += block
        end = len(text)
        if block:
            end = max(begin, text.rfind(b"\n", begin, max(begin, end - AHEAD_BYTES)) + 1)
        yield Window(text, begin, end, line)
        line += text.count(b"\n", begin, end)
        cut = max(0, end - BACK_BYTES)
        text, begin = text[cut:], end - cut


def _then_nothing(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the blocks, and an empty block at the end, even before an error."""
    try:
        yield from blocks
    except UnreadableError:
        yield b""
        raise
    yield b""


def candidates(window: Window) -> tuple[list[tuple[int, int]], dict[int, Traceback]]:
    """Return (start, end) of lines with a word of interest, and tracebacks that end here by the
    start of their last line."""
    text = window.text
    found: dict[int, int] = {}
    for word in WORDS:
        at = text.find(word, window.begin, window.end)
        while at >= 0:
            start = max(text.rfind(b"\n", window.begin, at) + 1, window.begin)
            end = text.find(b"\n", at, window.end)
            found[start] = end = window.end if end < 0 else end
            at = text.find(word, end, window.end)
    ended = {
        one.start: one
        for one in tracebacks(text, max(0, window.begin - AHEAD_BYTES), window.end)
        if window.begin <= one.start < window.end
    }
    found |= {start: one.end for start, one in ended.items()}
    return sorted(found.items()), ended


_ROW = re.compile(
    rb"(?:time +: (\S{1,40})\s{0,4}\n[^\n]{0,60}?)?host +: (\S{1,100})\s{0,4}\n"
    rb"[^\n]{0,60}?rank +: (\d{1,7}) \(local_rank: (\d{1,5})\)"
    rb"[^\n]{0,60}\n[^\n]{0,200}?exitcode +: (-?\d{1,5})"
)
_SIGNALS = {"killed": (-9,), "crashed": (-11, -7, -8, -4)}
_TABLE_BYTES = 3000


@dataclass
class LauncherTables:
    """Tables of torchrun; `roots` has time and rank of each table's root cause."""

    roots: list[tuple[str, int]] = field(default_factory=list)
    exit_codes: dict[int, int] = field(default_factory=dict)
    hosts: dict[int, str] = field(default_factory=dict)

    def first_rank(self, cause: str) -> int | None:
        """Return the rank of the earliest root cause; if "killed" or "crashed", the first rank with
        a signal."""
        signalled = _SIGNALS.get(cause, ())
        known = min(self.roots)[1] if self.roots else None
        if not signalled or known is None or self.exit_codes[known] in signalled:
            return known
        return next((r for r, code in self.exit_codes.items() if code in signalled), known)

    def like(self, rank: int) -> set[int]:
        """Return the ranks that ended in the same way."""
        code = self.exit_codes.get(rank)
        return {other for other, its in self.exit_codes.items() if its == code}

    def read(self, text: bytes, begin: int, end: int) -> None:
        """Read a table; `end` is the end of the line above the root cause, which comes last. The
        other rows are after `begin`."""
        found = False
        for row in _ROW.finditer(text, begin, end + _TABLE_BYTES):
            rank, local_rank = int(row[3]), int(row[4])
            self.exit_codes[rank] = int(row[5])
            for other in range(max(0, rank - local_rank), rank + 1):
                self.hosts[other] = row[2].decode("utf-8", "replace")
            if row.start() >= end and not found:
                found = True
                self.roots.append(((row[1] or b"~").decode("utf-8", "replace"), rank))


# Limit per cause, as a cascade of errors repeats itself.
MOST_EVENTS = 2000
_LONGEST_LINE_BYTES = 8000
_TASK = re.compile(rb"srun: error: ([\w.-]{1,100}): tasks? ([\d,-]{1,200}):")
_LAUNCHER = (
    b"torchrun", b"[default", b"distributed.run", b"distributed/run", b"distributed.launch",
    b"distributed/launch", b"distributed.elastic", b"distributed/elastic",
)  # fmt: skip
_ALIKE = re.compile(
    rb"note: ranks? (\d{1,7}(?:(?:, | and )\d{1,7}\b(?! more))*)(?: and \d{1,7} more)? "
    rb"found the same \(rank (\d{1,7}) on "
)
_PLACE = re.compile(rb"\(rank (\d{1,7}) on ([\w.-]{1,100})\)$")


@dataclass(frozen=True)
class FailureLine:
    """Line about a failure; `moment` orders lines of different files."""

    cause: str
    tier: int
    who: Prefix
    source: Source
    line: int
    text: str
    details: dict[str, str] = field(default_factory=dict)
    moment: tuple[float, ...] | None = None
    ends_traceback: bool = False


@dataclass
class Scanner:
    """Facts about a run, collected from its files one by one.

    `failed_tasks` are the first failures that srun saw; if `launcher` is set, they are launchers,
    not ranks. `alike` has the ranks with the same error as the rank that reported it."""

    events: list[FailureLine] = field(default_factory=list)
    nodes: dict[int, str] = field(default_factory=dict)
    tables: LauncherTables = field(default_factory=LauncherTables)
    lines: Counter[str] = field(default_factory=Counter)
    steps: dict[str, LaterSteps] = field(default_factory=dict)
    alike: dict[int, tuple[int, ...]] = field(default_factory=dict)
    failed_tasks: tuple[int, ...] = ()
    launcher: bool = False
    _seen: Counter[str] = field(default_factory=Counter)

    def read(self, source: Source) -> None:
        try:
            for window in windows(source):
                self._window(source, window)
        except UnreadableError as error:
            line, text = self.lines[source.name], str(error)
            # As after a traceback, nothing can follow that would show that it did no harm.
            self.events.append(
                FailureLine(
                    "not_readable", WARNED, Prefix(), source, line, text, ends_traceback=True
                )
            )
        if any(event.source == source for event in self.events):
            self.steps[source.name] = steps_of(source)

    def _window(self, source: Source, window: Window) -> None:
        text, at, number = window.text, window.begin, window.line
        self.launcher = self.launcher or any(word in text for word in _LAUNCHER)
        lines, tracebacks_at = candidates(window)
        for start, end in lines:
            number += text.count(b"\n", at, start)
            at = start
            self._line(source, number, text, (start, end), tracebacks_at.get(start))
        self.lines[source.name] = number + text.count(b"\n", at, window.end)

    def _line(
        self,
        source: Source,
        number: int,
        text: bytes,
        span: tuple[int, int],
        traceback: Traceback | None,
    ) -> None:
        """Add a line about a failure; `traceback` is the traceback that it ends, if any."""
        start, end = span
        line = text[start : min(end, start + _LONGEST_LINE_BYTES)]
        line = prefix.without_colours(line).rstrip()
        self._remember(line, text, end)
        who = traceback.who if traceback else prefix.parse(line)
        if traceback and traceback.cut:
            found: Finding | None = Finding("cut_off", WARNED, {}, line[who.length :])
        else:
            found = classify(line[who.length :], following(text, end), traceback is not None)
        if found is None or self._seen[found.cause] >= MOST_EVENTS:
            return
        if traceback.ignored if traceback else is_quoted(text, start, end):
            return
        self._seen[found.cause] += 1
        warned = traceback is not None and traceback.warned
        details = found.details
        if place := _PLACE.search(line):
            speaker = {"rank": place[1].decode(), "node": place[2].decode()}
            details = details if "named_rank" in details else speaker | details
        if traceback and traceback.spawned is not None:
            details = details | {"process": str(traceback.spawned)}
        self.events.append(
            FailureLine(
                cause=found.cause,
                tier=max(found.tier, WARNED) if warned else found.tier,
                who=who,
                source=source,
                line=number,
                text=found.text.strip().decode("utf-8", "replace")[:2000],
                details=details,
                moment=moment(text, span),
                ends_traceback=traceback is not None,
            )
        )

    def _remember(self, line: bytes, text: bytes, end: int) -> None:
        """Remember facts about events in other lines: hosts of tasks, and torchrun's root cause."""
        if match := _TASK.search(line):
            tasks = tuple(_tasks(match[2]))
            for task in tasks:
                self.nodes.setdefault(task, match[1].decode())
            if not self.failed_tasks and not line.endswith(b"Terminated"):
                self.failed_tasks = tasks
        if b"Root Cause (first observed" in line:
            self.tables.read(text, max(0, end - BACK_BYTES), end)
        if match := _ALIKE.search(line):
            self.alike[int(match[2])] = tuple(int(rank) for rank in re.findall(rb"\d+", match[1]))


def _tasks(text: bytes) -> Iterator[int]:
    """Yield 4 6 7 8 for `4,6-8`, up to a limit."""
    for part in text.split(b","):
        first, _, last = part[:20].partition(b"-")
        if first.isdigit():
            stop = int(last) if last.isdigit() else int(first)
            yield from range(int(first), min(stop, int(first) + 5000) + 1)


def rank_of(event: FailureLine, scanner: Scanner) -> int | None:
    """Return an event's rank: `named_rank`, if another process prints the line about it."""
    if event.details.get("named_rank", "").isdecimal():
        return int(event.details["named_rank"])
    if event.who.rank is not None:
        return event.who.rank
    for name in ("rank", "group_rank", *(() if scanner.launcher else ("task",))):
        if event.details.get(name, "").isdecimal():
            return int(event.details[name])
    if event.source.rank is not None:
        return event.source.rank
    if event.who.task is not None and event.who.local_rank is None:
        return event.who.task
    return int(event.details["process"]) if "process" in event.details else None


def node_of(event: FailureLine, scanner: Scanner) -> str | None:
    speaker = Prefix() if "named_rank" in event.details else event.who
    if node := speaker.node or event.details.get("node"):
        return node
    rank = rank_of(event, scanner)
    for task in (speaker.task, None if scanner.launcher else rank):
        if task is not None and task in scanner.nodes:
            return scanner.nodes[task]
    if rank is not None:
        return scanner.tables.hosts.get(rank)
    roots = (scanner.tables.hosts[rank] for _, rank in scanner.tables.roots)
    hosts = {*scanner.nodes.values(), *roots}
    return hosts.pop() if len(hosts) == 1 else None
