"""Groups of ranks: one square per rank, coloured by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from course_lib.mistakes.errors import ArgumentError
from course_lib.show.picture import Picture, shown
from course_lib.show.style import HATCHES, PAPER, SERIES, bare, listed, readable_on, sheet
from course_lib.words import _

Groups = Sequence[Sequence[int]]
_SECOND = ("", "--", "||", "**", "OO")


def ranks(groups: Mapping[str, Groups] | Groups, devices_per_node: int | None = None) -> Picture:
    """Draw groups of ranks.

    `groups` is one kind ([[0, 1], [2, 3]]) or several by name ({"tensor": …, "data": …}).
    """
    kinds = dict(groups) if isinstance(groups, Mapping) else {"groups": groups}
    for kind, members in kinds.items():
        _check(kind, members)
    world = 1 + max(rank for members in kinds.values() for group in members for rank in group)
    columns = devices_per_node or (8 if world % 8 == 0 else world if world <= 12 else 8)
    rows = -(-world // columns)
    across = 1 if columns > 8 or len(kinds) == 1 else min(len(kinds), 2 if columns > 4 else 3)
    down = -(-len(kinds) // across)
    cell_in = min(8.0 / across / (columns + 0.6), 0.8)
    with sheet(height_in=max(down * (rows * cell_in + 0.75), 1.6)) as page:
        for axes, (kind, members) in zip(page.panels(down, across), kinds.items(), strict=False):
            _panel(axes, kind, members, (world, rows, columns), nodes=bool(devices_per_node))
        for axes in page.figure.axes[len(kinds) :]:
            axes.set_visible(False)
        return page.picture(
            " ".join(
                f"{kind}: {listed('-'.join(map(str, group)) for group in members[:12])}"
                + (
                    _(" and {members} more.", members=len(members) - 12)
                    if len(members) > 12
                    else "."
                )
                for kind, members in kinds.items()
            )
        )


def _check(kind: str, members: Groups) -> None:
    seen: set[int] = set()
    for group in members:
        twice = seen & set(group)
        if twice:
            raise ArgumentError(
                _(
                    "rank {twice} is in two {kind} groups; put every rank into exactly one",
                    twice=min(twice),
                    kind=kind,
                )
            )
        seen |= set(group)
    if not seen:
        raise ArgumentError(_("the {kind} groups contain no rank", kind=kind))


def _panel(
    axes: Axes, kind: str, members: Groups, shape: tuple[int, int, int], *, nodes: bool
) -> None:
    world, rows, columns = shape
    group_of = {rank: number for number, group in enumerate(members) for rank in group}
    sizes = set(map(len, members))
    size = f" ({len(members)} × {max(sizes)})" if len(sizes) == 1 else ""
    bare(axes).set_title(f"{shown(kind)}{size}", pad=4)
    for rank in range(world):
        row, column = divmod(rank, columns)
        _square(axes, column, rows - 1 - row, rank, group_of.get(rank))
        if nodes and column == 0:
            name = _("node {row}", row=row + 1)
            axes.text(-0.12, rows - 0.5 - row, name, ha="right", va="center", fontsize=9)
    axes.set_xlim(-0.9 if nodes else -0.05, columns + 0.05)
    axes.set_ylim(-0.05, rows + 0.05)
    axes.set_aspect("equal")


def _square(axes: Axes, x: float, y: float, rank: int, group: int | None) -> Any:
    """Draw a rank. Colours repeat after eight groups, which then have a second hatching."""
    paint = "#eeeeee" if group is None else SERIES[group % len(SERIES)]
    second = "" if group is None else _SECOND[group // len(SERIES) % len(_SECOND)]
    hatch = HATCHES.get(paint, "") + second
    box = Rectangle((x + 0.04, y + 0.04), 0.92, 0.92, fc=paint, hatch=hatch, ec=PAPER, lw=0)
    axes.add_patch(box)
    ground = {"facecolor": paint, "edgecolor": "none", "pad": 1.5}
    axes.text(
        x + 0.5, y + 0.5, str(rank), ha="center", va="center", fontweight="bold",
        color=readable_on(paint), bbox=ground,
    )  # fmt: skip
