"""The steps of a collective as pictures: a column a rank, a cell a part of the message."""

from __future__ import annotations

from fractions import Fraction

from course_lib.mistakes.errors import ArgumentError
from course_lib.show.moving.collectives import ALGORITHMS, NOTHING, Piece, Send, Step
from course_lib.show.moving.scene import Arrow, Cell, Scene, Words
from course_lib.show.moving.story import Frame, Story
from course_lib.show.style import FAINT, GREEN, INK, SERIES, SKY, VERMILION, listed
from course_lib.words import told

COLUMN, ROW, CELL = 2.6, 0.72, 1.55
MOST_RANKS = 8
ADDING, COPYING = VERMILION, INK
AIM = {
    "all-reduce": "everybody ends with the sum of all",
    "all-gather": "everybody ends with the parts of all",
    "reduce-scatter": "rank r ends with part r of the sum",
    "all-to-all": "rank r ends with part r of everybody",
}


def collective(name: str, ranks: int = 4, algorithm: str = "") -> Story:
    if not 2 <= ranks <= MOST_RANKS:
        raise ArgumentError(f"{ranks} ranks do not fit the picture; use 2 to {MOST_RANKS}")
    known = [key for key in ALGORITHMS if key[0] == name]
    if not known:
        raise ArgumentError(f"no collective {name!r}; there are {', '.join(AIM)}")
    key = (name, algorithm or known[0][1])
    if key not in ALGORITHMS:
        has = listed(how for _, how in known)
        raise ArgumentError(f"{name} has no algorithm {algorithm!r} here; it has {has}")
    steps = ALGORITHMS[key](ranks)
    frames = tuple(_frame(name, steps, number) for number in range(len(steps)))
    return Story(f"{name} over {ranks} ranks ({key[1]}): {AIM[name]}", frames)


def _frame(name: str, steps: list[Step], number: int) -> Frame:
    step = steps[number]
    if number == 0:
        begin = f"{told('Nothing has been sent.')} {told(AIM[name]).capitalize()}."
        return Frame(told("before"), begin, _scene(name, step))
    most = max(step.sent)
    what = "adds what comes to what it has" if step.sends[0].adds else "keeps what comes"
    size = "the whole" if len(step.held[0]) == 1 else f"1/{len(step.held[0])} of the whole"
    text = [
        told(f"{len(step.sends)} messages at the same time, each {size}; every receiver {what}."),
        told(f"So far the busiest rank has sent {_fraction(most)} of the message."),
    ]
    if number == len(steps) - 1:
        text.append(told(f"Done: {AIM[name]}."))
    title = f"{step.phase}, step {number} of {len(steps) - 1}"
    return Frame(title, " ".join(text), _scene(name, step))


def _fraction(value: Fraction) -> str:
    return f"{float(value):.3g} times the whole" if value >= 1 else str(value)


def _scene(name: str, step: Step) -> Scene:
    ranks, parts = len(step.held), len(step.held[0])
    arcs = [abs(_x(send.source) - _x(send.destination)) for send in step.sends]
    room = 0.14 * max(arcs, default=0.0) if parts == 1 else 0.0  # for arrows in arcs
    height = parts * ROW + 1.6 + room
    new = {(send.destination, send.to_part) for send in step.sends}
    things: list[Cell | Arrow | Words] = []
    for rank, row in enumerate(step.held):
        x = _x(rank)
        things.append(Words(x, height - 0.35, f"rank {rank}", 11.5, bold=True))
        for part, piece in enumerate(row):
            text, paint = _look(name, piece, ranks)
            strong = (rank, part) in new
            things.append(Cell(x, _y(part, parts), text, paint, CELL, 0.62, strong=strong))
        sent = f"sent {step.sent[rank]}" if step.sent[rank] else ""
        things.append(Words(x, 0.25, sent, 9.5))
    for send in step.sends:
        things.extend(_arrow(send, ranks, parts))
    return Scene(tuple(things), ranks * COLUMN + 0.2, height)


def _look(name: str, piece: Piece, ranks: int) -> tuple[str, str]:
    if piece == NOTHING:
        return "", FAINT
    if name == "all-to-all":
        source, destination = divmod(min(piece), ranks)
        return f"{source} → {destination}", SERIES[source % len(SERIES)]
    if name == "all-gather":
        return f"from {min(piece)}", SERIES[min(piece) % len(SERIES)]
    if len(piece) == ranks:
        return "sum of all", GREEN
    text = "+".join(map(str, sorted(piece))) if len(piece) <= 3 else f"{len(piece)} of {ranks}"
    return text, SKY


def _arrow(send: Send, ranks: int, parts: int) -> list[Arrow | Words]:
    """To the next column straight; from the last to the first in two stubs; others in arcs."""
    y, to_y = _y(send.part, parts), _y(send.to_part, parts)
    paint = ADDING if send.adds else COPYING
    start, end = _x(send.source), _x(send.destination)
    side = 1 if end > start else -1
    if abs(send.destination - send.source) == 1 or ranks == 2:
        x, to_x = start + side * CELL / 2, end - side * CELL / 2
        shift = 0.0 if y != to_y else 0.12 * side
        return [Arrow(x, y + shift, to_x, to_y + shift, paint=paint)]
    if send.source == ranks - 1 and send.destination == 0 and y == to_y:
        right, left = start + CELL / 2, end - CELL / 2
        return [
            Arrow(right, y, right + 0.5, y, paint=paint),
            Arrow(left - 0.5, y, left, y, paint=paint),
        ]
    return [Arrow(start, y + 0.31, end, to_y + 0.31, paint=paint, bend=-0.28 * side)]


def _x(rank: int) -> float:
    return (rank + 0.5) * COLUMN + 0.1


def _y(part: int, parts: int) -> float:
    return 0.6 + (parts - part - 0.5) * ROW
