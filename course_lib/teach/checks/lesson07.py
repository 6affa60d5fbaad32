"""Checks of lesson 07, tensor parallelism."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from course_lib.teach.answers import Amount
from course_lib.teach.checklist import Checklist
from course_lib.teach.functions import Watched, called, guarded, is_function, returned
from course_lib.teach.trials.judge import tried
from course_lib.words import _

TENSOR, CHANNELS, BYTES_EACH, A_LAYER = 8, 8192, 2, 4
# Smaller than the share of embedding and output, which are 2 of 322 sums.
FINE = 0.005
Matrix = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Gated:
    """Matrices of one gated MLP."""

    x: Matrix
    w1: Matrix
    w3: Matrix
    w2: Matrix

    def copies(self) -> dict[str, Matrix]:
        return {name: matrix.copy() for name, matrix in vars(self).items()}

    def whole(self) -> Matrix:
        z = self.x @ self.w1
        return np.asarray(z / (1 + np.exp(-z)) * (self.x @ self.w3) @ self.w2)


def gated(tokens: int, width: int, inner: int) -> Gated:
    random = np.random.default_rng(7)
    shapes = ((tokens, width), (width, inner), (width, inner), (inner, width))
    return Gated(*(random.normal(size=shape) for shape in shapes))


# The lesson uses eight columns. Twelve detect a function that assumes eight.
SMALL, LARGER = gated(5, 6, 8), gated(5, 6, 12)
TRIED = ((SMALL, 1), (SMALL, 2), (SMALL, 4), (LARGER, 3), (LARGER, 4))


def ex07_gated(function: Any) -> None:
    """Check the part of a gated MLP that one rank computes."""
    with Checklist("07.1") as check:
        is_function(check, function, "partial_sum")
        for given, ranks in TRIED:
            parts = [_part(check, function, given, rank, ranks) for rank in range(ranks)]
            _adds_up(check, parts, given)
        check.that(True, _("the results of 1, 2, 3 and 4 ranks add up to the whole"), hint="")
        for rank in range(ranks):
            _uses_its_columns(check, function, parts[rank], given, rank, ranks)
        check.that(True, _("each column is used by one rank only"), hint="")


def _part(
    check: Checklist, function: Callable[..., Any], given: Gated, rank: int, ranks: int
) -> Matrix:
    matrices = given.copies()
    result: Matrix = returned(check, function, _matrix, **matrices, rank=rank, ranks=ranks)
    changed = [name for name, one in vars(given).items() if not np.array_equal(matrices[name], one)]
    check.unless(
        bool(changed),
        _("partial_sum leaves its matrices as they are"),
        hint=_(
            "Your function changed {changed} in place, so the next rank gets the changed matrix. "
            "Make a new matrix instead.",
            changed=", ".join(changed),
        ),
    )
    check.unless(
        result.shape != given.x.shape,
        _("the result has the shape of the whole"),
        hint=_(
            "The result has the shape {shape}, but the whole has {whole}, with a row for each "
            "token. Partial sums have the full shape. Is w2 missing?",
            shape=result.shape,
            whole=given.x.shape,
        ),
    )
    return result


def _matrix(found: Any) -> Matrix:
    return np.asarray(getattr(found, "tolist", lambda: found)(), dtype=float)


def _close(one: Matrix, other: Matrix) -> bool:
    """Return whether two matrices are equal; float32 is precise enough."""
    return np.allclose(one, other, rtol=1e-5, atol=1e-5)


def _adds_up(check: Checklist, parts: list[Matrix], given: Gated) -> None:
    found, wanted, ranks = np.sum(parts, axis=0), given.whole(), len(parts)
    if _close(found, wanted):
        return
    if ranks == 1:
        hint = _another_whole(found, given)
    elif _close(found, ranks * wanted):
        hint = _("Every rank computed the whole: nothing is shared, and the sum is too large.")
    elif _close(found * ranks, wanted):
        hint = _(
            "The sum is too small by the number of ranks. Partial sums are added, not averaged."
        )
    elif all(_close(part, parts[0]) for part in parts):
        hint = _("All ranks returned the same result. Where do you use `rank`?")
    else:
        hint = _(
            "Cut w1 and w3 by columns and w2 by the matching rows. Every rank takes different "
            "columns, and all {inner} are taken. Where does the slice of a rank begin and end?",
            inner=len(given.w2),
        )
    check.refuse(_("the results of {ranks} ranks add up to the whole", ranks=ranks), hint)


def _another_whole(found: Matrix, given: Gated) -> str:
    """Explain a wrong result for the whole MLP on one rank."""
    z, gate = given.x @ given.w1, given.x @ given.w3
    sigmoid = 1 / (1 + np.exp(-z))
    instead = {
        _("silu applies to x w1, but you applied it to x w3."): gate / (1 + np.exp(-gate)) * z,
        _("The gate x w3 is missing."): z * sigmoid,
        _("silu is missing."): z * gate,
        _("silu comes before the product, not after it."): z * gate / (1 + np.exp(-z * gate)),
        _("The gate is multiplied, not added."): z * sigmoid + gate,
        _("silu(z) is z / (1 + exp(−z)), but you took the sigmoid, without the factor z."): sigmoid
        * gate,
    }
    why = next((said for said, one in instead.items() if _close(found, one @ given.w2)), "")
    whole_is = _(
        "With one rank nothing is cut, so the result must be the whole MLP: (silu(x w1)·(x w3)) w2"
    )
    return f"{why}\n{whole_is}".strip()


def _uses_its_columns(
    check: Checklist, function: Any, part: Matrix, given: Gated, rank: int, ranks: int
) -> None:
    """Check that a rank multiplies its own columns and no others."""
    inner, mine = len(given.w2), list[int]()
    for column in range(inner):
        matrices = given.copies()
        matrices["w1"][:, column] += 1
        changed = _part(check, function, Gated(**matrices), rank, ranks)
        mine += [] if _close(part, changed) else [column]
    check.unless(
        len(mine) != inner // ranks,
        _("each column is used by one rank only"),
        hint=_(
            "Rank {rank} of {ranks} uses {many} of {inner} columns. If several ranks compute the "
            "same products, no time is saved. Cut before you multiply.",
            rank=rank,
            ranks=ranks,
            many=len(mine),
            inner=inner,
        ),
    )
    matrices = given.copies()
    Watched.sizes.clear()
    others = np.setdiff1d(np.arange(inner), mine)
    matrices["w1"][:, others] = matrices["w3"][:, others] = matrices["w2"][others] = np.nan
    watched = {name: matrix.view(Watched) for name, matrix in given.copies().items()}
    found = part
    with contextlib.suppress(Exception), guarded(), np.errstate(all="ignore"):
        found = _matrix(called(function, **matrices, rank=rank, ranks=ranks))
        called(function, **watched, rank=rank, ranks=ranks)
    check.unless(
        not _close(found, part) or max(Watched.sizes, default=0) >= given.w1.size,
        _("each column is used by one rank only"),
        hint=_(
            "The columns of the other ranks are multiplied here as well, and then by "
            "zero or not used: no time is saved. Cut before you multiply."
        ),
    )


def ex07_sent(answer: object, given: Any) -> None:
    """Check the gigabytes that tensor parallelism sends for one sample."""
    rows, sums = given.tokens * CHANNELS * BYTES_EACH, given.layers * A_LAYER
    right = sums * rows * 2 * (TENSOR - 1) / TENSOR / 1e9
    with Checklist("07.2") as check:
        check.amount(
            check.number(answer, "gigabytes_sent"),
            Amount(
                right=right,
                unit="GB",
                fine=FINE,
                slips=(
                    (
                        given.layers * rows / 1e9,
                        _(
                            "You counted one sum in each layer, sent once. How many sums does a "
                            "layer need, forward and backward? By what factor does a ring multiply "
                            "the bytes?"
                        ),
                    ),
                    (
                        sums * rows / 1e9,
                        _("In a ring every piece is sent more than once. By what factor?"),
                    ),
                    (
                        right * 1.5,
                        _("You counted six sums in a layer. Not every matrix needs a sum."),
                    ),
                    (
                        right / given.layers,
                        _("That is the amount for one layer. The model has more layers."),
                    ),
                ),
            ),
            _("the amount that each device sends for a sample is right"),
            hint=_(
                "How many bytes does the output of a layer have? How often is it summed, and by "
                "what factor does the ring multiply it?"
            ),
        )


ex07_loss = tried("07.3", "vocabulary")
