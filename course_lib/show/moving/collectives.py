"""All-reduce as ring and tree, all-gather, reduce-scatter, all-to-all: who sends what when.

A piece of a message is the set of ranks whose numbers are added up in it, so that "everybody has
the sum" is a statement that can be checked. Every step happens on all ranks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

Piece = frozenset[int]
Held = tuple[tuple[Piece, ...], ...]
"""held[rank][part]; the empty set where a rank holds nothing of that part."""

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
    sent: tuple[Fraction, ...]
    """Of the whole message, by every rank, up to and with this step."""


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
    """Rank r passes part r + first − step to its right neighbour, `ranks` − 1 times."""
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
    """Begun one part earlier than inside the ring, so that rank r ends with part r."""
    return _run(_own(ranks, ranks), _around(ranks, "reduce-scatter", -1, True), ranks)


def all_gather(ranks: int) -> list[Step]:
    held = [
        [frozenset({r}) if r == part else NOTHING for part in range(ranks)] for r in range(ranks)
    ]
    return _run(held, _around(ranks, "all-gather", 0, False), ranks)


def tree_all_reduce(ranks: int) -> list[Step]:
    """Up a binomial tree to rank 0, and down again; whole messages, few steps."""
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
    """Part d of rank s is meant for rank d and becomes its part s: pairs swap, in place. Here a
    piece is one number, source × ranks + destination."""
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
