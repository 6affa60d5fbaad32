"""Draws the figure of lesson 10: tokens of micro-batches, and their votes in two means.

python images/token_votes.py
"""

from __future__ import annotations

from pathlib import Path

from many_processes import on_paper, picture, striped, stripes
from overview import BLUE, INK, ORANGE, words

# Tokens with a loss in the four micro-batches of both ranks, as in code/weigh_tokens.py.
TOKENS = ((64, 8, 8, 8), (8, 64, 64, 64))
SHORT = 8
LEFT, WIDE, TALL = 20, 960, 50
PALE_BLUE, PALE_ORANGE = "#dceaf5", "#fbe5d6"


def segment(x: float, y: int, width: float, tokens: int) -> str:
    short = tokens == SHORT
    fill, stroke = (striped(ORANGE), ORANGE) if short else (PALE_BLUE, BLUE)
    return (
        f'<rect x="{x:g}" y="{y}" width="{width:g}" height="{TALL}" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="1.5"/>'
    )


def joined(y: int, title: str, note: str, weights: list[int], votes: list[str]) -> list[str]:
    """Return one bar in which each micro-batch is as wide as its votes."""
    parts = [words(LEFT, y - 14, title, size=17, font_weight="bold")]
    parts.append(words(LEFT + WIDE, y - 14, note, size=15, anchor="end", fill=ORANGE))
    x = float(LEFT)
    for tokens, weight, vote in zip(sum(TOKENS, ()), weights, votes, strict=True):
        width = WIDE * weight / sum(weights)
        parts.append(segment(x, y, width, tokens))
        if vote:
            parts += on_paper(round(x + width / 2), y + 31, vote, 44, size=15)
        x += width
    return parts


def micro_batches(y: int) -> list[str]:
    """Return the micro-batches of both ranks, in the order of their tokens."""
    parts = [words(LEFT, 32, "tokens with a loss in each micro-batch", size=17, font_weight="bold")]
    x = float(LEFT)
    for rank, batches in enumerate(TOKENS):
        begin = x
        for tokens in batches:
            width = 3 * tokens
            parts.append(segment(x, y, width, tokens))
            middle = round(x + width / 2)
            if tokens == SHORT:
                parts.append(words(middle, y + 68, str(tokens), size=15, anchor="middle"))
            else:
                parts += on_paper(middle, y + 31, str(tokens), 44, size=15)
            x += width + 8
        parts.append(words(int(begin), y - 12, f"rank {rank}", size=15))
        x += 24
    parts += [
        f'<path d="M{LEFT},{y + 84} L{LEFT + WIDE},{y + 84}" stroke="{INK}" stroke-width="0.8"/>',
    ]
    return parts


def token_votes() -> str:
    every = list(sum(TOKENS, ()))
    parts = [
        stripes(ORANGE, PALE_ORANGE),
        *micro_batches(74),
        *joined(
            204, "mean over the batch: each token has one vote",
            "short sequences: 32 of 288 votes, 11 %", every,
            ["" if tokens == SHORT else str(tokens) for tokens in every],
        ),
        *joined(
            314, "mean of means: each micro-batch has one vote",
            "short sequences: 4 of 8 votes, 50 %", [1] * len(every), ["1"] * len(every),
        ),
    ]  # fmt: skip
    return picture(
        "Votes of micro-batches in a mean over the batch and in a mean of means", 384, parts
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(token_votes(), encoding="utf-8")
