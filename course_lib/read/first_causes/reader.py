"""`read.failure`: the first cause in the logs of a run, its ranks and its details."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_lib.read import files
from course_lib.read.files import PathLike
from course_lib.read.first_causes.causes import TEXTS, Failure
from course_lib.read.first_causes.divergence import diverged
from course_lib.read.first_causes.ordering import BY_SCHEDULER, causes_first
from course_lib.read.first_causes.rules import REPORT, ROOT, WARNING
from course_lib.read.first_causes.scanner import FailureLine, Scanner, node_of, rank_of
from course_lib.read.messages import _

if TYPE_CHECKING:
    import pandas as pd


_PORT = re.compile(
    r"port: (\d{1,5})|\]:(\d{1,5})\b|\b(?:\d{1,3}\.){3}\d{1,3}:(\d{1,5})|, (\d{1,5})\)"
)
_FINGERPRINT = {
    "sequence": re.compile(r"SequenceNumber=(\d{1,18})"),
    "op": re.compile(r"OpType=([A-Z_]+)"),
    "shape": re.compile(r"TensorShape=\[([\d, ]{0,200})\]"),
}
_INTEGER = re.compile(r"-?\d{1,18}")
_INTERNAL = {"mine", "theirs", "timeout_text", "rank", "tried"}


def complete(
    first: FailureLine, same: list[FailureLine], scanner: Scanner, rank: int | None
) -> dict[str, Any]:
    """Return the details of a failure; `rank` is the rank taken for the cause."""
    found: dict[str, Any] = {}
    for name, value in first.details.items():
        if name not in _INTERNAL:
            found[name] = int(value) if _INTEGER.fullmatch(value) else value
    found |= _SPECIAL.get(first.cause, _nothing)(first, same, scanner)
    waited = [event for event in scanner.events if event.cause == "collective_timeout"]
    if waited and first.cause != "collective_timeout":
        found |= _waited_for(waited, scanner)
    code = scanner.tables.exit_code(rank)
    if code is not None:
        found.setdefault("exit_code", code)
    if "timeout_ms" in found:
        found["timeout_s"] = found["timeout_ms"] / 1000
    return found


def _nothing(*unused: object) -> dict[str, Any]:
    return {}


def _memory(first: FailureLine, same: list[FailureLine], scanner: Scanner) -> dict[str, Any]:
    """Return all requested sizes, since ranks differ."""
    tried = [int(event.details["tried_bytes"]) for event in same if "tried_bytes" in event.details]
    return {"all_tried_bytes": tuple(tried)} if len(tried) > 1 else {}


def _port(first: FailureLine, same: list[FailureLine], _: Scanner) -> dict[str, Any]:
    ports: list[int] = []
    for event in same:
        if match := _PORT.search(event.text):
            port = int(next(part for part in match.groups() if part))
            if port not in ports:
                ports.append(port)
    return {"port": ports[0], "ports": tuple(ports)} if ports else {}


def _mismatch(first: FailureLine, same: list[FailureLine], __: Scanner) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for side, text in (
        ("", first.details.get("mine", "")),
        ("other_", first.details.get("theirs", "")),
    ):
        for name, pattern in _FINGERPRINT.items():
            if match := pattern.search(text):
                found[side + name] = _value(name, match[1])
    if first.details.get("rank", "").isdecimal():
        found["collective_rank"] = int(first.details["rank"])
    return found | _odd_one(same)


def _odd_one(same: list[FailureLine]) -> dict[str, int]:
    """Return the rank that differs. Each rank names the first rank, counted from 0, that differs
    from it. The ranks before it are equal. Two equal ranks outvote one."""
    for event in same:
        mine, other = event.details.get("rank", ""), event.details.get("other_rank", "")
        if mine.isdecimal() and other.isdecimal():
            alike = {int(mine), *range(min(int(other), 5000))}
            if len(alike) > 1:
                return {"odd_rank": int(other)}
    return {}


def _value(name: str, text: str) -> Any:
    if name == "shape":
        return tuple(int(part) for part in text.replace(" ", "").split(",") if part)
    return int(text) if text.isdecimal() else text


def _waiting(first: FailureLine, same: list[FailureLine], scanner: Scanner) -> dict[str, Any]:
    """Return ranks that waited in an operation, ranks furthest behind, and silent ranks."""
    sequences: dict[int, set[int]] = {}
    for event in same:
        rank = rank_of(event, scanner)
        if rank is not None and event.details.get("sequence", "").isdecimal():
            sequences.setdefault(rank, set()).add(int(event.details["sequence"]))
    found: dict[str, Any] = {"waiting_ranks": tuple(sorted(sequences))}
    if len(sequences) > 1:
        lowest = {rank: min(numbers) for rank, numbers in sequences.items()}
        if len(set(lowest.values())) > 1:
            behind = min(lowest, key=lambda rank: lowest[rank])
            found |= {
                "rank_behind": behind,
                "sequences": {r: tuple(sorted(n)) for r, n in sequences.items()},
            }
    silent = sorted(set(scanner.nodes) - set(sequences))
    return found | ({"silent_ranks": tuple(silent)} if silent and sequences else {})


def _waited_for(waited: list[FailureLine], scanner: Scanner) -> dict[str, Any]:
    """Return the operation in which the other ranks waited for the failed rank."""
    known = {name: waited[0].details.get(name, "") for name in ("op", "sequence", "timeout_ms")}
    found = {name: int(v) if v.isdecimal() else v for name, v in known.items() if v}
    return found | _waiting(waited[0], waited, scanner)


def _interface(first: FailureLine, same: list[FailureLine], scanner: Scanner) -> dict[str, Any]:
    return {"interface": scanner.interfaces[-1]} if scanner.interfaces else {}


_SPECIAL = {
    "cuda_oom": _memory,
    "device_shared": _memory,
    "cpu_oom": _memory,
    "device_limit": _memory,
    "port_in_use": _port,
    "port_forbidden": _port,
    "collective_mismatch": _mismatch,
    "collective_timeout": _waiting,
    "network_interface": _interface,
}


MOST_CONSEQUENCES = 50
_OWN_LOSS = re.compile(r"[Ll]oss is nan|[Ll]oss is NaN|local forward loss|nan values in its")
_OF_THE_LAUNCHER = {"killed", "crashed", "process_failed"}


def scan(paths: PathLike | Iterable[PathLike]) -> Scanner:
    scanner = Scanner()
    for source in files.sources(paths):
        scanner.read(source)
    return scanner


def _existing(paths: PathLike | Iterable[PathLike]) -> PathLike | list[Path]:
    """Leave out missing files, because not every rank has one."""
    if isinstance(paths, str | Path):
        return paths
    given = [Path(path) for path in paths]
    return [path for path in given if files.may_be_read(path)] or given


def failure(paths: PathLike | Iterable[PathLike]) -> Failure | None:
    """Return the first cause in one log, a folder, or the logs of all ranks and nodes of one
    run.

    Return None if the logs show no failure."""
    from course_lib.read.training_logs.reader import training_log

    paths = _existing(paths)
    scanner = scan(paths)
    ordered = causes_first(scanner)
    nothing_broke = not ordered or ordered[0].tier >= REPORT or ordered[0].cause in BY_SCHEDULER
    if nothing_broke and (found := diverged(training_log(paths))):
        return replace(found, consequences=_consequences(ordered, scanner))
    if scanner.lost and (not ordered or ordered[0].tier >= REPORT):
        return replace(scanner.lost, consequences=_consequences(ordered, scanner))
    return _build(ordered, scanner) if ordered and ordered[0].tier < WARNING else None


def failures(paths: PathLike | Iterable[PathLike]) -> pd.DataFrame:
    """Return everything that the logs report, with the likely first cause first."""
    import pandas as pd

    scanner = scan(_existing(paths))
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
    if rank is None and first.cause == "collective_mismatch":  # gloo's message as its rank ends
        rank = next(
            (r for e in ordered if e.cause == "lost_rank" if (r := rank_of(e, scanner))), None
        )
    return rank, ranks


def _in_one_report(first: FailureLine, other: FailureLine) -> bool:
    """Tell whether two lines of mpiexec belong together: frame of its report, and signal."""
    near = other.source == first.source and abs(other.line - first.line) < 3
    return near and other.cause == "process_failed"


def _own_loss(ordered: list[FailureLine]) -> FailureLine:
    """Return a rank's own NaN loss, if any: after gradients are summed, all ranks have NaN."""
    return next((event for event in ordered if _is_own_loss(event)), ordered[0])


def _is_own_loss(event: FailureLine) -> bool:
    said = event.cause == "nan_loss" and event.tier == ROOT
    return said and _OWN_LOSS.search(event.text) is not None


def _node(
    first: FailureLine, rank: int | None, all_events: list[FailureLine], scanner: Scanner
) -> str | None:
    """Return the node of the rank, which any line may name."""
    if (rank is None or rank == rank_of(first, scanner)) and (node := node_of(first, scanner)):
        return node
    told = (event for event in all_events if rank is not None and rank_of(event, scanner) == rank)
    found = next((node for event in told if (node := node_of(event, scanner))), None)
    if found is None and rank is not None and not scanner.launcher:
        found = scanner.nodes.get(rank)
    found = found or (None if rank is None else scanner.tables.hosts.get(rank))
    return found or (node_of(first, scanner) if rank_of(first, scanner) is None else None)


def _by_srun(first: FailureLine, scanner: Scanner) -> tuple[int, ...]:
    """Return the rank that failed first according to srun, if the line itself does not say."""
    follows = first.tier != ROOT and first.cause not in _OF_THE_LAUNCHER
    return () if scanner.launcher or follows else scanner.failed_tasks


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
