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
    counts, each = [len(mine) for mine in pieces], length // len(pieces)
    check.unless(
        counts != [each] * len(pieces),
        _("all ranks have the same number of positions ({where})", where=where),
        hint=_(
            "Your ranks have {counts} positions, and each should have {each}. A rank gets two "
            "pieces of length // (2 * size) positions.",
            counts=", ".join(map(str, counts)),
            each=each,
        ),
    )
    times, expected = Counter(one for mine in pieces for one in mine), Counter(range(length))
    check.unless(
        times != expected,
        _("every position is on one rank ({where})", where=where),
        hint=_(
            "You return position {odd} too often, and position {missing} never. The positions 0 to "
            "{last} must come once each.",
            odd=min(times - expected, default=0),
            missing=min(expected - times, default=0),
            last=length - 1,
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
