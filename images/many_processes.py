"""Draw two figures of lesson 02: which node reaches the internet, and how launchers meet.

python images/many_processes.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from overview import BLUE, GREEN, INK, ORANGE, PAPER, SOFT, arrow, box, head, words

WIDTH = 1000
HERE = Path(__file__).parent


def picture(title: str, height: int, parts: list[str]) -> str:
    heads = "".join(map(head, (INK, BLUE, GREEN, ORANGE)))
    body = "\n".join([
        f"<title>{title}</title>", f"<defs>{heads}</defs>",
        f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>', *parts,
    ])  # fmt: skip
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="Helvetica, Arial, sans-serif">\n{body}\n</svg>\n'
    )


def stripes(colour: str, ground: str = PAPER, turn: int = 45) -> str:
    """A hatching for boxes; `fill=striped(colour)` uses it."""
    return (
        f'<pattern id="stripes-{colour[1:]}" width="9" height="9" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate({turn})"><rect width="9" height="9" fill="{ground}"/>'
        f'<rect width="3" height="9" fill="{colour}"/></pattern>'
    )


def striped(colour: str) -> str:
    return f"url(#stripes-{colour[1:]})"


def on_paper(x: int, y: int, text: str, wide: int, **style: Any) -> list[str]:
    """Words in the middle of a hatched box, with paper behind them."""
    ground = f'<rect x="{x - wide // 2}" y="{y - 15}" width="{wide}" height="20" fill="{PAPER}"/>'
    return [ground, words(x, y, text, anchor="middle", **style)]


def cross(x: int, y: int, half: int) -> str:
    """A cross on paper colour, so that it interrupts the arrow below it."""
    left, right, top, bottom = x - half, x + half, y - half, y + half
    strokes = f"M{left},{top} L{right},{bottom} M{left},{bottom} L{right},{top}"
    return (
        f'<circle cx="{x}" cy="{y}" r="{half + 4}" fill="{PAPER}"/>'
        f'<path d="{strokes}" fill="none" stroke="{ORANGE}" stroke-width="5"/>'
    )


def login_and_compute() -> str:
    parts = [
        box(20, 70, 160, 110, SOFT),
        words(100, 130, "the internet", size=17, anchor="middle", font_weight="bold"),
        box(330, 50, 250, 226, SOFT),
        words(455, 80, "login node", size=17, anchor="middle", font_weight="bold"),
        words(455, 105, "you, your notebook, sbatch", size=14, anchor="middle"),
        box(390, 125, 130, 50, PAPER, GREEN),
        words(455, 155, "letters.txt", size=14, anchor="middle", font_family="monospace"),
        arrow("M180,150 L386,150", GREEN),
        words(255, 140, "1. fetch", size=14, anchor="middle", fill=GREEN),
        box(370, 200, 170, 54, PAPER, ORANGE),
        words(455, 232, "python train.py", size=14, anchor="middle", font_family="monospace"),
        cross(540, 227, 12),
        words(604, 226, "no training on the login node:", size=15, fill=ORANGE, font_weight="bold"),
        words(604, 246, "all users share its processors", size=14, fill=ORANGE),
    ]
    for index in range(2):
        y = 50 + 80 * index
        parts += [
            box(760, y, 210, 66, SOFT),
            words(865, y + 28, f"compute node{index + 1}", size=16, anchor="middle"),
            words(865, y + 50, "your job: train.py", size=13, anchor="middle"),
        ]
    parts += [
        arrow("M520,160 L756,160", GREEN),
        words(669, 150, "2. read from", size=14, anchor="middle", fill=GREEN),
        words(669, 180, "a shared folder", size=14, anchor="middle", fill=GREEN),
        arrow("M865,50 C865,5 300,5 105,64", ORANGE),
        cross(558, 18, 12),
        words(700, 42, "not allowed", size=15, anchor="middle", fill=ORANGE, font_weight="bold"),
    ]
    return picture("The login node reaches the internet, and compute nodes do not", 296, parts)


def rendezvous() -> str:
    parts = [
        box(380, 30, 240, 80, SOFT),
        words(500, 60, "node1:10000", size=16, anchor="middle", font_family="monospace"),
        words(500, 86, "2 of 3 have arrived", size=15, anchor="middle", fill=ORANGE),
    ]
    for index, (x, text, colour) in enumerate(
        [(60, "I am here", BLUE), (390, "I am here", BLUE), (720, "never started", ORANGE)]
    ):
        parts += [
            box(x, 190, 220, 80, PAPER if index < 2 else SOFT, colour),
            words(x + 110, 222, f"launcher {index + 1}", size=16, anchor="middle"),
            words(x + 110, 248, text, size=14, anchor="middle", fill=colour),
        ]
    parts += [
        arrow("M170,190 L376,96", BLUE), arrow("M500,190 L500,114", BLUE),
        words(810, 150, "late, or not started?", size=15, anchor="middle", fill=ORANGE),
        words(810, 170, "the others cannot tell", size=15, anchor="middle", fill=ORANGE),
    ]  # fmt: skip
    return picture("Two launchers wait at the rendezvous for a third", 290, parts)


if __name__ == "__main__":
    (HERE / "login_and_compute.svg").write_text(login_and_compute(), encoding="utf-8")
    (HERE / "rendezvous.svg").write_text(rendezvous(), encoding="utf-8")
