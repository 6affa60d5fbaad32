"""Which positions of a causal sequence a rank holds, as a learner's function deals them out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from course_lib.plan.numbers import real
from course_lib.teach.answers import in_short
from course_lib.teach.checklist import Checklist
from course_lib.teach.orders.calling import called

NAME = "pieces"
CASES = [(size, 2 * size * each) for size in (4, 1, 2, 3, 8) for each in (8, 1, 5)]
UNEVEN = 1.01
"""Work of the busiest rank over that of the idlest, in a sequence long enough for it."""


def are_right(check: Checklist, function: Any) -> None:
    check.answered(function, NAME)
    check.unless(
        not callable(function),
        f"{NAME} is a function",
        hint=f"This is {type(function).__name__}. Give the check the function itself, without "
        "calling it.",
    )
    for size, length in CASES:
        dealt = [_called(check, function, length, rank, size) for rank in range(size)]
        where = f"{length} positions, {size} rank{'s' * (size > 1)}"
        _once_each(check, dealt, length, where)
        _same_work(check, dealt, where)
    check.lines += [
        "✓ every position is on one rank, and all ranks have equally many",
        "✓ all ranks look back at equally many positions",
    ]


def _called(
    check: Checklist, function: Callable[..., Any], length: int, rank: int, size: int
) -> list[int]:
    asked = f"{NAME}({length}, {rank}, {size})"
    try:
        answer = called(function, length=length, rank=rank, size=size)
        given = None if answer is None or answer is ... else _numbers(answer, length)
    except Exception as error:
        check.refuse(f"{asked} gives positions", f"{type(error).__name__}: {str(error)[:200]}")
    if given is None:
        check.refuse(f"{asked} gives positions", "It gives nothing yet: fill in the gap.")
    if any(one is None or one != int(one) for one in given):
        check.refuse(
            f"{asked} gives positions", f"It gives {in_short(answer)}; a list of whole numbers."
        )
    return [int(one) for one in given if one is not None]


def _numbers(answer: Any, length: int) -> list[float | None]:
    """Two pieces may come as a list of two."""
    found = list(islice(answer, length + 1))
    if found and all(isinstance(one, Sequence | np.ndarray) for one in found):
        found = [number for one in found for number in one]
    return [real(one) for one in found]


def _once_each(check: Checklist, dealt: list[list[int]], length: int, where: str) -> None:
    every = sorted(position for mine in dealt for position in mine)
    missing = sorted(set(range(length)) - set(every))
    twice = sorted({one for one in every if every.count(one) > 1})
    beyond = [one for one in every if not 0 <= one < length]
    why = (
        f"There is no position {beyond[0]}: the last is {length - 1}." if beyond else
        f"Position {twice[0]} is on two ranks." if twice else
        f"Nobody has position {missing[0]}." if missing else ""
    )  # fmt: skip
    check.unless(bool(why), f"every position is on one rank ({where})", hint=why)
    counts = [len(mine) for mine in dealt]
    check.unless(
        len(set(counts)) > 1,
        f"all ranks have equally many positions ({where})",
        hint=f"They have {counts}. All-gather wants pieces of one size.",
    )


def _same_work(check: Checklist, dealt: list[list[int]], where: str) -> None:
    """A position looks back at all before it, and at itself."""
    work = [sum(position + 1 for position in mine) for mine in dealt]
    if max(work) <= UNEVEN * min(work):
        return
    length, size = len(dealt) * len(dealt[0]), len(dealt)
    in_order = [list(range(r * length // size, (r + 1) * length // size)) for r in range(size)]
    strided = [list(range(r, length, size)) for r in range(size)]
    why = f"Rank 0 has {work[0]} pairs to compute, rank {size - 1} has {work[-1]}. "
    if dealt == in_order:
        why += "The pieces follow each other, and late positions look back further."
    elif dealt == strided:
        why += (
            "Dealt out like cards is nearly even, the more so the longer the sequence, and some "
            "programs do it. One early piece and one late piece are exactly even."
        )
    else:
        why += "Whoever gets an early piece has to get a late one for it."
    check.refuse(f"all ranks have the same work ({where})", why)
