"""Scanner of a run's logs: it collects lines about a failure, and facts about their ranks.

Only lines with certain words are examined. A log may end early: a full disk, a killed node, a
damaged packed file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from course_lib.read import lines, prefix
from course_lib.read.files import Source
from course_lib.read.first_causes.causes import WORDS as LISTED_WORDS
from course_lib.read.first_causes.causes import Failure
from course_lib.read.first_causes.later_steps import LaterSteps, steps_of
from course_lib.read.first_causes.quoted_text import is_quoted
from course_lib.read.first_causes.rules import (
    REPORT,
    WARNED,
    Finding,
    classify,
    following,
    frame_before,
    moment,
)
from course_lib.read.first_causes.tracebacks import Traceback, tracebacks, unended
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
    rb"host +: (\S{1,100})\s{0,4}\n[^\n]{0,60}?rank +: (\d{1,7}) \(local_rank: (\d{1,5})\)"
    rb"[^\n]{0,60}\n[^\n]{0,200}?exitcode +: (-?\d{1,5})"
)
_ROOT_CAUSE = {
    "time": re.compile(rb"time +: (\S{1,40})"),
    "host": re.compile(rb"host +: (\S{1,100})"),
    "rank": re.compile(rb"rank +: (\d{1,7})"),
    "exitcode": re.compile(rb"exitcode +: (-?\d{1,5})"),
}
_SIGNALS = {"killed": (-9,), "crashed": (-11, -7, -8, -4)}
_TABLE_BYTES = 3000


@dataclass
class LauncherTables:
    """Tables of torchrun; `roots` has each table's root cause."""

    roots: list[dict[str, str]] = field(default_factory=list)
    exit_codes: dict[int, int] = field(default_factory=dict)
    hosts: dict[int, str] = field(default_factory=dict)

    @property
    def root(self) -> dict[str, str]:
        """Return the earliest root cause."""
        return min(self.roots, key=lambda root: root.get("time", "~"), default={})

    def first_rank(self, cause: str) -> int | None:
        """Return the root cause's rank; if "killed" or "crashed", the first rank with a signal."""
        signalled = _SIGNALS.get(cause, ())
        rank = self.root.get("rank", "")
        known = int(rank) if rank.isdecimal() else None
        if not signalled or known is None or self.exit_codes.get(known) in signalled:
            return known
        return next((r for r, code in self.exit_codes.items() if code in signalled), known)

    def like(self, rank: int) -> set[int]:
        """Return the ranks that ended in the same way."""
        code = self.exit_codes.get(rank)
        return {other for other, its in self.exit_codes.items() if its == code}

    def exit_code(self, rank: int | None) -> int | None:
        """Return the exit code of a rank, or of the root cause if no rank is known."""
        if rank is not None:
            return self.exit_codes.get(rank)
        code = self.root.get("exitcode")
        return None if code is None else int(code)

    def read(self, text: bytes, begin: int, end: int) -> None:
        """Read a table; `end` is the end of the line above the root cause, which comes last. The
        other rows are after `begin`."""
        for row in _ROW.finditer(text, begin, end + _TABLE_BYTES):
            rank, local_rank = int(row[2]), int(row[3])
            self.exit_codes[rank] = int(row[4])
            for other in range(max(0, rank - local_rank), rank + 1):
                self.hosts[other] = row[1].decode("utf-8", "replace")
        table = prefix.without_colours(text[end : end + _TABLE_BYTES])
        found = {name: pattern.search(table) for name, pattern in _ROOT_CAUSE.items()}
        root = {name: m[1].decode("utf-8", "replace") for name, m in found.items() if m}
        if root:
            self.roots.append(root)


def cut_off(source: Source, last: Window) -> Failure | None:
    """Return a failure for a log that ends within a traceback. It counts only if no other line
    reports a failure: the exception is lost, and often another rank has printed it."""
    found = unended(last.text)
    if found is None:
        return None
    start, who = found
    line, _, _ = last.text[start:].partition(b"\n")
    return Failure.of(
        "cut_off",
        rank=source.rank if who.rank is None else who.rank,
        ranks=(),
        node=who.node,
        file=source.name,
        line=last.line + last.text.count(b"\n", last.begin, start),
        evidence=prefix.without_colours(line).decode("utf-8", "replace").strip(),
    )


def unreadable(source: Source, line: int, error: OSError) -> Failure:
    """Return a failure for a file that is unreadable after `line`: the rest may matter."""
    return Failure.of(
        "not_readable",
        rank=source.rank,
        ranks=(),
        node=None,
        file=source.name,
        line=line,
        evidence=str(error),
    )


# Limit per cause, as a cascade of errors repeats itself.
MOST_EVENTS = 2000
_LONGEST_LINE_BYTES = 8000
_TASK = re.compile(rb"srun: error: ([\w.-]{1,100}): tasks? ([\d,-]{1,200}):")
_INTERFACE = re.compile(rb"NCCL_SOCKET_IFNAME set (?:by environment )?to (\S{1,60})")
# Any match of the pattern has one of these words; a search for the pattern takes 8 times as long.
_LAUNCHER_WORDS = (b"torchrun", b"torch.distributed", b"torch/distributed", b"[default")
_LAUNCHER = re.compile(
    rb"torchrun|torch[./]distributed[./](?:run|launch|launcher|elastic)\b|\[default"
)
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
    details: dict[str, str]
    moment: tuple[float, ...] | None = None
    ends_traceback: bool = False


@dataclass(frozen=True)
class _Line:
    """Line that may be about a failure; `traceback` is the traceback that it ends, if any."""

    source: Source
    window: Window
    span: tuple[int, int]
    number: int
    traceback: Traceback | None

    @cached_property
    def text(self) -> bytes:
        cut = min(self.span[1], self.span[0] + _LONGEST_LINE_BYTES)
        return prefix.without_colours(self.window.text[self.span[0] : cut]).rstrip()

    @cached_property
    def who(self) -> Prefix:
        return self.traceback.who if self.traceback else prefix.parse(self.text)

    def details(self, found: Finding) -> dict[str, str]:
        """Return the details in the line and in the lines around it."""
        known = found.details
        if place := _PLACE.search(self.text):
            speaker = {"rank": place[1].decode(), "node": place[2].decode()}
            known = known if "named_rank" in known else speaker | known
        if found.tier < REPORT:
            known = known | frame_before(self.window.text, self.span[0])
        if self.traceback and self.traceback.spawned is not None:
            known = known | {"process": str(self.traceback.spawned)}
        return known


@dataclass
class Scanner:
    """Facts about a run, collected from its files one by one.

    `failed_tasks` are the first failures that srun saw; if `launcher` is set, they are launchers,
    not ranks. `alike` has the ranks with the same error as the rank that reported it. `lost` is
    about the first log whose end is missing."""

    events: list[FailureLine] = field(default_factory=list)
    nodes: dict[int, str] = field(default_factory=dict)
    tables: LauncherTables = field(default_factory=LauncherTables)
    lines: Counter[str] = field(default_factory=Counter)
    steps: dict[str, LaterSteps] = field(default_factory=dict)
    alike: dict[int, tuple[int, ...]] = field(default_factory=dict)
    interfaces: list[str] = field(default_factory=list)
    failed_tasks: tuple[int, ...] = ()
    launcher: bool = False
    lost: Failure | None = None
    _seen: Counter[str] = field(default_factory=Counter)

    def read(self, source: Source) -> None:
        try:
            for window in windows(source):
                self._window(source, window)
            self.lost = self.lost or cut_off(source, window)
        except UnreadableError as error:
            self.lost = cut_off(source, window) or unreadable(
                source, self.lines[source.name], error
            )
        if any(event.source == source for event in self.events):
            self.steps[source.name] = steps_of(source)

    def _window(self, source: Source, window: Window) -> None:
        text, at, number = window.text, window.begin, window.line
        self.launcher = self.launcher or _tells_of_launcher(text)
        lines, ends = candidates(window)
        for start, end in lines:
            number += text.count(b"\n", at, start)
            at = start
            self._line(_Line(source, window, (start, end), number, ends.get(start)))
        self.lines[source.name] = number + text.count(b"\n", at, window.end)

    def _line(self, line: _Line) -> None:
        self._remember(line.text, line.window, line.span[1])
        ahead = following(line.window.text, line.span[1])
        traceback = line.traceback
        found = classify(line.text[line.who.length :], ahead, traceback is not None)
        if found is None or self._seen[found.cause] >= MOST_EVENTS:
            return
        if traceback.ignored if traceback else is_quoted(line.window.text, *line.span):
            return
        self._seen[found.cause] += 1
        warned = traceback is not None and traceback.warned
        self.events.append(
            FailureLine(
                cause=found.cause,
                tier=max(found.tier, WARNED) if warned else found.tier,
                who=line.who,
                source=line.source,
                line=line.number,
                text=found.text.strip().decode("utf-8", "replace")[:2000],
                details=line.details(found),
                moment=moment(line.window.text, line.span),
                ends_traceback=traceback is not None,
            )
        )

    def _remember(self, text: bytes, window: Window, end: int) -> None:
        """Remember facts about events in other lines: hosts of tasks, and torchrun's root cause."""
        if match := _TASK.search(text):
            tasks = tuple(_tasks(match[2]))
            for task in tasks:
                self.nodes.setdefault(task, match[1].decode())
            if not self.failed_tasks and not text.endswith(b"Terminated"):
                self.failed_tasks = tasks
        if b"Root Cause (first observed" in text:
            self.tables.read(window.text, max(0, end - BACK_BYTES), end)
        if match := _ALIKE.search(text):
            self.alike[int(match[2])] = tuple(int(rank) for rank in re.findall(rb"\d+", match[1]))
        if match := _INTERFACE.search(text):
            self.interfaces = [match[1].decode("utf-8", "replace")]


def _tells_of_launcher(text: bytes) -> bool:
    return any(word in text for word in _LAUNCHER_WORDS) and bool(_LAUNCHER.search(text))


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
    hosts = {*scanner.nodes.values(), *(root["host"] for root in scanner.tables.roots)}
    return hosts.pop() if len(hosts) == 1 else None
