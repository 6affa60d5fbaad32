"""Transport matrix: linked ranks, their transport, and their nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from course_lib.show import style
from course_lib.show.style import DASHES, listed
from course_lib.words import _

INSIDE = ("P2P", "SHM", "NVLS")
_LOOKS = (
    ("NVLS", style.PURPLE, DASHES[4]),
    ("COLLNET", style.SKY, DASHES[3]),
    ("P2P", style.BLUE, "-"),
    ("SHM", style.GREEN, DASHES[2]),
    ("NET/IB", style.ORANGE, "-"),
    ("NET", style.VERMILION, DASHES[1]),
)


@dataclass(frozen=True)
class Link:
    """Link between two ranks. Both directions are one link if they use the same transport."""

    first: Any
    second: Any
    transport: str
    both_ways: bool


def look(transport: str) -> tuple[str, Any]:
    """Return colour and dashes. Links of a network that can be confused have different dashes."""
    name = transport.upper()
    if "LIBFABRIC" in name or "OFI" in name:
        return style.BROWN, DASHES[5]
    for start, paint, dash in _LOOKS:
        if name.startswith(start):
            return paint, dash
    return style.GREY, ":"


def hosts_of(
    ranks: list[Any], nodes: Mapping[Any, str] | pd.DataFrame | None, links: list[Link]
) -> dict[Any, str]:
    """Return the host of each rank.

    The log of one node does not name other ranks' hosts. A rank reached through shared memory is on
    the same node.
    """
    if isinstance(nodes, pd.DataFrame):
        column = "host" if "host" in nodes else "node"
        nodes = dict(zip(nodes["rank"], nodes[column].astype(object), strict=True))
    known = {rank: host for rank, host in (nodes or {}).items() if isinstance(host, str) and host}
    if not known:
        return dict.fromkeys(ranks, _("one node"))
    near = [link for link in links if link.transport.upper().startswith(INSIDE)]
    for link in near * 2:  # a second pass, for ranks whose hosts the first pass found
        for one, other in ((link.first, link.second), (link.second, link.first)):
            if one in known:
                known.setdefault(other, known[one])
    return {rank: known.get(rank, _("a different node")) for rank in ranks}


def links_of(matrix: pd.DataFrame) -> Iterator[Link]:
    cells = {
        (source, destination): str(transport)
        for source, row in zip(matrix.index, matrix.to_numpy(), strict=True)
        for destination, transport in zip(matrix.columns, row, strict=True)
        if isinstance(transport, str) and transport and source != destination
    }
    done: set[tuple[Any, Any]] = set()
    for (source, destination), transport in cells.items():
        done.add((source, destination))
        both_ways = cells.get((destination, source)) == transport
        if not (both_ways and (destination, source) in done):
            yield Link(source, destination, transport, both_ways)


def counts_of(links: list[Link], hosts: Mapping[Any, str]) -> tuple[Counter[str], Counter[str]]:
    """Count links by transport, inside nodes and between nodes."""
    inside: Counter[str] = Counter()
    between: Counter[str] = Counter()
    for link in links:
        (inside if hosts[link.first] == hosts[link.second] else between)[link.transport] += 1
    return inside, between


def said_of(ranks: list[Any], hosts: dict[Any, str], links: list[Link]) -> str:
    nodes = list(dict.fromkeys(hosts.values()))
    parts = [
        _(
            "Topology of {ranks} ranks on {nodes} node{s}.",
            ranks=len(ranks),
            nodes=len(nodes),
            s="s" * (len(nodes) > 1),
        )
    ]
    places = (_("Inside nodes"), _("Between nodes"))
    for where, counts in zip(places, counts_of(links, hosts), strict=True):
        if counts:
            said = [
                _("{n} link{s} by {name}", n=n, s="s" * (n > 1), name=name)
                for name, n in counts.most_common()
            ]
            parts.append(f"{where}: {listed(said)}.")
    return " ".join(parts) if links else _("{parts} No links.", parts=parts[0])
