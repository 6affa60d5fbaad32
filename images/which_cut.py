"""Draws images/which_cut.svg: which kind of parallelism suits which memory problem.

python images/which_cut.py
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, STEP, TOP = 1000, 92, 24
INK, PAPER, SOFT, BLUE, GREEN = "#1f2933", "#ffffff", "#eef2f6", "#0072b2", "#009e73"
LADDER = [
    (
        ["Do the model, its optimizer and one", "sample fit into one device?"],
        ["Copy it: data parallelism", "one all-reduce of the gradients per step (03)"],
    ),
    (
        ["Is one sample too long for a device,", "even with recomputation?"],
        [
            "Context parallelism: split the sequence",
            "keys and values are gathered per layer (13b)",
        ],
    ),
    (
        ["Do the activations take", "most of the memory?"],
        [
            "Smaller micro-batches, 16 bits, recomputation",
            "they cost time or care, no messages (10, 08, 09)",
        ],
    ),
    (
        ["Does the model have experts, which", "hold most of its parameters?"],
        [
            "Expert parallelism: distribute the experts",
            "two all-to-alls per layer and pass (13c)",
        ],
    ),
    (
        ["Does it fit if the devices shard the", "optimizer's state and the gradients?"],
        ["ZeRO-1 or ZeRO-2", "the bytes of one all-reduce, in two collectives"],
    ),
    (
        ["Is there a sample for every device, and", "a link that can carry the model once more?"],
        [
            "ZeRO-3, FSDP: shard the parameters too",
            "1.5 times the bytes, gathered one layer ahead (11)",
        ],
    ),
    (
        ["Does a fast link connect the devices,", "as inside a node?"],
        [
            "Tensor parallelism: split every matrix",
            "four all-reduces per layer, hard to overlap (07)",
        ],
    ),
    (
        ["Otherwise, or if it still does not fit"],
        [
            "Pipeline parallelism: layers become stages",
            "few messages, even between nodes; a bubble (07b)",
        ],
    ),
]


def box(x: int, y: int, width: int, fill: str, stroke: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="60" rx="8" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="1.5"/>'
    )


def words(x: int, y: int, lines: list[str], *, bold: bool) -> list[str]:
    first = y + (35 if len(lines) == 1 else 25)
    weight = ' font-weight="bold"' if bold else ""
    return [
        f'<text x="{x}" y="{first + 21 * row}" font-size="16" fill="{INK}"'
        f"{weight if row == 0 else ''}>{escape(line)}</text>"
        for row, line in enumerate(lines)
    ]


def arrow(path: str) -> str:
    return f'<path d="{path}" fill="none" stroke="{INK}" stroke-width="2" marker-end="url(#head)"/>'


def drawn() -> str:
    parts = [
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker>'
    ]
    for row, (question, answer) in enumerate(LADDER):
        y = TOP + row * STEP
        parts += [box(20, y, 400, SOFT, BLUE), *words(36, y, question, bold=False)]
        parts += [box(520, y, 460, PAPER, GREEN), *words(536, y, answer, bold=True)]
        parts.append(arrow(f"M420,{y + 30} L516,{y + 30}"))
        last = row == len(LADDER) - 1
        if not last:
            parts.append(arrow(f"M220,{y + 60} L220,{y + STEP - 4}"))
            parts += [f'<text x="452" y="{y + 22}" font-size="14" fill="{INK}">yes</text>']
            parts += [f'<text x="230" y="{y + 80}" font-size="14" fill="{INK}">no</text>']
    height = TOP + STEP * len(LADDER)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="DejaVu Sans, Helvetica, Arial, sans-serif">'
        f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    Path(__file__).with_name("which_cut.svg").write_text(drawn(), encoding="utf-8")
