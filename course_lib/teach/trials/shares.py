"""Explain how often each rank's numbers occur in a result."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.words import _

NEAR = 1e-3
Row = Sequence[float]


def mistake_of(table: Sequence[Row], right: Row, rank: int, size: int) -> str:
    """Name the mistake: "own", "another's", "times", "zero", "by piece" or "mixed"."""
    first = table[0]
    if any(not _alike(row, first) for row in table):
        return "by piece"
    if all(abs(share) < NEAR for share in first):
        return "zero"
    there, wanted = ([r for r, share in enumerate(row[:size]) if abs(share) > NEAR]
                     for row in (first, right))  # fmt: skip
    if len(there) == 1 and there != wanted:
        return "own" if there == [rank] else "another's"
    return "times" if _factor(first, right) else "mixed"


def explain(mistake: str, table: Sequence[Row], right: Row, rank: int, size: int) -> str:
    if mistake == "zero":
        return _("it is zero.")
    if mistake == "own":
        return _(
            "it is still this rank's own: nothing was exchanged, or the sum is in another tensor "
            "(a copy, a call that nobody has waited for) than the one that is used. broadcast "
            "hands on the numbers of one rank; all_reduce and reduce_scatter add up those of all."
        )
    if mistake == "another's":
        whose = max(range(size), key=lambda r: abs(table[0][r]))
        if sum(abs(share) > NEAR for share in right[:size]) == 1:
            return _("rank {rank} has that of rank {whose}. Where does `rank` enter?",
                     rank=rank, whose=whose)  # fmt: skip
        return _(
            "it is that of rank {whose} alone. A broadcast hands on what one rank has; a sum or "
            "mean needs all ranks': all_reduce, reduce_scatter.", whose=whose,
        )  # fmt: skip
    factor = _factor(table[0], right) if mistake == "times" else 0.0
    if factor:
        return _why_times(factor, right, size)
    return _why_rows(table, right, size) + _table(table)


def _why_times(factor: float, right: Row, size: int) -> str:
    is_mean = size > 1 and abs(right[0] * size - 1) < NEAR
    if is_mean and abs(factor - size) < NEAR:
        return _(
            "this is the sum over the ranks, not the mean: it is not divided by the number of "
            "ranks, or summed twice."
        )
    if is_mean and abs(factor * size - 1) < NEAR:
        return _("it was divided by {size} twice: once is the mean.", size=size)
    if abs(factor * size - 1) < NEAR:
        return _("this is the mean: it was divided by {size}. A sum is wanted.", size=size)
    if abs(factor - size) < NEAR:
        return _(
            "it is {size} times too much: all ranks had the same numbers there, and they were "
            "summed over the ranks once more.", size=size,
        )  # fmt: skip
    return _("it is {factor:g} times the right one.", factor=factor)


def _why_rows(table: Sequence[Row], right: Row, size: int) -> str:
    shares = [share for row in table for share in row[:size] if abs(share) > NEAR]
    whole = sum(_alike(row, right) for row in table)
    if whole and all(share < max(right) + NEAR for share in shares):
        return _(
            "{whole} of {pieces} pieces are whole: the first round is right, and the second does "
            "not hand them on to all.", whole=whole, pieces=len(table),
        )  # fmt: skip
    if len(table) == size and len(shares) == len(table):
        return _(
            "no piece is a sum: each holds one rank's numbers alone. What arrives is added to the "
            "piece in place, by `+=`, and needs room of its own: torch.empty_like(…)."
        )
    if any(share > max(right) + NEAR for share in shares):
        return _("numbers were added more than once.")
    return _("ranks are missing in it: what is passed on, and to whom, in which step?")


def _alike(one: Row, other: Row) -> bool:
    return all(abs(a - b) < NEAR for a, b in zip(one, other, strict=True))


def _factor(row: Row, right: Row) -> float:
    """Return the factor relative to the right shares; 0 if they are not proportional."""
    there = next((n for n, share in enumerate(right) if abs(share) > NEAR), 0)
    factor = row[there] / right[there] if right[there] else 0.0
    return factor if _alike(row, [factor * share for share in right]) else 0.0


def _table(table: Sequence[Row]) -> str:
    lines = [
        _("  piece {n}: ", n=n)
        + ", ".join(_("{share:g} × rank {r}", share=share, r=r) for r, share in enumerate(row))
        for n, row in enumerate(table)
    ]
    return "\n".join(["", *lines])
