"""The topology as a picture: nodes as boxes, devices inside, links coloured by transport."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from course_lib.show.picture import Picture
from course_lib.show.style import (
    BLUE,
    BROWN,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PAPER,
    PURPLE,
    QUIET,
    SKY,
    VERMILION,
    bare,
    listed,
    sheet,
    shorten,
)

DRAWN_ONE_BY_ONE = 64
RADIUS = 0.34
_LOOKS = (
    ("NVLS", PURPLE, "-"),
    ("COLLNET", SKY, "-."),
    ("P2P", BLUE, "-"),
    ("SHM", GREEN, "-"),
    ("NET/IB", ORANGE, "--"),
    ("NET/OFI", BROWN, "--"),
    ("NET/LIBFABRIC", BROWN, "--"),
    ("NET", VERMILION, "--"),
)


@dataclass(frozen=True)
class Link:
    """Both directions between two ranks, where they use the same transport."""

    first: Any
    second: Any
    transport: str
    both_ways: bool


def look(transport: str) -> tuple[str, str]:
    for start, paint, dash in _LOOKS:
        if transport.upper().startswith(start):
            return paint, dash
    return GREY, ":"


def topology(
    matrix: pd.DataFrame | Any,
    nodes: Mapping[Any, str] | pd.DataFrame | None = None,
    names: Mapping[Any, str] | None = None,
) -> Picture:
    """Draws a transport matrix (source × destination, "" where there is no link).

    `nodes` says on which host each rank is (a mapping, or the `ranks` table of an NCCL log).
    Above 64 ranks the nodes are summarised: how many links of which transport, in and between.
    """
    if not isinstance(matrix, pd.DataFrame):
        nodes = matrix.ranks if nodes is None else nodes
        matrix = matrix.matrix()
    ranks = list(dict.fromkeys([*matrix.index, *matrix.columns]))
    if not ranks:
        raise ValueError("this transport matrix is empty: was the job run with NCCL_DEBUG=INFO?")
    hosts = _hosts(ranks, nodes)
    links = list(_links(matrix))
    if len(ranks) > DRAWN_ONE_BY_ONE:
        return _summary(ranks, hosts, links)
    return _drawn(ranks, hosts, links, names or {})


def _hosts(ranks: list[Any], nodes: Mapping[Any, str] | pd.DataFrame | None) -> dict[Any, str]:
    if isinstance(nodes, pd.DataFrame):
        column = "host" if "host" in nodes else "node"
        nodes = dict(zip(nodes["rank"], nodes[column].astype(str), strict=True))
    known = {rank: str(host) for rank, host in (nodes or {}).items() if isinstance(host, str)}
    return {rank: known.get(rank, "one node" if not known else "unknown node") for rank in ranks}


def _links(matrix: pd.DataFrame) -> Iterator[Link]:
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


def _drawn(
    ranks: list[Any], hosts: dict[Any, str], links: list[Link], names: Mapping[Any, str]
) -> Picture:
    places, boxes = _layout(ranks, hosts)
    width = max(x + w for x, _, w, _ in boxes.values())
    height = max(y + h for _, y, _, h in boxes.values())
    margin = max(0.3, (7.0 - width) / 2)
    with sheet(height_in=min(max(8.0 * (height + 1.1) / (width + 2 * margin), 2.8), 5.6)) as page:
        axes = bare(page.axes())
        for host, (x, y, w, h) in boxes.items():
            axes.add_patch(_box(x, y, w, h))
            axes.text(
                x + 0.12, y + h - 0.1, shorten(host, 18), va="top", fontweight="bold", zorder=7
            )
        circles = {
            rank: Circle(place, RADIUS, fc=PAPER, ec=INK, lw=1.6, zorder=4)
            for rank, place in places.items()
        }
        for link in links:
            inside = hosts[link.first] == hosts[link.second]
            _draw_link(axes, link, circles, inside=inside, crowded=len(links) > 24)
        for rank, circle in circles.items():
            axes.add_patch(circle)
            axes.annotate(
                names.get(rank, str(rank)), circle.center, ha="center", va="center", zorder=5,
                fontsize=12 if len(ranks) <= 16 else 8.5, fontweight="bold",
            )  # fmt: skip
        axes.set_xlim(-margin, width + margin)
        axes.set_ylim(-0.6, height + 0.3)
        axes.set_aspect("equal")
        _key(page.figure, links)
        return page.picture(_said(ranks, hosts, links))


def _box(x: float, y: float, width: float, height: float) -> FancyBboxPatch:
    shape = "round,pad=0,rounding_size=0.15"
    return FancyBboxPatch((x, y), width, height, shape, fc="#f5f7f9", ec=QUIET)


def _layout(
    ranks: list[Any], hosts: dict[Any, str]
) -> tuple[dict[Any, tuple[float, float]], dict[str, tuple[float, float, float, float]]]:
    """Devices of a node in a row or a circle; nodes in rows that turn back like a snake, so
    that a ring through the nodes has short links."""
    members: dict[str, list[Any]] = {}
    for rank in ranks:
        members.setdefault(hosts[rank], []).append(rank)
    spots = {host: _spots(len(mine)) for host, mine in members.items()}
    w = max(x for each in spots.values() for x, _ in each) + 0.75
    h = max(y for each in spots.values() for _, y in each) + 1.05
    columns = _columns(len(members), (w + 1.1) / (h + 0.7))
    rows = math.ceil(len(members) / columns)
    places: dict[Any, tuple[float, float]] = {}
    boxes: dict[str, tuple[float, float, float, float]] = {}
    for number, (host, mine) in enumerate(members.items()):
        row, column = divmod(number, columns)
        column = column if row % 2 == 0 else columns - 1 - column
        x, y = column * (w + 1.1), (rows - 1 - row) * (h + 0.7)
        boxes[host] = (x, y, w, h)
        for rank, (dx, dy) in zip(mine, spots[host], strict=True):
            places[rank] = (x + dx, y + h - 0.3 - dy)
    return places, boxes


def _spots(devices: int) -> list[tuple[float, float]]:
    """Where the devices of a node are, from its left and its top."""
    if devices <= 3:
        return [(0.75 + 1.6 * place, 0.75) for place in range(devices)]
    radius = 1.05 / (2 * math.sin(math.pi / devices))
    turn = math.pi / devices if devices % 2 == 0 else 0.0
    return [
        (
            0.75 + radius + radius * math.sin(2 * math.pi * place / devices - turn),
            0.75 + radius - radius * math.cos(2 * math.pi * place / devices - turn),
        )
        for place in range(devices)
    ]


def _columns(nodes: int, shape: float) -> int:
    """As few empty places as possible, then a picture about twice as wide as high."""

    def cost(columns: int) -> float:
        rows = math.ceil(nodes / columns)
        return 0.35 * (rows * columns - nodes) + abs(math.log(columns * shape / rows / 2.2))

    return min(range(1, min(nodes, 8) + 1), key=cost)


def _draw_link(
    axes: Axes, link: Link, circles: Mapping[Any, Circle], *, inside: bool, crowded: bool
) -> None:
    paint, dash = look(link.transport)
    first, second = circles[link.first], circles[link.second]
    start, end = first.center, second.center
    bend = 0.0 if inside or math.dist(start, end) < 4 else 0.32 if start[1] == end[1] else 0.08
    arrow = "<|-|>" if link.both_ways else "-|>"
    axes.add_patch(
        FancyArrowPatch(
            start, end, connectionstyle=f"arc3,rad={bend}", color=paint, ls=dash, zorder=3,
            lw=1.0 if crowded and inside else 2.2, mutation_scale=11,
            arrowstyle="-" if crowded and inside else arrow,
            patchA=first, patchB=second, shrinkA=1, shrinkB=1,
        )
    )  # fmt: skip
    gap_units = math.dist(start, end) - 2 * RADIUS
    if not crowded and gap_units > 0.13 * len(link.transport):
        dx, dy = end[0] - start[0], end[1] - start[1]
        at = ((start[0] + end[0] + bend * dy) / 2, (start[1] + end[1] - bend * dx) / 2)
        ground = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.2, "alpha": 0.9}
        axes.annotate(
            link.transport, at, fontsize=8.5, color=paint, ha="center", va="center",
            bbox=ground, zorder=6,
        )  # fmt: skip


def _key(figure: Any, links: list[Link]) -> None:
    counts = Counter(link.transport for link in links)
    handles = [
        Line2D([], [], color=look(name)[0], ls=look(name)[1], lw=2.4, label=f"{name} ({count})")
        for name, count in counts.most_common(6)
    ]
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)))


def _counts(links: list[Link], hosts: Mapping[Any, str]) -> tuple[Counter[str], Counter[str]]:
    """Links by transport, inside the nodes and between them."""
    inside: Counter[str] = Counter()
    between: Counter[str] = Counter()
    for link in links:
        (inside if hosts[link.first] == hosts[link.second] else between)[link.transport] += 1
    return inside, between


def _said(ranks: list[Any], hosts: dict[Any, str], links: list[Link]) -> str:
    nodes = list(dict.fromkeys(hosts.values()))
    parts = [f"Topology of {len(ranks)} ranks on {len(nodes)} node{'s' * (len(nodes) > 1)}."]
    places = ("Inside nodes", "Between nodes")
    for where, counts in zip(places, _counts(links, hosts), strict=True):
        if counts:
            said = [f"{n} link{'s' * (n > 1)} by {name}" for name, n in counts.most_common()]
            parts.append(f"{where}: {listed(said)}.")
    return " ".join(parts) if links else parts[0] + " No links."


def _summary(ranks: list[Any], hosts: dict[Any, str], links: list[Link]) -> Picture:
    """Two boxes for all alike nodes, and the counts that a drawing of a thousand would hide."""
    per_node = Counter(hosts.values())
    inside, between = _counts(links, hosts)
    pairs = {frozenset((hosts[link.first], hosts[link.second])) for link in links}
    linked = sum(len(pair) == 2 for pair in pairs)
    sizes = Counter(per_node.values()).most_common(3)
    shape = listed(f"{count} nodes of {size} devices" for size, count in sizes)
    with sheet(height_in=3.0) as page:
        axes = bare(page.axes(title=f"{len(ranks)} ranks: {shape}"))
        axes.add_patch(_box(0.0, 0.0, 3.0, 2.2))
        axes.add_patch(_box(6.4, 0.0, 3.0, 2.2))
        axes.text(0.15, 2.05, "inside a node", va="top", fontweight="bold")
        axes.text(6.55, 2.05, "inside a node", va="top", fontweight="bold")
        for row, (name, count) in enumerate(inside.most_common(4)):
            share = f"{name}\n{count / len(per_node):.3g} links a node"
            for x in (0.15, 6.55):
                axes.text(x, 1.55 - 0.5 * row, share, color=look(name)[0], va="top", fontsize=10)
        for row, (name, count) in enumerate(between.most_common(4)):
            y, (paint, dash) = 1.75 - 0.5 * row, look(name)
            line = FancyArrowPatch((3.05, y), (6.35, y), color=paint, ls=dash, lw=2.4)
            line.set_arrowstyle("<|-|>", head_length=6, head_width=4)
            axes.add_patch(line)
            text = f"{name}: {count} links in all"
            axes.text(4.7, y + 0.08, text, color=paint, ha="center", va="bottom", fontsize=10)
        axes.text(4.7, 0, f"{linked} pairs of nodes linked", ha="center", va="bottom", color=QUIET)
        axes.set_xlim(-0.2, 9.6)
        axes.set_ylim(-0.2, 2.4)
        return page.picture(f"{_said(ranks, hosts, links)} {linked} pairs of nodes are linked.")
