"""The topology as a picture: nodes as boxes, devices inside, links coloured by transport."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from course_lib.mistakes.errors import ArgumentError
from course_lib.show.picture import Picture
from course_lib.show.style import (
    BLUE,
    BROWN,
    DASHES,
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
from course_lib.words import _

MOST_DRAWN = 64
TITLE_CHARACTERS = 82
# With more links, the legend names the transports, because labels would overlap.
NAMED_LINKS = 8
# With more links than this between nodes, one line is drawn for each pair of nodes.
BETWEEN_ONE_BY_ONE = 24
# Radius of a device's circle.
RADIUS = 0.34


def topology(log: Any) -> Picture:
    """Draw the links of an NCCL log, or of a table of transports (source × destination).

    The text counts all links. If there are more than 64 ranks, the figure shows the first 64 and
    says so. It also says whether a log was simulated.
    """
    simulated = str(getattr(log, "simulated", "") or "")
    matrix, nodes = log, None
    if not isinstance(log, pd.DataFrame):
        # Only the largest communicator's ranks, because rank numbers differ between communicators.
        matrix, nodes = log.matrix(), log.ranks[log.ranks["communicator"] == log.largest()]
    ranks = list(dict.fromkeys([*matrix.index, *matrix.columns]))
    if not ranks:
        raise ArgumentError(_("this transport matrix is empty; run the job with NCCL_DEBUG=INFO"))
    links = list(links_of(matrix))
    hosts = hosts_of(ranks, nodes, links)
    notes = [_("Simulated: {simulated}", simulated=simulated)] if simulated else []
    if len(ranks) > MOST_DRAWN:
        notes.append(_("The first {drawn} of {ranks} ranks", drawn=MOST_DRAWN, ranks=len(ranks)))
    note = "\n".join(line for each in notes for line in textwrap.wrap(each, TITLE_CHARACTERS))
    said = f"{note}\n{_alt_text(ranks, hosts, links)}"
    shown = set(ranks[:MOST_DRAWN])
    links = [link for link in links if shown.issuperset((link.first, link.second))]
    return _drawn(ranks[:MOST_DRAWN], hosts, links, (note, said))


def _drawn(
    ranks: list[Any], hosts: dict[Any, str], links: list[Link], words: tuple[str, str]
) -> Picture:  # fmt: skip
    note, said = words
    places, boxes = place(ranks, hosts)
    width = max(x + w for x, _unused, w, _unused in boxes.values())
    height = max(y + h for _unused, y, _unused, h in boxes.values())
    margin = max(0.3, (7.0 - width) / 2)
    with sheet(height_in=min(max(8.0 * (height + 1.1) / (width + 2 * margin), 2.8), 6.2)) as page:
        axes = bare(page.axes())
        if note:  # above the figure, because the axes may be much narrower
            style = {"fontsize": 11, "fontweight": "bold", "ha": "left"}
            page.figure.suptitle(note, x=0.02, **style)
        patches = _draw_nodes(axes, boxes)
        circles = {
            rank: Circle(place, RADIUS, fc=PAPER, ec=INK, lw=1.6, zorder=4)
            for rank, place in places.items()
        }
        _draw_links(axes, links, hosts, circles, patches)
        _draw_ranks(axes, circles)
        axes.set_xlim(-margin, width + margin)
        axes.set_ylim(-0.6, height + 0.3)
        axes.set_aspect("equal")
        _key(page.figure, links)
        return page.picture(said)


def _draw_links(
    axes: Axes, links: list[Link], hosts: dict[Any, str], circles: dict[Any, Circle],
    nodes: dict[str, FancyBboxPatch],
) -> None:  # fmt: skip
    """Draw links within nodes one by one, and many links between nodes as one line per pair."""
    crowded, few = len(links) > 24, len(links) <= NAMED_LINKS
    between = [link for link in links if hosts[link.first] != hosts[link.second]]
    for link in links:
        if hosts[link.first] == hosts[link.second]:
            _draw_link(axes, link, circles, inside=True, crowded=crowded, few=few)
    if len(between) > BETWEEN_ONE_BY_ONE:
        _draw_bundles(axes, between, hosts, nodes)
        return
    for link in between:
        _draw_link(axes, link, circles, inside=False, crowded=crowded, few=few)


def _draw_ranks(axes: Axes, circles: Mapping[Any, Circle]) -> None:
    size = 12 if len(circles) <= 16 else 8.5
    for rank, circle in circles.items():
        axes.add_patch(circle)
        axes.annotate(
            str(rank), circle.center, ha="center", va="center", zorder=5,
            fontsize=size, fontweight="bold",
        )  # fmt: skip


def _draw_nodes(axes: Axes, boxes: Mapping[str, Any]) -> dict[str, FancyBboxPatch]:
    """Draw the nodes. Long names keep their end, because node names often differ only there."""
    same = {shorten(host, 18) for host in boxes}
    patches = {}
    for host, (x, y, w, h) in boxes.items():
        text = shorten(host, 18) if len(same) == len(boxes) else f"…{host[-16:]}"
        shape = "round,pad=0,rounding_size=0.15"
        patches[host] = FancyBboxPatch((x, y), w, h, shape, fc="#f5f7f9", ec=QUIET)
        axes.add_patch(patches[host])
        axes.text(x + 0.12, y + h - 0.1, text, va="top", fontweight="bold", zorder=7)
    return patches


def _draw_bundles(
    axes: Axes, between: list[Link], hosts: Mapping[Any, str], patches: Mapping[str, FancyBboxPatch]
) -> None:
    """Draw one line per pair of nodes and transport. More links make a thicker line.

    Lines run behind the boxes.
    """
    counts = Counter(
        (*sorted((hosts[link.first], hosts[link.second])), link.transport) for link in between
    )
    most = max(counts.values())
    for (one, other, transport), count in counts.items():
        boxes = (patches[host] for host in (one, other))
        start, end = (
            (box.get_x() + box.get_width() / 2, box.get_y() + box.get_height() / 2) for box in boxes
        )
        paint, dash = look(transport)
        bend = 0.0 if math.dist(start, end) < 6 else 0.12
        axes.add_patch(
            FancyArrowPatch(
                start, end, connectionstyle=f"arc3,rad={bend}", color=paint, ls=dash, zorder=0.5,
                lw=1.2 + 3.0 * count / most, arrowstyle="-", patchA=patches[one],
                patchB=patches[other],
            )
        )  # fmt: skip


def _draw_link(
    axes: Axes, link: Link, circles: Mapping[Any, Circle], *, inside: bool, crowded: bool,
    few: bool = False,
) -> None:  # fmt: skip
    paint, dash = look(link.transport)
    first, second = circles[link.first], circles[link.second]
    start, end = first.center, second.center
    if crowded and inside:  # with hundreds of lines, the circles hide their ends
        xs, ys = zip(start, end, strict=True)
        axes.add_line(Line2D(xs, ys, color=paint, ls=dash, lw=1.0, zorder=3))
        return
    others = [rank.center for rank in circles.values() if rank not in (first, second)]
    bend = free_bend(start, end, others)
    axes.add_patch(
        FancyArrowPatch(
            start, end, connectionstyle=f"arc3,rad={bend}", color=paint, ls=dash, zorder=3,
            lw=2.2, mutation_scale=11, arrowstyle="<|-|>" if link.both_ways else "-|>",
            patchA=first, patchB=second, shrinkA=1, shrinkB=1,
        )
    )  # fmt: skip
    gap_units = math.dist(start, end) - 2 * RADIUS
    if few and gap_units > 0.13 * len(link.transport):
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


Point = tuple[float, float]
# Distance from a circle at which a line clearly passes it.
CLEAR = 0.2


def free_bend(start: Point, end: Point, others: list[Point]) -> float:
    """Return the bend that keeps a line clear of ranks between its ends."""
    bends = (0.0, 0.12, -0.12, 0.25, -0.25, 0.4, -0.4)
    return max(
        bends, key=lambda bend: (min(_clearance(start, end, bend, others), CLEAR), -abs(bend))
    )


def _clearance(start: Point, end: Point, bend: float, others: list[Point]) -> float:
    """Return the line's distance from the nearest circle. matplotlib's arc3 is a parabola."""
    (x1, y1), (x2, y2) = start, end
    middle = ((x1 + x2) / 2 + bend * (y2 - y1), (y1 + y2) / 2 - bend * (x2 - x1))
    found = [CLEAR]
    for part in range(1, 20):
        t = part / 20
        a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t**2
        at = (a * x1 + b * middle[0] + c * x2, a * y1 + b * middle[1] + c * y2)
        found += [math.dist(at, other) - RADIUS for other in others]
    return min(found)


INSIDE = ("P2P", "SHM", "NVLS")
LOOKS = (
    ("NVLS", PURPLE, DASHES[4]),
    ("COLLNET", SKY, DASHES[3]),
    ("P2P", BLUE, "-"),
    ("SHM", GREEN, DASHES[2]),
    ("NET/IB", ORANGE, "-"),
    ("NET", VERMILION, DASHES[1]),
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
        return BROWN, DASHES[5]
    for start, paint, dash in LOOKS:
        if name.startswith(start):
            return paint, dash
    return GREY, ":"


def hosts_of(ranks: list[Any], nodes: pd.DataFrame | None, links: list[Link]) -> dict[Any, str]:
    """Return the host of each rank from the log's table of ranks.

    The log of one node does not name other ranks' hosts. A rank reached through shared memory is on
    the same node.
    """
    if nodes is None:
        return dict.fromkeys(ranks, _("one node"))
    named = zip(nodes["rank"], nodes["host"].astype(object), strict=True)
    known = {rank: host for rank, host in named if isinstance(host, str) and host}
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


def _alt_text(ranks: list[Any], hosts: dict[Any, str], links: list[Link]) -> str:
    nodes = list(dict.fromkeys(hosts.values()))
    parts = [
        _(
            "Topology of {ranks} ranks on {nodes} node{s}.",
            ranks=len(ranks),
            nodes=len(nodes),
            s="s" * (len(nodes) > 1),
        )
    ]
    for where, is_inside in ((_("Inside nodes"), True), (_("Between nodes"), False)):
        counts = Counter(
            link.transport
            for link in links
            if (hosts[link.first] == hosts[link.second]) == is_inside
        )
        if counts:
            said = [
                _("{n} link{s} by {name}", n=n, s="s" * (n > 1), name=name)
                for name, n in counts.most_common()
            ]
            parts.append(f"{where}: {listed(said)}.")
    return " ".join(parts) if links else _("{parts} No links.", parts=parts[0])


def place(
    ranks: list[Any], hosts: dict[Any, str]
) -> tuple[dict[Any, tuple[float, float]], dict[str, tuple[float, float, float, float]]]:
    """Place the devices of a node in a row or a circle, and the nodes in rows.

    Every second row runs backwards, so that a ring through the nodes has short links.
    """
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
    """Return the positions of a node's devices, from its top left corner."""
    if devices <= 2:
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
    """Choose the number of columns: the fewest empty places, then a picture wider than high."""

    def cost(columns: int) -> float:
        rows = math.ceil(nodes / columns)
        return 0.35 * (rows * columns - nodes) + abs(math.log(columns * shape / rows / 1.7))

    return min(range(1, min(nodes, 8) + 1), key=cost)
