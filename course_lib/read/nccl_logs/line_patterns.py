"""Patterns of single lines of NCCL's log, from 2.2 to today."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

THREAD = re.compile(rb"([\w.\-]{1,100}):(\d{1,9}):(\d{1,9}) \[(-?\d{1,5})\]")
VERSION = re.compile(rb"\bN?R?CCL version ?:? ?(\d+\.\d+[\w.+:\-]{0,60})")
CHANNEL_LINK = re.compile(
    rb"(\d{1,7})(?:\[(\w{1,20})\])? -> (\d{1,7})(?:\[(\w{1,20})\])?"
    rb"(?: \[(send|receive)\])? via (.{1,200})"
)
COLLNET = re.compile(
    rb"Coll(?:Net)? (\d{1,4})(?:/\d{1,4})? : (\d{1,7}) \[(send|receive)\] via (.{1,200})"
)
CHANNEL_ORDER = re.compile(rb"(?:\s*\d{1,7}\b){1,5000}\s*(?:\.\.\.)?\s*$")
COMM = re.compile(rb"comm (0x\w{1,20}) rank (\d{1,7}) n[rR]anks (\d{1,7})(.{0,300})")
_COMM_PART = re.compile(
    r"(?<!\S)(cudaDev|nvmlDev|busId|commId|nNodes|localRanks|localRank)\s+(\S{1,20})"
)
NETWORK = re.compile(rb"NET/(Socket|IB)\s{0,3}: Using ")
SETTING = re.compile(rb"\b(N?R?CCL_[A-Z0-9_]{1,60}) set (?:by environment )?to:? ?(.{0,200})")
_NIC = re.compile(r"(\d{1,4})(?:\((\d{1,7})\))?$")


class Link(NamedTuple):
    """Part of a channel line after its colon."""

    source: int
    destination: int
    source_device: str | None
    destination_device: str | None
    direction: str | None
    raw: str
    transport: str
    nic: int | None
    gdrdma: bool
    through: int | None


def link_of(text: bytes) -> Link | None:
    match = CHANNEL_LINK.match(text)
    if match is None:
        return None
    source, source_device, destination, destination_device, direction, via = match.groups()
    raw, transport, nic, through = _via(via)
    return Link(
        source=int(source),
        destination=int(destination),
        source_device=source_device.decode() if source_device else None,
        destination_device=destination_device.decode() if destination_device else None,
        direction=direction.decode() if direction else None,
        raw=raw,
        transport=transport,
        nic=nic,
        gdrdma="GDRDMA" in raw,
        through=through,
    )


@lru_cache(maxsize=10_000)
def _via(text: bytes) -> tuple[str, str, int | None, int | None]:
    raw = text.decode("utf-8", "replace").strip()
    return (raw, *transport_of(raw))


def transport_of(raw: str) -> tuple[str, int | None, int | None]:
    """Return (transport, network interface, rank through which it is reached) of a `via` text."""
    parts = raw.split("/")
    first = parts[0].strip()
    if first == "P2P":
        kind = parts[1].split(" ")[0].split("[")[0] if len(parts) > 1 else "direct"
        return f"P2P/{kind}", None, None
    if first in ("NET", "COLLNET", "CollNet", "COLLNET_NET"):
        name = parts[1] if len(parts) > 1 else ""
        nic = next((found for part in parts[1:] if (found := _NIC.fullmatch(part.strip()))), None)
        family = "NET" if first == "NET" else "CollNet"
        through = int(nic[2]) if nic and nic[2] else None
        return f"{family}/{name}".rstrip("/"), int(nic[1]) if nic else None, through
    if first.startswith(("SHM", "direct shared memory", "shared memory")):
        return "SHM", None, None
    if first.startswith("NVLS"):
        return "NVLS", None, None
    return first[:40] or "unknown", None, None


class Comm(NamedTuple):
    """Line about one rank of a communicator."""

    pointer: str
    rank: int
    size: int
    parts: dict[str, str]
    state: str | None


def comm_of(text: bytes) -> Comm | None:
    match = COMM.search(text)
    if match is None:
        return None
    pointer, rank, size, rest = match.groups()
    if b"Destroy" in rest or b"Abort" in rest:
        return None
    found = dict(_COMM_PART.findall(rest.decode("ascii", "replace")))
    state = "START" if b"Init START" in rest else "COMPLETE" if b"Init COMPLETE" in rest else None
    return Comm(pointer.decode(), int(rank), int(size), found, state)
