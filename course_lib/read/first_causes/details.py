"""Numbers and names in the evidence: sizes, ports, operations, and who waited for whom."""

from __future__ import annotations

import re
from typing import Any

from course_lib.read.first_causes.scanner import FailureLine, Scanner, rank_of

_PORT = re.compile(
    r"port: (\d{1,5})|\]:(\d{1,5})\b|\b(?:\d{1,3}\.){3}\d{1,3}:(\d{1,5})|, (\d{1,5})\)"
)
_FINGERPRINT = {
    "sequence": re.compile(r"SequenceNumber=(\d{1,18})"),
    "op": re.compile(r"OpType=([A-Z_]+)"),
    "shape": re.compile(r"TensorShape=\[([\d, ]{0,200})\]"),
}
_INTEGER = re.compile(r"-?\d{1,18}")
_RENAMED = {
    "module2": "module",
    "script": "path",
    "variable2": "variable",
    "variable3": "variable",
    "variable4": "variable",
    "pid2": "pid",
    "pid3": "pid",
    "pid4": "pid",
    "command2": "command",
}
_INTERNAL = {"mine", "theirs", "timeout_text", "rank", "rank2"}


def complete(
    first: FailureLine, same: list[FailureLine], scanner: Scanner, rank: int | None
) -> dict[str, Any]:
    """`rank`: who is taken for the cause."""
    found: dict[str, Any] = {}
    for name, value in first.details.items():
        if name not in _INTERNAL and name != "tried":
            found[_RENAMED.get(name, name)] = int(value) if _INTEGER.fullmatch(value) else value
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


def _nothing(_: FailureLine, __: list[FailureLine], ___: Scanner) -> dict[str, Any]:
    return {}


def _memory(_: FailureLine, same: list[FailureLine], __: Scanner) -> dict[str, Any]:
    """All sizes that were asked for, since ranks differ."""
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
    """Each rank names the first, counted from 0, that differs from it: those before are like it.
    Two that are alike outvote one."""
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
    """Who waited in which operation; who is furthest behind; which ranks said nothing."""
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
    """In which operation the other ranks waited for the one that failed."""
    known = {name: waited[0].details.get(name, "") for name in ("op", "sequence", "timeout_ms")}
    found = {name: int(v) if v.isdecimal() else v for name, v in known.items() if v}
    return found | _waiting(waited[0], waited, scanner)


def _interface(_: FailureLine, __: list[FailureLine], scanner: Scanner) -> dict[str, Any]:
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
