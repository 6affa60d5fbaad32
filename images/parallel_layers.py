"""Draws two figures of lesson 13: an MLP on two ranks, and the same MLP with sequence parallelism.

python images/parallel_layers.py
"""

from __future__ import annotations

from pathlib import Path

from many_processes import picture
from overview import BLUE, GREEN, ORANGE, PAPER, SOFT, arrow, box, words

HERE = Path(__file__).parent
BOXES = ((250, "A: some columns", BLUE), (440, "activation", GREEN), (580, "B: some rows", BLUE))


def rank(y: int, name: str) -> list[str]:
    """Return the boxes of one rank, between the two collectives."""
    parts = [box(225, y, 530, 76, SOFT), words(240, y + 20, name, size=13)]
    for x, text, colour in BOXES:
        width = 120 if text == "activation" else 155
        parts += [
            box(x, y + 28, width, 38, PAPER, colour),
            words(x + width // 2, y + 52, text, size=14, anchor="middle"),
        ]
    return parts


def operation(x: int, y: int, name: str) -> str:
    """Return the name of a collective, in a size that fits its box."""
    size = 12 if len(name) > 12 else 14
    return words(x, y, name, size=size, anchor="middle", font_weight="bold")


def meeting(x: int, forward: str, backward: str) -> list[str]:
    return [
        box(x, 70, 110, 196, PAPER, ORANGE),
        words(x + 55, 118, "forward:", size=13, anchor="middle", fill=BLUE),
        operation(x + 55, 138, forward),
        words(x + 55, 208, "backward:", size=13, anchor="middle", fill=GREEN),
        operation(x + 55, 228, backward),
    ]


def between(left: str, right: str, *, ways: tuple[str, str]) -> list[str]:
    parts = [*rank(80, "rank 0"), *rank(180, "rank 1")]
    parts += meeting(100, ways[0], ways[1]) + meeting(770, ways[1], ways[0])
    parts += [
        arrow("M20,150 L96,150", BLUE), arrow("M884,150 L970,150", BLUE),
        arrow("M970,195 L884,195", GREEN), arrow("M96,195 L20,195", GREEN),
        words(14, 136, left, size=14, fill=BLUE), words(894, 136, right, size=14, fill=BLUE),
        words(14, 218, "gradient", size=13, fill=GREEN),
        words(894, 218, "gradient", size=13, fill=GREEN),
    ]  # fmt: skip
    return parts


def layer_pairs() -> str:
    parts = [
        words(155, 50, "CopyIn", size=16, anchor="middle", font_weight="bold"),
        words(825, 50, "SumOut", size=16, anchor="middle", font_weight="bold"),
        *between("all of x", "all of y", ways=("nothing", "all-reduce")),
    ]
    return picture("An MLP on two ranks: communication in forward and backward", 300, parts)


def token_pairs() -> str:
    parts = [
        words(155, 50, "GatherTokens", size=16, anchor="middle", font_weight="bold"),
        words(825, 50, "ScatterTokens", size=16, anchor="middle", font_weight="bold"),
        *between("own tokens", "own tokens", ways=("all-gather", "reduce-scatter")),
    ]
    return picture("The same MLP with sequence parallelism: communication of tokens", 300, parts)


if __name__ == "__main__":
    (HERE / "layer_pairs.svg").write_text(layer_pairs(), encoding="utf-8")
    (HERE / "token_pairs.svg").write_text(token_pairs(), encoding="utf-8")
