"""Draw the figure of lesson 00: login node, queue, nodes with their devices, and the link.

python images/cluster.py
"""

from __future__ import annotations

from pathlib import Path

from many_processes import picture
from overview import BLUE, GREEN, INK, ORANGE, PAPER, SOFT, arrow, box, words

HERE = Path(__file__).parent


def node(x: int, number: int) -> list[str]:
    """Return a node with two device slots."""
    parts = [
        box(x, 60, 170, 130, SOFT),
        words(x + 85, 86, f"node{number}", size=16, anchor="middle", font_weight="bold"),
    ]
    for slot in range(2):
        y = 100 + 42 * slot
        parts += [
            box(x + 20, y, 130, 34, "#dceaf5", BLUE),
            words(x + 85, y + 22, "device slot", size=13, anchor="middle"),
        ]
    return parts


def cluster() -> str:
    parts = [
        box(20, 60, 190, 130, SOFT),
        words(115, 88, "login node", size=17, anchor="middle", font_weight="bold"),
        words(115, 116, "you, your notebook", size=14, anchor="middle"),
        words(115, 160, "sbatch job.sh", size=14, anchor="middle", font_family="monospace"),
        arrow("M210,125 L286,125", GREEN),
        words(248, 115, "submit", size=13, anchor="middle", fill=GREEN),
        box(290, 60, 190, 130, PAPER, GREEN),
        words(385, 48, "queue", size=17, anchor="middle", font_weight="bold"),
    ]
    for place in range(3):
        y = 72 + 38 * place
        parts += [
            box(310, y, 150, 30, SOFT),
            words(385, y + 20, f"job {place + 1}", size=14, anchor="middle"),
        ]
    parts += [
        arrow("M480,125 L566,125", GREEN),
        words(523, 115, "start", size=13, anchor="middle", fill=GREEN),
        *node(570, 1), *node(810, 2),
        f'<path d="M740,125 L810,125" fill="none" stroke="{ORANGE}" stroke-width="5"/>',
        words(775, 112, "link", size=14, anchor="middle", fill=ORANGE),
        words(775, 48, "compute nodes", size=17, anchor="middle", font_weight="bold"),
        f'<path d="M655,190 C655,240 115,240 115,196" fill="none" stroke="{INK}" '
        'stroke-width="1.5" stroke-dasharray="6 4" marker-end="url(#head-1f2933)"/>',
        words(385, 248, "output in a file that all nodes see", size=13, anchor="middle"),
    ]  # fmt: skip
    return picture(
        "A cluster: login node, queue, compute nodes and the link between them", 262, parts
    )


if __name__ == "__main__":
    (HERE / "cluster.svg").write_text(cluster(), encoding="utf-8")
