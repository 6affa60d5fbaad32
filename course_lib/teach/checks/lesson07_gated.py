"""Exercise 07.1: what one rank computes of an MLP with a gate."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from course_lib.teach.checklist import Checklist
from course_lib.teach.orders.calling import called
from course_lib.teach.orders.products import noting_torch, watched

Matrix = np.ndarray[Any, np.dtype[np.float64]]
NAME, MATRICES = "partial_sum", ("x", "w1", "w3", "w2")
SHAPES = re.compile(r"shape|size|dimension|broadcast|mismatch")


@dataclass(frozen=True)
class Gated:
    """The matrices of one MLP."""

    x: Matrix
    w1: Matrix
    w3: Matrix
    w2: Matrix

    @property
    def inner(self) -> int:
        return int(self.w1.shape[1])

    def copies(self) -> dict[str, Matrix]:
        return {name: getattr(self, name).copy() for name in MATRICES}

    def whole(self) -> Matrix:
        z = self.x @ self.w1
        return np.asarray(z / (1 + np.exp(-z)) * (self.x @ self.w3) @ self.w2)


def gated(tokens: int, width: int, inner: int) -> Gated:
    random = np.random.default_rng(7)
    shapes = ((tokens, width), (width, inner), (width, inner), (inner, width))
    return Gated(*(random.normal(size=shape) for shape in shapes))


SMALL, LARGER = gated(5, 6, 8), gated(5, 6, 12)
"""Twelve columns are eight for no one who counted those of the lesson."""
TRIED = ((SMALL, 1), (SMALL, 2), (SMALL, 4), (LARGER, 3), (LARGER, 4))


def ex07_gated(function: Any) -> None:
    """What one rank computes of an MLP with a gate."""
    with Checklist("07.1") as check:
        check.answered(function, NAME)
        check.that(
            callable(function),
            f"{NAME} is a function",
            hint=f"This is {type(function).__name__}. Give the check the function itself, without "
            "calling it.",
        )
        for given, ranks in TRIED:
            parts = [_part(check, function, given, rank, ranks) for rank in range(ranks)]
            _adds_up(check, function, parts, given)
        check.that(True, "the results of 1, 2, 3 and 4 ranks add up to the whole", hint="")
        _each_column_once(check, function, parts, given)
        check.that(True, "each column is used by one rank only", hint="")


def _part(
    check: Checklist, function: Callable[..., Any], given: Gated, rank: int, ranks: int
) -> Matrix:
    matrices = given.copies()
    asked = f"{NAME}(x, w1, w3, w2, {rank}, {ranks})"
    try:
        found = _returned(function, matrices, rank, ranks)
    except Exception as error:
        check.refuse(f"{asked} works", _how_it_ended(error))
    check.unless(
        found is ... or found is None,
        f"{asked} gives a result",
        hint=f"It gave {'nothing' if found is None else 'the ...'}. Return the partial sum.",
    )
    kept = given.copies()
    changed = [name for name in MATRICES if not np.array_equal(matrices[name], kept[name])]
    check.unless(
        bool(changed),
        f"{asked} leaves its matrices as they are",
        hint=f"It changed {', '.join(changed)} in place, and the next rank is given the changed "
        "one. Make a new matrix of what you need.",
    )
    result = _as_matrix(found)
    wanted = given.x.shape
    check.unless(
        result.shape != wanted,
        f"{asked} has the shape of the whole",
        hint=f"It is {type(found).__name__} of shape {result.shape}, and the whole has "
        f"{wanted}: a row for each token. Partial sums have the full shape. "
        + ("Is w2 missing?" if result.shape[-1:] == (given.inner // ranks,) else ""),
    )
    return result


def _returned(function: Callable[..., Any], matrices: Any, rank: int, ranks: int) -> Any:
    """What it prints would stand before the report, dozens of times."""
    with contextlib.redirect_stdout(io.StringIO()):
        return called(function, **matrices, rank=rank, ranks=ranks)


def _how_it_ended(error: Exception) -> str:
    if isinstance(error, ValueError | RuntimeError) and SHAPES.search(str(error)):
        return (
            f"It ended with {type(error).__name__}: {str(error)[:200]}\nShapes that do not fit "
            "mean that one of the three matrices is cut another way than its partner: w1 and w3 "
            "alike, by columns, and w2 by the rows that belong to them."
        )
    return f"It ended with {type(error).__name__}: {str(error)[:200]}"


def _as_matrix(found: Any) -> Matrix:
    try:
        return np.asarray(getattr(found, "tolist", lambda: found)(), dtype=float)
    except (TypeError, ValueError):
        return np.zeros(())


def _close(one: Matrix, other: Matrix) -> bool:
    """Float32 is as good as float64."""
    return np.allclose(one, other, rtol=1e-5, atol=1e-5)


def _adds_up(
    check: Checklist, function: Callable[..., Any], parts: list[Matrix], given: Gated
) -> None:
    found, wanted, ranks = np.sum(parts, axis=0), given.whole(), len(parts)
    if _close(found, wanted):
        return
    if ranks == 1:
        hint = _another_whole(found, given)
    elif _close(found, ranks * wanted):
        hint = "Every rank computed the whole: nothing is shared, and the sum is too large."
    elif _close(found * ranks, wanted):
        hint = "It is too small by the number of ranks: partial sums are added, not averaged."
    elif all(_close(part, parts[0]) for part in parts):
        hint = "All ranks returned the same: where does `rank` enter?"
    else:
        hint = _wrong_columns(check, function, parts, given)
    check.refuse(f"the results of {ranks} ranks add up to the whole", hint)


def _another_whole(found: Matrix, given: Gated) -> str:
    """What was computed instead, where nothing is cut yet."""
    z, gate = given.x @ given.w1, given.x @ given.w3
    sigmoid, of_gate = 1 / (1 + np.exp(-z)), gate / (1 + np.exp(-gate))
    instead = {
        "silu goes to x w1, and you gave it x w3.": of_gate * z,
        "silu goes to x w1 alone, and you gave it x w3 as well.": z * sigmoid * of_gate,
        "The gate x w3 is missing.": z * sigmoid,
        "silu is missing.": z * gate,
        "silu goes to x w1 alone, before the gate.": z * gate / (1 + np.exp(-z * gate)),
        "silu(z) is z / (1 + exp(−z)); you took the sigmoid, without z.": sigmoid * gate,
        "silu(z) is z / (1 + exp(−z)); you took relu.": np.maximum(z, 0) * gate,
        "The gate is multiplied; you added it.": z * sigmoid + gate,
    }
    inner = z * sigmoid * gate
    some = [n for n in range(given.inner) if _close(found, inner[:, :n] @ given.w2[:n])]
    more = {0: " Ranks count from 0.", given.x.shape[1]: " x has as many: count those of w1."}
    instead |= {
        f"You took {n} of {given.inner} columns.{more.get(n, '')}": inner[:, :n] for n in some
    }
    why = next(
        (said for said, one in instead.items() if _close(found, one @ given.w2[: one.shape[1]])), ""
    )
    whole_is = "With one rank nothing is cut, and the whole must come out: (silu(x w1)·(x w3)) w2"
    return f"{why}\n{whole_is}".strip()


def _users(
    check: Checklist, function: Callable[..., Any], parts: list[Matrix], given: Gated, name: str
) -> list[set[int]]:
    """Of each column, the ranks whose result changes with it."""
    ranks, found = len(parts), list[set[int]]()
    for column in range(given.inner):
        matrices = given.copies()
        matrices[name][:, column] += 1
        other = Gated(**matrices)
        after = [_part(check, function, other, rank, ranks) for rank in range(ranks)]
        found.append({rank for rank in range(ranks) if not _close(parts[rank], after[rank])})
    return found


def _wrong_columns(
    check: Checklist, function: Callable[..., Any], parts: list[Matrix], given: Gated
) -> str:
    of_w1, of_w3 = (_users(check, function, parts, given, name) for name in ("w1", "w3"))
    nobody = [column for column, users in enumerate(of_w1) if not users]
    several = [column for column, users in enumerate(of_w1) if len(users) > 1]
    if of_w1 == of_w3 and len(several) == given.inner:
        return (
            "Every rank uses all columns, and the sum is not the whole: rows were cut, or what was "
            "cut is joined too late. Cut w1 and w3 by columns."
        )
    if of_w1 == of_w3 and (nobody or several):
        return (
            f"Of {given.inner} columns, {len(nobody)} are used by no rank and {len(several)} by "
            f"several of {len(parts)}. Where does the slice of a rank begin, and where does it end?"
        )
    return (
        "Which columns of w3 does the gate need, where this rank has some columns of w1? And which "
        "rows of w2 belong to them?"
    )


def _each_column_once(
    check: Checklist, function: Callable[..., Any], parts: list[Matrix], given: Gated
) -> None:
    ranks, users_of = len(parts), _users(check, function, parts, given, "w1")
    users = max(map(len, users_of))
    check.unless(
        users > 1,
        "each column is used by one rank only",
        hint=f"One column of w1 changes the results of {users} ranks: they compute the same "
        "products, and no time is saved. Cut before you multiply.",
    )
    busy = set().union(*users_of)
    check.unless(
        len(busy) < ranks,
        "each rank has some columns",
        hint=f"Of {ranks} ranks, {len(busy)} compute and the others add nothing. Each is to have "
        f"{given.inner // ranks} of {given.inner} columns.",
    )
    for rank in range(ranks):
        mine = [column for column, users in enumerate(users_of) if rank in users]
        check.unless(
            not _is_made_of(function, parts, given, rank, mine),
            "each column is used by one rank only",
            hint="The columns of the other ranks are multiplied here as well, and then by zero or "
            "not used: no time is saved. Cut before you multiply.",
        )


def _is_made_of(
    function: Callable[..., Any], parts: list[Matrix], given: Gated, rank: int, mine: list[int]
) -> bool:
    """Whether a rank needs nothing but its columns: with others it gives the same, and the
    matrices that it multiplies are no whole ones."""
    matrices, sizes = given.copies(), list[int]()
    others = [column for column in range(given.inner) if column not in mine]
    matrices["w1"][:, others] = matrices["w3"][:, others] = matrices["w2"][others] = np.nan
    with contextlib.suppress(Exception), np.errstate(all="ignore"):
        found = _as_matrix(_returned(function, matrices, rank, len(parts)))
        if not _close(found, parts[rank]):
            return False
    seen = {name: watched(matrix, sizes) for name, matrix in given.copies().items()}
    with contextlib.suppress(Exception), noting_torch(sizes):
        _returned(function, seen, rank, len(parts))
    return max(sizes, default=0) < given.w1.size
