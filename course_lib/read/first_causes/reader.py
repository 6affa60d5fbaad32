"""From the logs of a failed run: the first cause, who had it, what it means, what to try."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.read import files
from course_lib.read.files import PathLike
from course_lib.read.first_causes.advice.texts import SEVERAL_KILLED, TEXTS
from course_lib.read.first_causes.details import complete
from course_lib.read.first_causes.divergence import diverged, logged
from course_lib.read.first_causes.ordering import (
    BY_SCHEDULER,
    after_the_end,
    causes_first,
    without_survived,
)
from course_lib.read.first_causes.result import Failure
from course_lib.read.first_causes.rules.rule import REPORT, ROOT, WARNING
from course_lib.read.first_causes.scanner import FailureLine, Scanner, node_of, rank_of

if TYPE_CHECKING:
    import pandas as pd

MOST_CONSEQUENCES = 50
_OWN_LOSS = re.compile(r"[Ll]oss is nan|[Ll]oss is NaN|local forward loss|nan values in its")
_OF_THE_LAUNCHER = {"killed", "crashed", "process_failed"}


def scan(paths: PathLike | Iterable[PathLike]) -> Scanner:
    scanner = Scanner()
    for source in _sources(paths):
        scanner.read(source)
    return scanner


def _sources(paths: PathLike | Iterable[PathLike]) -> list[files.Source]:
    if isinstance(paths, str | os.PathLike):
        return files.sources(paths)
    given = [Path(path) for path in paths]
    return files.sources([path for path in given if path.exists()] or given)


def failure(paths: PathLike | Iterable[PathLike]) -> Failure | None:
    """The first cause in one log, a folder, or the logs of all ranks and nodes of one run.

    None where nothing failed as far as the logs tell.
    """
    scanner = scan(paths)
    ordered = causes_first(scanner)
    if scanner.finished:
        ordered = after_the_end(ordered)
    stopped = any(event.cause in BY_SCHEDULER and event.tier == ROOT for event in ordered)
    if stopped or not ordered or ordered[0].tier >= REPORT:
        log = logged(_sources(paths))
        ordered = without_survived(ordered, log) if stopped else ordered
        nothing_broke = not ordered or ordered[0].tier >= REPORT or ordered[0].cause in BY_SCHEDULER
        if nothing_broke and (found := diverged(log)):
            return replace(found, consequences=_consequences(ordered, scanner))
    if scanner.cut_off and (not ordered or ordered[0].tier >= REPORT):
        return replace(scanner.cut_off, consequences=_consequences(ordered, scanner))
    if not ordered or ordered[0].tier == WARNING:
        return None
    return _build(ordered, scanner)


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
        for event in causes_first(scanner)
    ]
    table = pd.DataFrame(rows, columns=["cause", "tier", "rank", "node", "text", "line", "file"])
    return table.astype({"rank": "Int64"})


def _build(ordered: list[FailureLine], scanner: Scanner) -> Failure:
    first = _own_loss(ordered) if ordered[0].cause == "nan_loss" else ordered[0]
    same = [event for event in ordered if event.cause == first.cause]
    if _is_own_loss(first):
        same = [event for event in same if _is_own_loss(event)]
    rank, ranks = _who(first, same, ordered, scanner)
    details = complete(first, same, scanner, rank)
    rest = [event for event in ordered if event.cause != first.cause]
    found = Failure.of(
        first.cause,
        rank=rank,
        ranks=tuple(sorted(ranks)),
        node=_node(first, rank, ordered, scanner),
        file=first.source.name,
        line=first.line,
        evidence=first.text,
        details=details,
        consequences=_consequences(rest, scanner),
    )
    if first.cause == "killed" and len(ranks) > 1:
        return replace(found, meaning=SEVERAL_KILLED, remedy=TEXTS["lost_rank"][2])
    return found


def _who(
    first: FailureLine, same: list[FailureLine], ordered: list[FailureLine], scanner: Scanner
) -> tuple[int | None, set[int]]:
    """The rank that is the cause, and all that found the same."""
    ranks = {rank for event in same if (rank := rank_of(event, scanner)) is not None}
    ranks |= {other for rank in ranks for other in scanner.alike.get(rank, ())}
    rank = rank_of(first, scanner)
    if rank is None and not scanner.tables.roots and first.cause not in BY_SCHEDULER:
        found = _by_srun(first, scanner)
        ranks |= set(found)
        rank = next(iter(found), None)
    if rank is None and (told := scanner.tables.first_rank(first.cause)) is not None:
        rank = told
        ranks.add(rank)
        if first.cause in _OF_THE_LAUNCHER:
            ranks |= scanner.tables.like(rank)
    if rank is None and first.cause in {"rendezvous_timeout", "crashed", "killed", "aborted"}:
        near = [event for event in ordered if _in_one_report(first, event)]
        rank = next((r for e in (*same, *near) if (r := rank_of(e, scanner)) is not None), None)
    if rank is None and first.cause == "collective_mismatch":  # gloo's own word, before it ends
        rank = next(
            (r for e in ordered if e.cause == "lost_rank" if (r := rank_of(e, scanner))), None
        )
    return rank, ranks


def _in_one_report(first: FailureLine, other: FailureLine) -> bool:
    """mpiexec tells in a frame who failed, and in the next line by which signal."""
    near = other.source == first.source and abs(other.line - first.line) < 3
    return near and other.cause == "process_failed"


def _own_loss(ordered: list[FailureLine]) -> FailureLine:
    """Once gradients are summed every rank has the NaN; a loss is a rank's own."""
    return next((event for event in ordered if _is_own_loss(event)), ordered[0])


def _is_own_loss(event: FailureLine) -> bool:
    said = event.cause == "nan_loss" and event.tier == ROOT
    return said and _OWN_LOSS.search(event.text) is not None


def _node(
    first: FailureLine, rank: int | None, all_events: list[FailureLine], scanner: Scanner
) -> str | None:
    """Of the rank; any line may tell where that is."""
    if (rank is None or rank == rank_of(first, scanner)) and (node := node_of(first, scanner)):
        return node
    told = (event for event in all_events if rank is not None and rank_of(event, scanner) == rank)
    found = next((node for event in told if (node := node_of(event, scanner))), None)
    if found is None and rank is not None and not scanner.launcher:
        found = scanner.nodes.get(rank)
    found = found or (None if rank is None else scanner.tables.hosts.get(rank))
    return found or (node_of(first, scanner) if rank_of(first, scanner) is None else None)


def _by_srun(first: FailureLine, scanner: Scanner) -> tuple[int, ...]:
    """Who failed first as srun saw it, where the line itself does not say."""
    follows = first.tier != ROOT and first.cause not in _OF_THE_LAUNCHER
    return () if scanner.launcher or follows else scanner.failed_tasks


def _consequences(events: list[FailureLine], scanner: Scanner) -> tuple[str, ...]:
    found = []
    for event in events[:MOST_CONSEQUENCES]:
        rank = rank_of(event, scanner)
        who = f"rank {rank}: " if rank is not None else ""
        found.append(f"line {event.line}: {who}{TEXTS[event.cause][0]}: {event.text[:200]}")
    return tuple(found)
