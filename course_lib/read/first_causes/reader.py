"""From the logs of a failed run: the first cause, who had it, what it means, what to try."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.read import lines
from course_lib.read.first_causes.advice import TEXTS
from course_lib.read.first_causes.details import complete
from course_lib.read.first_causes.divergence import diverged
from course_lib.read.first_causes.rules.rule import REPORT, ROOT
from course_lib.read.first_causes.scanner import Event, Scanner
from course_lib.read.lines import PathLike

if TYPE_CHECKING:
    import pandas as pd

SURVIVED_AFTER = 3
"""So many more iterations in the same log mean that an error was not the end."""
MOST_CONSEQUENCES = 50
_BY_SCHEDULER = {"time_limit", "cancelled", "preempted", "node_failure"}
_OF_THE_LAUNCHER = {"killed", "crashed", "process_failed"}
_NEVER = (99.0,)


@dataclass(frozen=True)
class Failure:
    """`line` counts from 1 in `file`; `consequences` are other things that the logs report."""

    cause: str
    title: str
    rank: int | None
    ranks: tuple[int, ...]
    node: str | None
    meaning: str
    remedy: str
    file: str
    line: int
    evidence: str
    details: dict[str, Any] = field(default_factory=dict)
    consequences: tuple[str, ...] = ()

    def __str__(self) -> str:
        who = f" on rank {self.rank}" if self.rank is not None else ""
        who += f" ({self.node})" if self.node else ""
        others = [rank for rank in self.ranks if rank != self.rank]
        also = f"\n  The same on ranks {_short(others)}." if others else ""
        return (
            f"{self.title[:1].upper()}{self.title[1:]}{who}.\n"
            f"  {self.file}, line {self.line}: {self.evidence[:300]}{also}\n"
            f"  {self.meaning}\n  Try: {self.remedy}"
        )


def _short(ranks: Sequence[int]) -> str:
    text = ", ".join(map(str, ranks[:12]))
    return f"{text} and {len(ranks) - 12} more" if len(ranks) > 12 else text


def scan(paths: PathLike | Iterable[PathLike]) -> Scanner:
    scanner = Scanner()
    for source in _sources(paths):
        scanner.read(source)
    return scanner


def _sources(paths: PathLike | Iterable[PathLike]) -> list[lines.Source]:
    if isinstance(paths, str | os.PathLike):
        return lines.sources(paths)
    given = [Path(path) for path in paths]
    return lines.sources([path for path in given if path.exists()] or given)


def failure(paths: PathLike | Iterable[PathLike]) -> Failure | None:
    """The first cause in one log, a folder, or the logs of all ranks and nodes of one run.

    None where nothing failed as far as the logs tell.
    """
    scanner = scan(paths)
    ordered = causal(scanner)
    if ordered and ordered[0].tier == ROOT:
        return _build(ordered, scanner)
    if scanner.finished:
        ordered = [event for event in ordered if event.cause in _BY_SCHEDULER]
    if ordered and ordered[0].tier < REPORT:
        return _build(ordered, scanner)
    return diverged(_sources(paths)) or (_build(ordered, scanner) if ordered else None)


def failures(paths: PathLike | Iterable[PathLike]) -> pd.DataFrame:
    """All that the logs report, the likely first cause first."""
    import pandas as pd

    scanner = scan(paths)
    rows = [
        {
            "cause": event.cause,
            "tier": event.tier,
            "rank": rank_of(event, scanner),
            "node": node_of(event, scanner),
            "text": event.text,
            "line": event.line,
            "file": event.source.name,
        }
        for event in causal(scanner)
    ]
    table = pd.DataFrame(rows, columns=["cause", "tier", "rank", "node", "text", "line", "file"])
    return table.astype({"rank": "Int64"})


def causal(scanner: Scanner) -> list[Event]:
    """Causes before consequences; then by time where several files must be compared.

    What the run survived is left out.
    """
    lasting = [
        event
        for event in scanner.events
        if scanner.iterations[event.source.name] - event.iterations < SURVIVED_AFTER
    ]
    timed = len({event.source.name for event in lasting}) > 1
    waited = next((event for event in lasting if event.cause == "collective_timeout"), None)
    if timed and waited is not None:
        timeouts = [event for event in lasting if event.cause == "collective_timeout"]
        waited = min(timeouts, key=lambda event: event.moment or _NEVER)
    lasting = _without_bare_cancels(lasting)
    keyed = [
        (tier_of(event, waited), (event.moment or _NEVER) if timed else (), number, event)
        for number, event in enumerate(lasting)
    ]
    return [replace(event, tier=tier) for tier, _, _, event in sorted(keyed, key=lambda k: k[:3])]


def _without_bare_cancels(events: list[Event]) -> list[Event]:
    """Slurm's bare word of a cancelled step follows when a task has failed, or goes before the
    word with the reason: then it is a report only."""
    explained = any(event.cause in _BY_SCHEDULER - {"cancelled"} for event in events)
    failed: dict[str, int] = {}
    for event in events:
        if "task" in event.details:
            failed.setdefault(event.source.name, event.line)
    return [
        replace(event, tier=REPORT)
        if event.cause == "cancelled"
        and (explained or failed.get(event.source.name, event.line) < event.line)
        else event
        for event in events
    ]


def tier_of(event: Event, waited: Event | None) -> int:
    """What comes after ranks waited in vain for minutes cannot be why they waited."""
    if waited is None or event.tier >= REPORT or event.cause == "collective_timeout":
        return event.tier
    if event.source == waited.source:
        late = event.line > waited.line
    else:
        known = event.moment and waited.moment
        late = bool(known and event.moment > waited.moment)  # type: ignore[operator]
    return REPORT if late else event.tier


def rank_of(event: Event, scanner: Scanner) -> int | None:
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


def node_of(event: Event, scanner: Scanner) -> str | None:
    if node := event.who.node or event.details.get("node"):
        return node
    rank = rank_of(event, scanner)
    for task in (event.who.task, rank):
        if task is not None and task in scanner.nodes:
            return scanner.nodes[task]
    hosts = {*scanner.nodes.values(), *([scanner.root["host"]] if "host" in scanner.root else [])}
    return hosts.pop() if len(hosts) == 1 else None


def _build(ordered: list[Event], scanner: Scanner) -> Failure:
    first = ordered[0]
    same = [event for event in ordered if event.cause == first.cause]
    ranks = {rank for event in same if (rank := rank_of(event, scanner)) is not None}
    rank = rank_of(first, scanner)
    if rank is None and not scanner.root and first.cause not in _BY_SCHEDULER:
        found = _by_srun(first, scanner)
        ranks |= set(found)
        rank = next(iter(found), None)
    if rank is None and scanner.root.get("rank", "").isdecimal():
        rank = int(scanner.root["rank"])
        ranks.add(rank)
        if first.cause in _OF_THE_LAUNCHER:
            code = scanner.exit_codes.get(rank)
            ranks |= {other for other, its in scanner.exit_codes.items() if its == code}
    title, meaning, remedy = TEXTS[first.cause]
    rest = [event for event in ordered if event.cause != first.cause]
    return Failure(
        cause=first.cause,
        title=title,
        rank=rank,
        ranks=tuple(sorted(ranks)),
        node=node_of(first, scanner),
        meaning=meaning,
        remedy=remedy,
        file=first.source.name,
        line=first.line,
        evidence=first.text,
        details=complete(first, same, scanner),
        consequences=tuple(_consequence(event, scanner) for event in rest[:MOST_CONSEQUENCES]),
    )


def _by_srun(first: Event, scanner: Scanner) -> tuple[int, ...]:
    """Who failed first as srun saw it, where the line itself does not say."""
    follows = first.tier != ROOT and first.cause not in _OF_THE_LAUNCHER
    return () if scanner.launcher or follows else scanner.failed_tasks


def _consequence(event: Event, scanner: Scanner) -> str:
    rank = rank_of(event, scanner)
    who = f"rank {rank}: " if rank is not None else ""
    return f"line {event.line}: {who}{TEXTS[event.cause][0]}: {event.text[:200]}"
