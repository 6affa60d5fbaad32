"""`read.failure`: the first cause in the logs of a run, its ranks and its details."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from course_lib.read import files
from course_lib.read.files import PathLike
from course_lib.read.first_causes.causes import TEXTS, Failure
from course_lib.read.first_causes.divergence import diverged
from course_lib.read.first_causes.ordering import BY_SCHEDULER, causes_first
from course_lib.read.first_causes.rules import ROOT, WARNED, WARNING
from course_lib.read.first_causes.scanner import FailureLine, Scanner, node_of, rank_of
from course_lib.read.messages import _

if TYPE_CHECKING:
    import pandas as pd


_FINGERPRINT = {
    "sequence": re.compile(r"SequenceNumber=(\d{1,18})"),
    "op": re.compile(r"OpType=([A-Z_]+)"),
    "shape": re.compile(r"TensorShape=\[([\d, ]{0,200})\]"),
}
_INTEGER = re.compile(r"-?\d{1,18}")
_INTERNAL = {"mine", "theirs", "rank", "process"}


def _details(first: FailureLine, same: list[FailureLine]) -> dict[str, Any]:
    """Return the named parts of the line; of a mismatch, both calls and the rank that differs."""
    found: dict[str, Any] = {
        name: int(value) if _INTEGER.fullmatch(value) else value
        for name, value in first.details.items()
        if name not in _INTERNAL
    }
    for side, text in (("", "mine"), ("other_", "theirs")):
        for name, pattern in _FINGERPRINT.items():
            if match := pattern.search(first.details.get(text, "")):
                found[side + name] = _value(name, match[1])
    return found | _differing_rank(same)


def _value(name: str, text: str) -> Any:
    if name == "shape":
        return tuple(int(part) for part in text.replace(" ", "").split(",") if part)
    return int(text) if text.isdecimal() else text


def _differing_rank(same: list[FailureLine]) -> dict[str, int]:
    """Return the rank that differs. Each rank names the first rank, counted from 0, that differs
    from it. The ranks before it are equal. Two equal ranks outvote one."""
    for event in same:
        mine, other = event.details.get("rank", ""), event.details.get("other_rank", "")
        if "theirs" in event.details and mine.isdecimal() and other.isdecimal():
            alike = {int(mine), *range(min(int(other), 5000))}
            if len(alike) > 1:
                return {"odd_rank": int(other)}
    return {}


MOST_CONSEQUENCES = 50
_OWN_LOSS = re.compile(r"[Ll]oss is nan|[Ll]oss is NaN|local forward loss|nan values in its")
_OF_THE_LAUNCHER = {"killed", "crashed", "process_failed"}


def scan(paths: PathLike | Iterable[PathLike]) -> Scanner:
    scanner = Scanner()
    for source in files.sources(paths):
        scanner.read(source)
    return scanner


def failure(paths: PathLike | Iterable[PathLike]) -> Failure | None:
    """Return the first cause in one log, a folder, or the logs of all ranks and nodes of one
    run.

    Return None if the logs show no failure."""
    from course_lib.read.training_logs.reader import training_log

    scanner = scan(paths)
    ordered = causes_first(scanner)
    nothing_broke = not ordered or ordered[0].tier >= WARNED or ordered[0].cause in BY_SCHEDULER
    if nothing_broke and (found := diverged(training_log(paths))):
        return replace(found, consequences=_consequences(ordered, scanner))
    return _build(ordered, scanner) if ordered and ordered[0].tier < WARNING else None


def failures(paths: PathLike | Iterable[PathLike]) -> pd.DataFrame:
    """Return everything that the logs report, with the likely first cause first."""
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
    first = ordered[0]
    same = [event for event in ordered if event.cause == first.cause]
    # A rank's own loss became NaN first: after gradients are summed, all ranks have NaN.
    own = [event for event in same if event.tier == ROOT and _OWN_LOSS.search(event.text)]
    if first.cause == "nan_loss" and own:
        first, same = own[0], own
    rank, ranks = _who(first, same, ordered, scanner)
    rest = [event for event in ordered if event.cause != first.cause]
    found = Failure.of(
        first.cause,
        rank=rank,
        ranks=tuple(sorted(ranks)),
        node=_node(first, rank, ordered, scanner),
        file=first.source.name,
        line=first.line,
        evidence=first.text,
        details=_details(first, same),
        consequences=_consequences(rest, scanner),
    )
    if first.cause == "killed" and len(ranks) > 1:
        several, lost = TEXTS["killed"]["meaning_of_several"], TEXTS["lost_rank"]["remedy"]
        return replace(found, meaning=_(several), remedy=_(lost))
    return found


def _who(
    first: FailureLine, same: list[FailureLine], ordered: list[FailureLine], scanner: Scanner
) -> tuple[int | None, set[int]]:
    """Return the rank that is the cause, and all ranks with the same error."""
    ranks = {rank for event in same if (rank := rank_of(event, scanner)) is not None}
    ranks |= {other for rank in ranks for other in scanner.alike.get(rank, ())}
    rank = rank_of(first, scanner)
    launched = scanner.launcher or scanner.tables.roots  # then srun's tasks are no ranks
    speaks = first.tier == ROOT or first.cause in _OF_THE_LAUNCHER
    if rank is None and speaks and not launched and first.cause not in BY_SCHEDULER:
        ranks |= set(scanner.failed_tasks)
        rank = next(iter(scanner.failed_tasks), None)
    if rank is None and (told := scanner.tables.first_rank(first.cause)) is not None:
        rank = told
        ranks.add(rank)
        if first.cause in _OF_THE_LAUNCHER:
            ranks |= scanner.tables.like(rank)
    if rank is None and first.cause in {"rendezvous_timeout", "crashed", "killed", "aborted"}:
        near = [e for e in ordered if e.cause == "process_failed" and _is_near(first, e)]
        rank = next((r for e in (*same, *near) if (r := rank_of(e, scanner)) is not None), None)
    if rank is None and first.cause == "collective_mismatch":  # gloo's message as its rank ends
        lost = [rank_of(event, scanner) for event in ordered if event.cause == "lost_rank"]
        rank = next(iter(lost), None)
    return rank, ranks


def _is_near(first: FailureLine, other: FailureLine) -> bool:
    """Tell whether two lines belong to one report, such as mpiexec's."""
    return other.source == first.source and abs(other.line - first.line) < 3


def _node(
    first: FailureLine, rank: int | None, all_events: list[FailureLine], scanner: Scanner
) -> str | None:
    """Return the node of the rank, which any line may name."""
    found = None
    if rank is not None:
        told = (event for event in (first, *all_events) if rank_of(event, scanner) == rank)
        found = next((node for event in told if (node := node_of(event, scanner))), None)
        found = found or (None if scanner.launcher else scanner.nodes.get(rank))
        found = found or scanner.tables.hosts.get(rank)
    return found or (node_of(first, scanner) if rank_of(first, scanner) is None else None)


def _consequences(events: list[FailureLine], scanner: Scanner) -> tuple[str, ...]:
    found = []
    for event in events[:MOST_CONSEQUENCES]:
        rank = rank_of(event, scanner)
        who = _("rank {rank}: ", rank=rank) if rank is not None else ""
        found.append(
            _("line {line}: ", line=event.line)
            + f"{who}{_(TEXTS[event.cause]['title'])}: {event.text[:200]}"
        )
    return tuple(found)
