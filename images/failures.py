"""Draws two figures of lesson 16: who waits in a hang, and which question comes first.

python images/failures.py
"""

from __future__ import annotations

from pathlib import Path

from many_processes import picture
from overview import BLUE, GREEN, INK, ORANGE, PAPER, SOFT, arrow, box, words

LEGEND = "The three waiting ranks report the time-out. The rank that caused it is silent."
HERE = Path(__file__).parent
LEFT, STEP_AT, STUCK_AT, OUT_AT, RIGHT = 110, 250, 400, 800, 980
LADDER = [
    (
        "Did it make a step?",
        "no",
        ["The environment or the rendezvous", "modules, files, internet; name, route, port"],
    ),
    (
        "Did it finish without an error?",
        "yes",
        ["The diary", "weights, samples, order, random numbers, time, memory"],
    ),
    (
        "Is it still running, and silent?",
        "yes",
        ["Stacks of all ranks", "which rank is not in the same collective?"],
    ),
    (
        "Is it out of memory?",
        "yes",
        ["The slope of the memory", "a jump: one allocation too large; a rise: a leak"],
    ),
    (
        "Is any value NaN?",
        "yes",
        [
            "The rank whose loss was NaN first",
            "run again from the last good checkpoint: same sample?",
        ],
    ),
    (
        "Was a process killed?",
        "yes",
        ["One task, or a node?", "sacct, the node's own log; resume from the checkpoint"],
    ),
    (
        "Otherwise the log says why",
        "",
        [
            "The first error of the log",
            "mismatched shapes, a full disk, a missing file, a time limit",
        ],
    ),
]


def hang() -> str:
    parts = []
    for rank in range(4):
        y = 50 + 62 * rank
        stuck = rank == 2
        parts.append(words(20, y + 28, f"rank {rank}", size=16, font_weight="bold"))
        parts += [
            box(LEFT, y, STEP_AT - LEFT - 6, 42, SOFT, BLUE),
            words((LEFT + STEP_AT) // 2, y + 27, "step 3", size=14, anchor="middle"),
        ]
        parts += [
            box(STEP_AT, y, STUCK_AT - STEP_AT - 6, 42, SOFT, BLUE),
            words((STEP_AT + STUCK_AT) // 2, y + 27, "step 4", size=14, anchor="middle"),
        ]
        text = "waits for its data reader" if stuck else "waits in all_reduce"
        colour = ORANGE if stuck else GREEN
        x = STEP_AT if stuck else STUCK_AT
        parts += [
            box(x, y, OUT_AT - x, 42, PAPER, colour),
            words((x + OUT_AT) // 2, y + 27, text, size=15, anchor="middle", fill=colour),
        ]
        said = "no message" if stuck else "“timed out”"
        parts.append(words(OUT_AT + 14, y + 27, said, size=15, fill=colour))
    parts += [
        arrow(f"M{OUT_AT},20 L{OUT_AT},300", INK),
        words(OUT_AT - 8, 26, "time-out", size=14, anchor="end"),
        words(LEFT, 320, LEGEND, size=15),
    ]
    return picture("Three ranks wait in a collective for rank 2", 340, parts)


def which_fault() -> str:
    parts = []
    for row, (question, answer, lines) in enumerate(LADDER):
        y = 16 + 84 * row
        parts += [box(20, y, 380, 56, SOFT, BLUE), words(40, y + 34, question, size=16)]
        parts += [
            box(520, y, 460, 56, PAPER, GREEN),
            words(536, y + 24, lines[0], size=16, font_weight="bold"),
            words(536, y + 45, lines[1], size=14),
        ]
        parts.append(arrow(f"M400,{y + 28} L516,{y + 28}", INK))
        if answer:
            parts.append(words(450, y + 21, answer, size=14, anchor="middle"))
        if row < len(LADDER) - 1:
            parts.append(arrow(f"M210,{y + 56} L210,{y + 81}", INK))
            other = "yes" if answer == "no" else "no"
            parts.append(words(220, y + 75, other, size=14))
    title = "Questions that lead from a broken run to the tool that finds its fault"
    return picture(title, 16 + 84 * len(LADDER), parts)


if __name__ == "__main__":
    (HERE / "hang.svg").write_text(hang(), encoding="utf-8")
    (HERE / "which_fault.svg").write_text(which_fault(), encoding="utf-8")
