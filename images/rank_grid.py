"""Draws the figure of lesson 07b: eight ranks as a grid of tensor, data and pipeline parallelism.

python images/rank_grid.py
"""

from __future__ import annotations

import math
from pathlib import Path

from many_processes import picture, striped, stripes
from overview import BLUE, GREEN, INK, ORANGE, PAPER, SOFT, arrow, words

# Steps on paper along the three axes. In the order tp-dp-pp the rank is tp + 2 dp + 4 pp.
TENSOR, DATA, PIPELINE = (250, 0), (120, -110), (0, 250)
ORIGIN = (110, 210)
HALF_WIDE, HALF_TALL = 46, 24
# The groups of rank 3, each with a colour and a hatching of its own.
GROUPS = (
    ("tensor group 2, 3: shares every matrix", (2, 3), BLUE, 0),
    ("data group 1, 3: same part, different samples", (1, 3), GREEN, 90),
    ("pipeline group 3, 7: the stages of one copy", (3, 7), ORANGE, -45),
)


def place(rank: int) -> tuple[int, int]:
    tp, dp, pp = rank % 2, rank // 2 % 2, rank // 4
    x = ORIGIN[0] + tp * TENSOR[0] + dp * DATA[0] + pp * PIPELINE[0]
    y = ORIGIN[1] + tp * TENSOR[1] + dp * DATA[1] + pp * PIPELINE[1]
    return x, y


def floor(first: int, name: str) -> list[str]:
    """Return the plane of one node, which holds four ranks."""
    corners = [place(first + step) for step in (0, 1, 3, 2)]
    outward = ((-90, 44), (70, 44), (104, -44), (-56, -44))
    points = " ".join(
        f"{x + dx},{y + dy}" for (x, y), (dx, dy) in zip(corners, outward, strict=True)
    )
    x, y = corners[0]
    return [
        f'<polygon points="{points}" fill="{SOFT}" stroke="{INK}" stroke-width="1"/>',
        words(x - 72, y + 38, name, size=14, font_weight="bold"),
    ]


def edge(first: int, second: int) -> str:
    (x1, y1), (x2, y2) = place(first), place(second)
    return f'<path d="M{x1},{y1} L{x2},{y2}" stroke="{INK}" stroke-width="1.2" fill="none"/>'


def band(ranks: tuple[int, int], colour: str) -> str:
    """Return a hatched band from one rank of a group to the other."""
    (x1, y1), (x2, y2) = map(place, ranks)
    long = math.hypot(x2 - x1, y2 - y1)
    dx, dy = 15 * (y1 - y2) / long, 15 * (x2 - x1) / long
    corners = ((x1 + dx, y1 + dy), (x2 + dx, y2 + dy), (x2 - dx, y2 - dy), (x1 - dx, y1 - dy))
    points = " ".join(f"{x:.0f},{y:.0f}" for x, y in corners)
    return (
        f'<polygon points="{points}" fill="{striped(colour)}" stroke="{colour}" stroke-width="2"/>'
    )


def square(rank: int) -> list[str]:
    x, y = place(rank)
    return [
        f'<rect x="{x - HALF_WIDE}" y="{y - HALF_TALL}" width="{2 * HALF_WIDE}" '
        f'height="{2 * HALF_TALL}" rx="8" fill="{PAPER}" stroke="{INK}" '
        f'stroke-width="{3 if rank == 3 else 1.5}"/>',
        words(x, y + 6, f"rank {rank}", size=16, anchor="middle",
              font_weight="bold" if rank == 3 else "normal"),
    ]  # fmt: skip


def key(x: int, y: int) -> list[str]:
    parts = [words(x, y, "the three groups of rank 3", size=17, font_weight="bold")]
    for row, (name, _ranks, colour, _turn) in enumerate(GROUPS):
        top = y + 24 + 44 * row
        parts += [
            f'<rect x="{x}" y="{top}" width="46" height="28" fill="{striped(colour)}" '
            f'stroke="{colour}" stroke-width="2"/>',
            words(x + 58, top + 20, name, size=15),
        ]
    parts.append(words(x, y + 206, "the axes, in the order tp-dp-pp", size=17, font_weight="bold"))
    corner = (x + 20, y + 310)
    for (dx, dy), name, colour, at in (
        (TENSOR, "tensor", BLUE, (108, 5)),
        (DATA, "data", GREEN, (62, -46)),
        (PIPELINE, "pipeline", ORANGE, (-8, 112)),
    ):
        share = 95 / math.hypot(dx, dy) if name != "data" else 75 / math.hypot(dx, dy)
        end = (corner[0] + round(dx * share), corner[1] + round(dy * share))
        parts.append(arrow(f"M{corner[0]},{corner[1]} L{end[0]},{end[1]}", colour))
        parts.append(words(corner[0] + at[0], corner[1] + at[1], name, size=15, fill=colour))
    return parts


def rank_grid() -> str:
    near = [(0, 1), (0, 2), (4, 5), (4, 6), (5, 7), (6, 7), (0, 4), (1, 5), (2, 6)]
    parts = [stripes(colour, turn=turn) for _name, _ranks, colour, turn in GROUPS]
    parts += [*floor(4, "node 2"), *floor(0, "node 1")]
    parts += [edge(*pair) for pair in near]
    parts += [band(ranks, colour) for _name, ranks, colour, _turn in GROUPS]
    for rank in (6, 7, 4, 5, 2, 3, 0, 1):
        parts += square(rank)
    return picture(
        "Eight ranks in a grid, with the three groups of rank 3", 540, parts + key(610, 60)
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(rank_grid(), encoding="utf-8")
