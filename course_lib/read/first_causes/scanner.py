"""Goes through the logs of a run and collects what they say about a failure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from course_lib.read import prefix
from course_lib.read.files import Source
from course_lib.read.first_causes.candidate_lines import BACK_BYTES, Window, candidates, windows
from course_lib.read.first_causes.line_findings import classify, following, frame_before, moment
from course_lib.read.first_causes.rules.rule import REPORT, WARNING
from course_lib.read.prefix import Prefix
from course_lib.read.training_logs.iteration_lines.names_and_values import HEAD

ITERATION = b"elapsed time per iteration"
MOST_EVENTS = 2000
"""For each cause: a cascade repeats itself."""
_LONGEST_LINE_BYTES = 8000
_TASK = re.compile(rb"srun: error: ([\w.-]{1,100}): tasks? ([\d,-]{1,200}):")
_INTERFACE = re.compile(rb"NCCL_SOCKET_IFNAME set (?:by environment )?to (\S{1,60})")
_LAUNCHER = re.compile(
    rb"torchrun|torch[./]distributed[./](?:run|launch|launcher|elastic)\b|\[default"
)
_ALIKE = re.compile(
    rb"note: ranks? (\d{1,7}(?:(?:, | and )\d{1,7}\b(?! more))*)(?: and \d{1,7} more)? "
    rb"found the same \(rank (\d{1,7}) on "
)
_PLACE = re.compile(rb"\(rank (\d{1,7}) on ([\w.-]{1,100})\)$")
_TABLE_ROW = re.compile(rb"rank +: (\d{1,7}) [^\n]{0,60}\n[^\n]{0,200}?exitcode +: (-?\d{1,5})")
_ROOT_CAUSE = {
    "host": re.compile(rb"host +: (\S{1,100})"),
    "rank": re.compile(rb"rank +: (\d{1,7})"),
    "exitcode": re.compile(rb"exitcode +: (-?\d{1,5})"),
}


@dataclass(frozen=True)
class FailureLine:
    """One line that tells of a failure. `moment` orders lines of different files; `iterations`
    counts the iteration lines before it."""

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


@dataclass
class Scanner:
    """What is known of a run after its files were read one by one.

    `failed_tasks` are those that srun saw fail first; with a `launcher` they count launchers, not
    ranks. `alike` are the ranks that found the same as the rank that told of it.
    """

    events: list[FailureLine] = field(default_factory=list)
    iterations: Counter[str] = field(default_factory=Counter)
    nodes: dict[int, str] = field(default_factory=dict)
    root: dict[str, str] = field(default_factory=dict)
    exit_codes: dict[int, int] = field(default_factory=dict)
    alike: dict[int, tuple[int, ...]] = field(default_factory=dict)
    interfaces: list[str] = field(default_factory=list)
    failed_tasks: tuple[int, ...] = ()
    launcher: bool = False
    finished: bool = False
    _seen: Counter[str] = field(default_factory=Counter)

    def read(self, source: Source) -> None:
        for window in windows(source):
            self._window(source, window)

    def _window(self, source: Source, window: Window) -> None:
        text, at, number = window.text, window.begin, window.line
        self.launcher = self.launcher or bool(_LAUNCHER.search(text))
        lines, ends = candidates(window)
        for start, end in lines:
            self.iterations[source.name] += text.count(ITERATION, at, start)
            number += text.count(b"\n", at, start)
            at = start
            self._line(source, window, (start, end), number, ends.get(start))
        self.iterations[source.name] += text.count(ITERATION, at, window.end)
        last = text.rfind(ITERATION, window.begin, window.end)
        heads = list(HEAD.finditer(text, max(window.begin, last - 300), last)) if last >= 0 else []
        if heads:
            self.finished = int(heads[-1][1]) >= int(heads[-1][2])

    def _line(
        self,
        source: Source,
        window: Window,
        span: tuple[int, int],
        number: int,
        warned: bool | None,
    ) -> None:
        """`warned`: of the traceback that the line ends, if it ends one."""
        cut = min(span[1], span[0] + _LONGEST_LINE_BYTES)
        text = prefix.without_colours(window.text[span[0] : cut]).rstrip()
        who = prefix.parse(text)
        self._remember(text, window, span[1])
        found = classify(text[who.length :], following(window.text, span[1]), warned is not None)
        if found is None or self._seen[found.cause] >= MOST_EVENTS:
            return
        self._seen[found.cause] += 1
        details = found.details
        if place := _PLACE.search(text):
            speaker = {"rank": place[1].decode(), "node": place[2].decode()}
            details = details if "named_rank" in details else speaker | details
        if found.tier < REPORT:
            details = details | frame_before(window.text, span[0])
        self.events.append(
            FailureLine(
                cause=found.cause,
                tier=WARNING if warned else found.tier,
                who=who,
                source=source,
                line=number,
                text=found.text.strip().decode("utf-8", "replace")[:2000],
                details=details,
                moment=moment(window.text, span),
                iterations=self.iterations[source.name],
                ends_traceback=warned is not None,
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
        if b"Root Cause (first observed" in text and not self.root:
            self._table(window.text, end)
        if match := _ALIKE.search(text):
            self.alike[int(match[2])] = tuple(int(rank) for rank in re.findall(rb"\d+", match[1]))
        if match := _INTERFACE.search(text):
            self.interfaces = [match[1].decode("utf-8", "replace")]

    def _table(self, text: bytes, end: int) -> None:
        """The table that torchrun prints at the end: every rank's exit code, the first one last."""
        for row in _TABLE_ROW.finditer(text, max(0, end - BACK_BYTES), end + 3000):
            self.exit_codes[int(row[1])] = int(row[2])
        table = prefix.without_colours(text[end : end + 3000])
        for name, pattern in _ROOT_CAUSE.items():
            if match := pattern.search(table):
                self.root[name] = match[1].decode("utf-8", "replace")


def _tasks(text: bytes) -> Iterator[int]:
    """`4,6-8` gives 4 6 7 8, within reason."""
    for part in text.split(b","):
        first, _, last = part[:20].partition(b"-")
        if first.isdigit():
            stop = int(last) if last.isdigit() else int(first)
            yield from range(int(first), min(stop, int(first) + 5000) + 1)


def rank_of(event: FailureLine, scanner: Scanner) -> int | None:
    """`named_rank`: of whom the line tells, where somebody else says it."""
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
    return None


def node_of(event: FailureLine, scanner: Scanner) -> str | None:
    if node := event.who.node or event.details.get("node"):
        return node
    rank = rank_of(event, scanner)
    for task in (event.who.task, rank):
        if task is not None and task in scanner.nodes:
            return scanner.nodes[task]
    hosts = {*scanner.nodes.values(), *([scanner.root["host"]] if "host" in scanner.root else [])}
    return hosts.pop() if len(hosts) == 1 else None
