"""Steps of all-reduce as ring and tree, all-gather, reduce-scatter and all-to-all.

A piece of a message is the set of ranks whose numbers it sums. A test can therefore check that
every rank has the whole sum. In each step, all ranks act at once. A picture has a column per
rank and a cell per part of the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from course_lib.mistakes.errors import ArgumentError
from course_lib.show import tables
from course_lib.show.moving.scene import Arrow, Cell, Scene, Words
from course_lib.show.moving.story import Frame, Story
from course_lib.show.style import FAINT, GREEN, INK, SERIES, SKY, VERMILION
from course_lib.words import N_, _

COLUMN, ROW, CELL = 2.6, 0.72, 1.55
MOST_RANKS = 8
ADDING, COPYING = VERMILION, INK
AIM = {
    "all-reduce": N_("every rank ends with the sum"),
    "all-gather": N_("every rank ends with the parts of all ranks"),
    "reduce-scatter": N_("rank r ends with part r of the sum"),
    "all-to-all": N_("rank r ends with part r of every rank"),
}
Piece = frozenset[int]
# held[rank][part] is the empty set if a rank holds nothing of that part.
Held = tuple[tuple[Piece, ...], ...]

NOTHING: Piece = frozenset()


@dataclass(frozen=True)
class Send:
    source: int
    destination: int
    part: int
    to_part: int
    adds: bool


@dataclass(frozen=True)
class Step:
    held: Held
    sends: tuple[Send, ...]
    phase: str
    # Share of the whole message that each rank has sent so far, including this step.
    sent: tuple[Fraction, ...]


def _own(ranks: int, parts: int) -> list[list[Piece]]:
    return [[frozenset({rank})] * parts for rank in range(ranks)]


def _run(
    held: list[list[Piece]], rounds: Iterable[tuple[str, list[Send]]], parts: int
) -> list[Step]:
    sent = [Fraction(0)] * len(held)
    steps = [Step(_freeze(held), (), "start", tuple(sent))]
    for phase, sends in rounds:
        before = [list(row) for row in held]
        for send in sends:
            piece = before[send.source][send.part]
            there = held[send.destination][send.to_part]
            held[send.destination][send.to_part] = there | piece if send.adds else piece
            sent[send.source] += Fraction(1, parts)
        steps.append(Step(_freeze(held), tuple(sends), phase, tuple(sent)))
    return steps


def _freeze(held: list[list[Piece]]) -> Held:
    return tuple(tuple(row) for row in held)


def _around(ranks: int, phase: str, first: int, adds: bool) -> list[tuple[str, list[Send]]]:
    """Return ring steps: in `ranks` − 1 steps, rank r passes part r + first − step to the right."""
    rounds = []
    for step in range(ranks - 1):
        parts = [(rank + first - step) % ranks for rank in range(ranks)]
        sends = [
            Send(rank, (rank + 1) % ranks, part, part, adds) for rank, part in enumerate(parts)
        ]
        rounds.append((phase, sends))
    return rounds


def ring_all_reduce(ranks: int) -> list[Step]:
    rounds = _around(ranks, "reduce-scatter", 0, True) + _around(ranks, "all-gather", 1, False)
    return _run(_own(ranks, ranks), rounds, ranks)


def reduce_scatter(ranks: int) -> list[Step]:
    """Reduce-scatter along a ring. It starts one part earlier, so that rank r ends with part r."""
    return _run(_own(ranks, ranks), _around(ranks, "reduce-scatter", -1, True), ranks)


def all_gather(ranks: int) -> list[Step]:
    held = [
        [frozenset({r}) if r == part else NOTHING for part in range(ranks)] for r in range(ranks)
    ]
    return _run(held, _around(ranks, "all-gather", 0, False), ranks)


def tree_all_reduce(ranks: int) -> list[Step]:
    """All-reduce up a binomial tree to rank 0 and down again: whole messages, few steps."""
    distances = [1 << level for level in range((ranks - 1).bit_length())]
    up = [
        ("reduce", [Send(r, r - far, 0, 0, True) for r in range(ranks) if r % (2 * far) == far])
        for far in distances
    ]
    down = [
        ("broadcast", [Send(s.destination, s.source, 0, 0, False) for s in sends])
        for _, sends in reversed(up)
    ]
    return _run(_own(ranks, 1), up + down, 1)


def all_to_all(ranks: int) -> list[Step]:
    """Exchange part d of rank s for part s of rank d, pair by pair.

    Here a piece is one number, source × ranks + destination.
    """
    held = [[frozenset({s * ranks + d}) for d in range(ranks)] for s in range(ranks)]
    even = ranks & (ranks - 1) == 0
    rounds = []
    for number in range(1 if even else 0, ranks):
        partners = [rank ^ number if even else (number - rank) % ranks for rank in range(ranks)]
        sends = [Send(r, p, p, r, False) for r, p in enumerate(partners) if r != p]
        rounds.append(("exchange", sends))
    return _run(held, rounds, ranks)


ALGORITHMS: dict[tuple[str, str], Callable[[int], list[Step]]] = {
    ("all-reduce", "ring"): ring_all_reduce,
    ("all-reduce", "tree"): tree_all_reduce,
    ("all-gather", "ring"): all_gather,
    ("reduce-scatter", "ring"): reduce_scatter,
    ("all-to-all", "pairwise"): all_to_all,
}


def collective(name: str, ranks: int = 4, algorithm: str = "") -> Story:
    if not 2 <= ranks <= MOST_RANKS:
        raise ArgumentError(
            _(
                "{ranks} ranks do not fit the picture; use 2 to {most_ranks}",
                ranks=ranks,
                most_ranks=MOST_RANKS,
            )
        )
    tables.one_of(name, AIM, "show.moving.collective", "name")
    known = [how for of, how in ALGORITHMS if of == name]
    key = (name, algorithm or known[0])
    tables.one_of(key[1], known, "show.moving.collective", "algorithm")
    steps = ALGORITHMS[key](ranks)
    frames = tuple(_frame(name, steps, number) for number in range(len(steps)))
    return Story(
        _(
            "{name} over {ranks} ranks ({key}): {aim}",
            name=name,
            ranks=ranks,
            key=key[1],
            aim=AIM[name],
        ),
        frames,
    )


def _frame(name: str, steps: list[Step], number: int) -> Frame:
    step = steps[number]
    if number == 0:
        begin = f"{_('Nothing has been sent.')} {AIM[name].capitalize()}."
        return Frame(_("before"), begin, _scene(name, step))
    most = max(step.sent)
    what = _("adds the message to its own part") if step.sends[0].adds else _("keeps the message")
    parts = len(step.held[0])
    size = _("the whole") if parts == 1 else _("1/{held} of the whole", held=parts)
    text = [
        _(
            "{sends} messages at the same time, each {size}; every receiver {what}.",
            sends=len(step.sends),
            size=size,
            what=what,
        ),
        _("So far, the busiest rank has sent {most} of the message.", most=_fraction(most)),
    ]
    if number == len(steps) - 1:
        text.append(_("Done: {aim}.", aim=AIM[name]))
    title = _(
        "{phase}, step {number} of {steps}", phase=step.phase, number=number, steps=len(steps) - 1
    )
    return Frame(title, " ".join(text), _scene(name, step))


def _fraction(value: Fraction) -> str:
    return _("{value:.3g} times the whole", value=float(value)) if value >= 1 else str(value)


def _scene(name: str, step: Step) -> Scene:
    ranks, parts = len(step.held), len(step.held[0])
    arcs = [abs(_x(send.source) - _x(send.destination)) for send in step.sends]
    room = 0.14 * max(arcs, default=0.0) if parts == 1 else 0.0  # room for arrows in arcs
    height = parts * ROW + 1.6 + room
    new = {(send.destination, send.to_part) for send in step.sends}
    things: list[Cell | Arrow | Words] = []
    for rank, row in enumerate(step.held):
        x = _x(rank)
        things.append(Words(x, height - 0.35, _("rank {rank}", rank=rank), 11.5, bold=True))
        for part, piece in enumerate(row):
            text, paint = _look(name, piece, ranks)
            strong = (rank, part) in new
            things.append(Cell(x, _y(part, parts), text, paint, CELL, 0.62, strong=strong))
        sent = _("sent {sent}", sent=step.sent[rank]) if step.sent[rank] else ""
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
        return _("from {piece}", piece=min(piece)), SERIES[min(piece) % len(SERIES)]
    if len(piece) == ranks:
        return _("sum of all"), GREEN
    if len(piece) <= 3:
        return "+".join(map(str, sorted(piece))), SKY
    return _("{piece} of {ranks}", piece=len(piece), ranks=ranks), SKY


def _arrow(send: Send, ranks: int, parts: int) -> list[Arrow | Words]:
    """Draw an arrow: straight to a neighbour, two stubs from last to first rank, else an arc."""
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
