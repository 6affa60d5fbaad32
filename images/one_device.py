"""Draw three figures of lesson 01: chunks of a file, two ways to 16 bits, and starts of kernels.

python images/one_device.py
"""

from __future__ import annotations

from pathlib import Path

from many_processes import picture
from overview import BLUE, GREEN, INK, ORANGE, PAPER, SOFT, arrow, box, words

HERE = Path(__file__).parent
CELL, TIMES, FIELDS = 22, 16, 8
# The time whose state is read.
WANTED = 10


def cell(x: float, y: float, width: float, height: float, fill: str, stroke: str = INK) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="1.2"/>'
    )


def file_in_pieces(left: int, title: str, note: str, by_state: bool) -> list[str]:
    top, wide, tall = 84, TIMES * CELL, FIELDS * CELL
    parts = [
        words(left + wide // 2, 34, title, size=17, anchor="middle", font_weight="bold"),
        words(left + wide // 2, 66, "times →", size=13, anchor="middle"),
        cell(left, top, wide, tall, PAPER),
    ]
    if by_state:
        for time in range(TIMES):
            fill = ORANGE if time == WANTED else SOFT
            parts.append(cell(left + time * CELL, top, CELL, tall, fill))
    else:
        parts += [cell(left, top + n * CELL, wide, CELL, "#f6d3bf") for n in range(FIELDS)]
        parts += [
            cell(left + WANTED * CELL, top + n * CELL, CELL, CELL, ORANGE) for n in range(FIELDS)
        ]
    parts.append(words(left + wide // 2, top + tall + 28, note, size=14, anchor="middle"))
    return parts


def pieces() -> str:
    parts = [
        *file_in_pieces(
            60, "a chunk holds one field at 16 times", "reading one state unpacks all chunks", False
        ),
        *file_in_pieces(
            590, "a chunk holds all fields at one time", "reading one state unpacks one chunk", True
        ),
        words(34, 180, "fields", size=13, anchor="middle", transform="rotate(-90 34 180)"),
        words(564, 180, "fields", size=13, anchor="middle", transform="rotate(-90 564 180)"),
    ]
    return picture("Reading one state from two files with different chunks", 310, parts)


def chain(y: int, title: str, boxes: list[tuple[str, str, str]], marks: list[str]) -> list[str]:
    """Return boxes from left to right, with a label for what happens between them."""
    parts = [words(20, y - 18, title, size=17, font_weight="bold")]
    for place, (name, bits, colour) in enumerate(boxes):
        x = 20 + 250 * place
        parts += [
            box(x, y, 170, 62, PAPER if colour == INK else SOFT, colour),
            words(x + 85, y + 26, name, size=15, anchor="middle"),
            words(x + 85, y + 48, bits, size=14, anchor="middle", fill=colour),
        ]
    for place, mark in enumerate(marks):
        x = 190 + 250 * place
        parts += [
            arrow(f"M{x},{y + 31} L{x + 76},{y + 31}", INK),
            words(x + 38, y + 20, mark, size=12, anchor="middle"),
        ]
    return parts


def halves() -> str:
    wide, half = ("32 bits", BLUE), ("16 bits", ORANGE)
    parts = [
        *chain(
            50, "autocast: weights have 32 bits, matmuls use 16",
            [("weight", *wide), ("copy for a matmul", *half), ("gradient", *wide),
             ("Adam, same weight", *wide)],
            ["rounded", "backward", ""],
        ),
        *chain(
            190, "Megatron-LM and similar: weights have 16 bits, the optimizer uses 32",
            [("weight", *half), ("matmul", *half), ("sum of gradients", *wide),
             ("Adam, its own copy", *wide)],
            ["as it is", "backward", ""],
        ),
        arrow("M855,252 C855,300 105,300 105,256", GREEN),
        words(480, 276, "rounded after each step", size=13, anchor="middle", fill=GREEN),
    ]  # fmt: skip
    return picture("Which numbers have 32 bits, and which have 16", 310, parts)


def bars(y: int, name: str, spans: list[tuple[int, int]], fill: str) -> list[str]:
    parts = [words(150, y + 20, name, size=14, anchor="end")]
    return parts + [cell(x, y, width, 30, fill) for x, width in spans]


def launches() -> str:
    many = [(170 + 56 * n, 46) for n in range(12)]
    short = [(x + 46, 18) for x, _ in many]
    few = [(170 + 56 * n, 46) for n in range(4)]
    longer = [(x + 46, 44) for x, _ in few]
    packed = [(240 + 18 * n, 18) for n in range(12)]
    parts = [
        words(20, 30, "kernel by kernel: the device waits for Python", size=16, font_weight="bold"),
        *bars(44, "Python", many, SOFT), *bars(80, "device", short, ORANGE),
        words(20, 150, "compiled: fewer kernels, each does more", size=16, font_weight="bold"),
        *bars(164, "Python", few, SOFT), *bars(200, "device", longer, ORANGE),
        words(20, 270, "a CUDA graph: one start for all kernels", size=16, font_weight="bold"),
        *bars(284, "Python", [(170, 70)], SOFT), *bars(320, "device", packed, ORANGE),
        arrow("M170,378 L900,378", INK),
        words(880, 368, "time", size=13, anchor="end"),
    ]  # fmt: skip
    return picture("A step of many short kernels, started in three ways", 400, parts)


if __name__ == "__main__":
    for name, made in (
        ("file_in_pieces", pieces()), ("two_ways_to_halves", halves()),
        ("kernel_starts", launches()),
    ):  # fmt: skip
        (HERE / f"{name}.svg").write_text(made, encoding="utf-8")
