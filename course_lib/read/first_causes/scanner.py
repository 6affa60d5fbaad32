"""Goes through the logs of a run and collects what they say about a failure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from course_lib.read import prefix
from course_lib.read.files import Source
from course_lib.read.first_causes.candidate_lines import (
    BACK_BYTES,
    Window,
    candidates,
    windows,
)
from course_lib.read.first_causes.cut_off import cut_off
from course_lib.read.first_causes.later_steps import LaterSteps, steps_of
from course_lib.read.first_causes.launcher_tables import LauncherTables
from course_lib.read.first_causes.line_findings import (
    Finding,
    classify,
    following,
    frame_before,
    moment,
)
from course_lib.read.first_causes.result import Failure
from course_lib.read.first_causes.rules.rule import REPORT, WARNING
from course_lib.read.first_causes.tracebacks import Harm, Traceback
from course_lib.read.prefix import Prefix
from course_lib.read.training_logs.iteration_lines.names_and_values import HEAD

ITERATION = b"elapsed time per iteration"
MOST_EVENTS = 2000
"""For each cause: a cascade repeats itself."""
_LONGEST_LINE_BYTES = 8000
_TASK = re.compile(rb"srun: error: ([\w.-]{1,100}): tasks? ([\d,-]{1,200}):")
_INTERFACE = re.compile(rb"NCCL_SOCKET_IFNAME set (?:by environment )?to (\S{1,60})")
_LAUNCHER_WORDS = (b"torchrun", b"torch.distributed", b"torch/distributed", b"[default")
"""One of them is in all that the pattern finds, which takes eight times as long to search for."""
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
    """One line that tells of a failure. `moment` orders lines of different files; `iterations`
    counts the iteration lines before it; `begin` is the first line of the traceback that it ends.
    `last_tier`: the tier if nothing but the end of the run came afterwards."""

    cause: str
    tier: int
    who: Prefix
    source: Source
    line: int
    text: str
    details: dict[str, str]
    moment: tuple[float, ...] | None = None
    iterations: int = 0
    ends_traceback: bool = False
    last_tier: int = WARNING
    begin: int = 0


@dataclass(frozen=True)
class _Line:
    """A line that may tell of a failure; `traceback` is the one that it ends, if any."""

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

    @property
    def begin(self) -> int:
        """The number of the line in which it begins to tell of the failure."""
        if self.traceback is None:
            return self.number
        return self.number - self.window.text.count(b"\n", self.traceback.begin, self.span[0])

    def details(self, found: Finding) -> dict[str, str]:
        """What the line says, and what stands around it."""
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
    """What is known of a run after its files were read one by one.

    `failed_tasks` are those that srun saw fail first; with a `launcher` they count launchers, not
    ranks. `alike` are the ranks that found the same as the rank that told of it. `cut_off` tells of
    the first log that ends within a traceback.
    """

    events: list[FailureLine] = field(default_factory=list)
    iterations: Counter[str] = field(default_factory=Counter)
    nodes: dict[int, str] = field(default_factory=dict)
    tables: LauncherTables = field(default_factory=LauncherTables)
    lines: Counter[str] = field(default_factory=Counter)
    steps: dict[str, LaterSteps] = field(default_factory=dict)
    alike: dict[int, tuple[int, ...]] = field(default_factory=dict)
    interfaces: list[str] = field(default_factory=list)
    failed_tasks: tuple[int, ...] = ()
    launcher: bool = False
    finished: bool = False
    cut_off: Failure | None = None
    _seen: Counter[str] = field(default_factory=Counter)

    def read(self, source: Source) -> None:
        for window in windows(source):
            self._window(source, window)
        self.cut_off = self.cut_off or cut_off(source, window)
        told = any(event.source == source for event in self.events)
        if told and not self.iterations[source.name]:
            self.steps[source.name] = steps_of(source)

    def steps_after(self, event: FailureLine) -> int:
        """How many more iterations the same log tells of, whatever program made them."""
        if steps := self.steps.get(event.source.name):
            return steps.after(event.line)
        return self.iterations[event.source.name] - event.iterations

    def _window(self, source: Source, window: Window) -> None:
        text, at, number = window.text, window.begin, window.line
        self.launcher = self.launcher or _tells_of_launcher(text)
        lines, ends = candidates(window)
        for start, end in lines:
            self.iterations[source.name] += text.count(ITERATION, at, start)
            number += text.count(b"\n", at, start)
            at = start
            self._line(_Line(source, window, (start, end), number, ends.get(start)))
        self.iterations[source.name] += text.count(ITERATION, at, window.end)
        self.lines[source.name] = number + text.count(b"\n", at, window.end)
        last = text.rfind(ITERATION, window.begin, window.end)
        heads = list(HEAD.finditer(text, max(window.begin, last - 300), last)) if last >= 0 else []
        if heads:
            self.finished = int(heads[-1][1]) >= int(heads[-1][2])

    def _line(self, line: _Line) -> None:
        self._remember(line.text, line.window, line.span[1])
        ahead = following(line.window.text, line.span[1])
        found = classify(line.text[line.who.length :], ahead, line.traceback is not None)
        if found is None or self._seen[found.cause] >= MOST_EVENTS:
            return
        self._seen[found.cause] += 1
        harm = line.traceback.harm if line.traceback else Harm.UNKNOWN
        self.events.append(
            FailureLine(
                cause=found.cause,
                tier=found.tier if harm is Harm.UNKNOWN else WARNING,
                who=line.who,
                source=line.source,
                line=line.number,
                text=found.text.strip().decode("utf-8", "replace")[:2000],
                details=line.details(found),
                moment=moment(line.window.text, line.span),
                iterations=self.iterations[line.source.name],
                ends_traceback=line.traceback is not None,
                last_tier=WARNING if harm is Harm.NONE else found.last_tier,
                begin=line.begin,
            )
        )

    def _remember(self, text: bytes, window: Window, end: int) -> None:
        """Facts that complete an event found elsewhere: hosts of tasks, torchrun's root cause."""
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
    """`4,6-8` gives 4 6 7 8, within reason."""
    for part in text.split(b","):
        first, _, last = part[:20].partition(b"-")
        if first.isdigit():
            stop = int(last) if last.isdigit() else int(first)
            yield from range(int(first), min(stop, int(first) + 5000) + 1)


def tasks_of(event: FailureLine) -> tuple[int, ...]:
    """Those that srun names in a line."""
    return tuple(_tasks(event.details.get("task", "").encode()))


def rank_of(event: FailureLine, scanner: Scanner) -> int | None:
    """`named_rank`: of whom the line tells, where somebody else says it."""
    if event.details.get("named_rank", "").isdecimal():
        return int(event.details["named_rank"])
    if event.who.rank is not None:
        return event.who.rank
    for name in ("rank", "rank2", "group_rank", *(() if scanner.launcher else ("task",))):
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
