"""Checks of lesson 13b, long sequences over ranks."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import numpy as np

from course_lib.teach.checklist import Checklist
from course_lib.teach.functions import is_function, returned, whole_numbers
from course_lib.teach.trials.judge import tried
from course_lib.words import _

CASES = [(size, 2 * size * each) for size in (4, 1, 2, 3, 8) for each in (8, 1, 5)]
# Allowed ratio between the most and the least work of a rank, in long sequences.
UNEVEN = 1.01


def ex13b_pieces(function: Any) -> None:
    """Check how a causal sequence is divided so that all ranks have the same work."""
    with Checklist("13b.1") as check:
        is_function(check, function, "pieces")
        for size, length in CASES:
            read = partial(_positions, most=length + 1)
            pieces = [
                returned(check, function, read, length=length, rank=rank, size=size)
                for rank in range(size)
            ]
            where = _(
                "{length} positions, {size} rank{s}", length=length, size=size, s="s" * (size > 1)
            )
            _once_each(check, pieces, length, where)
            _same_work(check, pieces, where)
        check.lines += [
            _("✓ every position is on one rank, and all ranks have the same number"),
            _("✓ all ranks look back at the same number of positions"),
        ]


def _positions(answer: Any, most: int) -> list[int]:
    """Read the positions. Two pieces may come as a list of two lists or an array of two rows."""
    if isinstance(answer, list | tuple | np.ndarray) and np.ndim(answer) == 2:
        answer = [position for piece in answer for position in piece]
    return whole_numbers(answer, most)


def _once_each(check: Checklist, pieces: list[list[int]], length: int, where: str) -> None:
    times = Counter(position for mine in pieces for position in mine)
    expected = Counter(range(length))
    wrong = [one for one in times | expected if times[one] != expected[one]]
    odd = min(wrong, key=lambda one: (one in expected, one), default=0)  # one beyond the end first
    check.unless(
        times != expected,
        _("every position is on one rank ({where})", where=where),
        hint=_(
            "Position {odd} is on {times} ranks. Each of the positions 0 to {last} is on one rank.",
            odd=odd,
            times=sum(odd in mine for mine in pieces),
            last=length - 1,
        ),
    )
    counts = [len(mine) for mine in pieces]
    check.unless(
        len(set(counts)) > 1,
        _("all ranks have the same number of positions ({where})", where=where),
        hint=_(
            "The ranks have {counts} positions. All-gather needs pieces of equal size.",
            counts=counts,
        ),
    )


def _same_work(check: Checklist, pieces: list[list[int]], where: str) -> None:
    """Check that the ranks have equal work. A position attends to itself and all before it."""
    work = [sum(position + 1 for position in mine) for mine in pieces]
    check.unless(
        max(work) > UNEVEN * min(work),
        _("all ranks have the same work ({where})", where=where),
        where=_("Your ranks compute {work} pairs. ", work=", ".join(map(str, work))),
        hint=_(
            "Late positions look back further. A rank that gets an early piece must also get a "
            "late piece."
        ),
    )


ex13b_context = tried("13b.2", "context")
ex13b_ring = tried("13b.3", "ring-attention")
