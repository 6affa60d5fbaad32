"""The topology as a picture: nodes as boxes, devices inside, links coloured by transport."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from course_lib.mistakes.errors import ArgumentError
from course_lib.show.networks.bends import free_bend
from course_lib.show.networks.places import RADIUS, place
from course_lib.show.networks.transports import Link, counts_of, hosts_of, links_of, look, said_of
from course_lib.show.picture import Picture
from course_lib.show.style import (
    INK,
    PAPER,
    QUIET,
    bare,
    listed,
    sheet,
    shorten,
)

DRAWN_ONE_BY_ONE = 64
TITLE_CHARACTERS = 82
NAMED_LINKS = 8
"""With more, the key names the roads: words would lie over each other."""
BETWEEN_ONE_BY_ONE = 24
"""More links than this between nodes are drawn as one line for every pair of nodes."""


def topology(
    matrix: pd.DataFrame | Any,
    nodes: Mapping[Any, str] | pd.DataFrame | None = None,
    names: Mapping[Any, str] | None = None,
) -> Picture:
    """Draws a transport matrix (source × destination, "" where there is no link).

    `nodes` says on which host each rank is (a mapping, or the `ranks` table of an NCCL log).
    Above 64 ranks the nodes are summarised: how many links of which transport, in and between.
    A log that was simulated is called so in the picture.
    """
    simulated = str(getattr(matrix, "simulated", "") or "")
    if not isinstance(matrix, pd.DataFrame):
        nodes = _members(matrix) if nodes is None else nodes
        matrix = matrix.matrix()
    ranks = list(dict.fromkeys([*matrix.index, *matrix.columns]))
    if not ranks:
        raise ArgumentError("this transport matrix is empty: was the job run with NCCL_DEBUG=INFO?")
    links = list(links_of(matrix))
    hosts = hosts_of(ranks, nodes, links)
    if len(ranks) > DRAWN_ONE_BY_ONE:
        return _summary(ranks, hosts, links, simulated)
    return _drawn(ranks, hosts, links, names or {}, simulated)


def _members(log: Any) -> pd.DataFrame:
    """Of the communicator that is drawn: rank 0 of another may be elsewhere."""
    ranks: pd.DataFrame = log.ranks
    return ranks[ranks["communicator"] == log.largest()] if "communicator" in ranks else ranks


def _drawn(
    ranks: list[Any], hosts: dict[Any, str], links: list[Link], names: Mapping[Any, str],
    simulated: str,
) -> Picture:  # fmt: skip
    places, boxes = place(ranks, hosts)
    width = max(x + w for x, _, w, _ in boxes.values())
    height = max(y + h for _, y, _, h in boxes.values())
    margin = max(0.3, (7.0 - width) / 2)
    with sheet(height_in=min(max(8.0 * (height + 1.1) / (width + 2 * margin), 2.8), 6.2)) as page:
        axes = bare(page.axes())
        if simulated:  # above the figure, since the axes may be much narrower
            style = {"fontsize": 11, "fontweight": "bold", "ha": "left"}
            page.figure.suptitle(_warned(simulated), x=0.02, **style)
        patches = _draw_nodes(axes, boxes)
        circles = {
            rank: Circle(place, RADIUS, fc=PAPER, ec=INK, lw=1.6, zorder=4)
            for rank, place in places.items()
        }
        _draw_links(axes, links, hosts, circles, patches)
        _draw_ranks(axes, circles, names)
        axes.set_xlim(-margin, width + margin)
        axes.set_ylim(-0.6, height + 0.3)
        axes.set_aspect("equal")
        _key(page.figure, links)
        return page.picture(_warned(simulated, said_of(ranks, hosts, links)))


def _draw_links(
    axes: Axes, links: list[Link], hosts: dict[Any, str], circles: dict[Any, Circle],
    nodes: dict[str, FancyBboxPatch],
) -> None:  # fmt: skip
    """Those within nodes one by one; of many between nodes, one road for each two nodes."""
    crowded, few = len(links) > 24, len(links) <= NAMED_LINKS
    between = [link for link in links if hosts[link.first] != hosts[link.second]]
    for link in links:
        if hosts[link.first] == hosts[link.second]:
            _draw_link(axes, link, circles, inside=True, crowded=crowded, few=few)
    if len(between) > BETWEEN_ONE_BY_ONE:
        _draw_roads(axes, between, hosts, nodes)
        return
    for link in between:
        _draw_link(axes, link, circles, inside=False, crowded=crowded, few=few)


def _draw_ranks(axes: Axes, circles: Mapping[Any, Circle], names: Mapping[Any, str]) -> None:
    size = 12 if len(circles) <= 16 else 8.5
    for rank, circle in circles.items():
        axes.add_patch(circle)
        axes.annotate(
            names.get(rank, str(rank)), circle.center, ha="center", va="center", zorder=5,
            fontsize=size, fontweight="bold",
        )  # fmt: skip


def _warned(simulated: str, text: str = "") -> str:
    """Nobody is to take a simulated topology for that of a machine."""
    if not simulated:
        return text
    title = "\n".join(textwrap.wrap(f"Simulated: {simulated}", TITLE_CHARACTERS))
    return f"{title}\n{text}".strip()


def _draw_nodes(axes: Axes, boxes: Mapping[str, Any]) -> dict[str, FancyBboxPatch]:
    """Names of nodes often differ at their end only."""
    same = {shorten(host, 18) for host in boxes}
    patches = {}
    for host, (x, y, w, h) in boxes.items():
        text = shorten(host, 18) if len(same) == len(boxes) else f"…{host[-16:]}"
        patches[host] = _box(x, y, w, h)
        axes.add_patch(patches[host])
        axes.text(x + 0.12, y + h - 0.1, text, va="top", fontweight="bold", zorder=7)
    return patches


def _draw_roads(
    axes: Axes, between: list[Link], hosts: Mapping[Any, str], patches: Mapping[str, FancyBboxPatch]
) -> None:
    """One line for each pair of nodes and transport, the thicker the more links; it runs behind
    the boxes that lie on its way."""
    counts = Counter(
        (*sorted((hosts[link.first], hosts[link.second])), link.transport) for link in between
    )
    most = max(counts.values())
    for (one, other, transport), count in counts.items():
        start, end = (_middle(patches[host]) for host in (one, other))
        paint, dash = look(transport)
        bend = 0.0 if math.dist(start, end) < 6 else 0.12
        axes.add_patch(
            FancyArrowPatch(
                start, end, connectionstyle=f"arc3,rad={bend}", color=paint, ls=dash, zorder=0.5,
                lw=1.2 + 3.0 * count / most, arrowstyle="-", patchA=patches[one],
                patchB=patches[other],
            )
        )  # fmt: skip


def _middle(box: FancyBboxPatch) -> tuple[float, float]:
    return box.get_x() + box.get_width() / 2, box.get_y() + box.get_height() / 2


def _box(x: float, y: float, width: float, height: float) -> FancyBboxPatch:
    shape = "round,pad=0,rounding_size=0.15"
    return FancyBboxPatch((x, y), width, height, shape, fc="#f5f7f9", ec=QUIET)


def _draw_link(
    axes: Axes, link: Link, circles: Mapping[Any, Circle], *, inside: bool, crowded: bool,
    few: bool = False,
) -> None:  # fmt: skip
    paint, dash = look(link.transport)
    first, second = circles[link.first], circles[link.second]
    start, end = first.center, second.center
    if crowded and inside:  # hundreds of them: the circles hide the ends, which need no cutting
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


def _summary(ranks: list[Any], hosts: dict[Any, str], links: list[Link], simulated: str) -> Picture:
    """Two boxes for all alike nodes, and the counts that a drawing of a thousand would hide."""
    per_node = Counter(hosts.values())
    inside, between = counts_of(links, hosts)
    pairs = {frozenset((hosts[link.first], hosts[link.second])) for link in links}
    linked = sum(len(pair) == 2 for pair in pairs)
    sizes = Counter(per_node.values()).most_common(3)
    shape = listed(f"{count} nodes of {size} devices" for size, count in sizes)
    with sheet(height_in=3.0) as page:
        axes = bare(page.axes(title=_warned(simulated, f"{len(ranks)} ranks: {shape}")))
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
        said = f"{said_of(ranks, hosts, links)} {linked} pairs of nodes are linked."
        return page.picture(_warned(simulated, said))
