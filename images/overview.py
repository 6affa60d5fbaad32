"""Draws images/overview.svg: a lesson, the cluster that it uses, and the run that it reads.

python images/overview.py
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT, TOP = 1000, 380, 40
INK, PAPER, SOFT = "#1f2933", "#ffffff", "#eef2f6"
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"


def box(x: int, y: int, width: int, height: int, fill: str, stroke: str = INK) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="1.5"/>'
    )


def words(x: int, y: int, text: str, *, size: int = 14, anchor: str = "start", **style: str) -> str:
    extra = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    fill = "" if "fill" in style else f' fill="{INK}"'
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}"{fill}{extra}>'
        f"{escape(text)}</text>"
    )


def arrow(path: str, colour: str = INK) -> str:
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2.2" '
        f'marker-end="url(#head-{colour[1:]})"/>'
    )


def head(colour: str) -> str:
    return (
        f'<marker id="head-{colour[1:]}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{colour}"/></marker>'
    )


def lesson() -> list[str]:
    rows = [
        ("predict", "guess_ms = …", ORANGE),
        ("run", "run = lab.submit(dp4)", BLUE),
        ("see", "show.step_time(run)", GREEN),
        ("explain", "check.ex03(run)", INK),
    ]
    parts = [box(20, 60, 270, 300, SOFT), words(36, 88, "a lesson", size=18, font_weight="bold")]
    for index, (verb, cell, colour) in enumerate(rows):
        y = 108 + 60 * index
        parts += [
            box(36, y, 238, 46, PAPER, colour),
            words(48, y + 18, verb, size=12, fill=colour, font_weight="bold"),
            words(48, y + 37, cell, size=13, font_family="monospace"),
        ]
    return parts


def cluster() -> list[str]:
    parts = [
        box(390, 60, 330, 300, SOFT),
        words(406, 88, "a Slurm cluster", size=18, font_weight="bold"),
        words(406, 110, "sbatch · squeue · sacct · scancel", size=13, font_family="monospace"),
    ]
    for index in range(2):
        x = 406 + 168 * index
        parts += [
            box(x, 130, 130, 120, PAPER),
            words(x + 65, 152, f"node{index + 1}", anchor="middle"),
        ]
        for slot in range(2):
            y = 162 + 42 * slot
            parts += [
                box(x + 14, y, 102, 34, "#dceaf5", BLUE),
                words(x + 65, y + 22, f"device {2 * index + slot}", size=13, anchor="middle"),
            ]
    parts += [
        f'<line x1="536" y1="200" x2="574" y2="200" stroke="{ORANGE}" stroke-width="5"/>',
        words(555, 188, "link", size=12, anchor="middle", fill=ORANGE),
        words(406, 284, "on a laptop: the box, two nodes", size=14),
        words(406, 303, "in one machine, joined by a link", size=14),
        words(406, 330, "at a computing centre: its own Slurm,", size=14),
        words(406, 349, "with the same notebooks", size=14),
    ]
    return parts


def run_folder() -> list[str]:
    files = ["job.sbatch", "out.log", "profile/", "memory/", "tensorboard/", "checkpoints/"]
    parts = [
        box(800, 60, 180, 300, SOFT),
        words(816, 88, "a run", size=18, font_weight="bold"),
        words(816, 112, "runs/dp4-17/", size=13, font_family="monospace"),
    ]
    for index, name in enumerate(files):
        parts.append(words(832, 140 + 24 * index, name, size=13, font_family="monospace"))
    parts += [
        words(816, 306, "read as tables,", size=14),
        words(816, 325, "drawn as figures,", size=14),
        words(816, 344, "checked in exercises", size=14),
    ]
    return parts


def picture() -> str:
    arrows = [
        arrow("M290,191 C330,191 345,120 388,120", BLUE),
        words(338, 112, "submits", size=13, anchor="middle", fill=BLUE),
        arrow("M720,190 L798,190"),
        words(759, 180, "writes", size=13, anchor="middle"),
        arrow("M890,360 C890,400 870,402 840,402 L205,402 C175,402 155,400 155,364", GREEN),
        words(555, 394, "results, as data", size=13, anchor="middle", fill=GREEN),
    ]
    title = "A lesson submits a job to a cluster and reads the run as data"
    body = "\n".join(
        [
            f"<title>{title}</title>",
            "<defs>" + "".join(map(head, (INK, BLUE, GREEN))) + "</defs>",
            f'<rect y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}"/>',
            *lesson(),
            *cluster(),
            *run_folder(),
            *arrows,
        ]
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {TOP} {WIDTH} {HEIGHT}" role="img" '
        f'font-family="Helvetica, Arial, sans-serif">\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(picture(), encoding="utf-8")
