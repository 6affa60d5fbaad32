"""Draws the figure of lesson 13b: pairs of queries and keys, in two divisions over four ranks.

python images/causal_pieces.py
"""

from __future__ import annotations

from pathlib import Path

from many_processes import on_paper, picture, striped, stripes
from overview import BLUE, GREEN, INK, ORANGE, PAPER, words

PIECES, RANKS, CELL, TOP = 8, 4, 38, 92
VIOLET = "#8e4585"
# Every rank differs in colour and in hatching.
PAINTS = (("#dceaf5", BLUE), (ORANGE, ORANGE), (GREEN, GREEN), ("#b08bb0", VIOLET))
IN_ORDER = tuple(piece // 2 for piece in range(PIECES))
EARLY_AND_LATE = tuple(min(piece, PIECES - 1 - piece) for piece in range(PIECES))


def cell(x: int, y: int, rank: int) -> str:
    fill, stroke = PAINTS[rank]
    fill = fill if rank in (0, 3) else striped(fill)
    return (
        f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="1.2"/>'
    )


def triangle(left: int, title: str, owners: tuple[int, ...]) -> list[str]:
    """Return the squares of all pairs, a row for each eighth of the queries."""
    wide = PIECES * CELL
    parts = [
        words(left + wide // 2, 34, title, size=17, anchor="middle", font_weight="bold"),
        words(left + wide // 2, 62, "keys, eighths 1 to 8 →", size=14, anchor="middle"),
        words(
            left - 16, TOP + wide // 2, "queries", size=14, anchor="middle",
            transform=f"rotate(-90 {left - 16} {TOP + wide // 2})",
        ),
        f'<rect x="{left}" y="{TOP}" width="{wide}" height="{wide}" fill="none" '
        f'stroke="{INK}" stroke-width="0.6"/>',
    ]  # fmt: skip
    for query, rank in enumerate(owners):
        y = TOP + query * CELL
        parts += [cell(left + key * CELL, y, rank) for key in range(query + 1)]
        parts.append(words(left + wide + 12, y + 25, f"rank {rank}", size=14))
    for rank in range(RANKS):
        pairs = sum(query + 1 for query, owner in enumerate(owners) if owner == rank)
        x, y = left + rank * 114 - 48, TOP + wide + 22
        parts.append(cell(x, y, rank))
        if rank:
            parts += on_paper(x + CELL // 2, y + 25, str(rank), 20, size=15)
        else:
            parts.append(words(x + CELL // 2, y + 25, str(rank), size=15, anchor="middle"))
        parts.append(words(x + CELL + 8, y + 25, f"{pairs} pairs", size=15, font_weight="bold"))
    return parts


def causal_pieces() -> str:
    parts = [
        stripes(ORANGE, PAPER), stripes(GREEN, "#bfe5d9", turn=-45),
        *triangle(60, "in order: a step lasts 15 pairs", IN_ORDER),
        *triangle(560, "early and late: a step lasts 9 pairs", EARLY_AND_LATE),
    ]  # fmt: skip
    return picture("Causal attention over four ranks, with pieces in two orders", 480, parts)


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(causal_pieces(), encoding="utf-8")
