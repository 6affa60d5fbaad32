"""Checks of lesson 07, tensor parallelism."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np

from course_lib.teach.answers import Amount
from course_lib.teach.checklist import Checklist
from course_lib.teach.functions import is_function, returned
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
            _adds_up(check, function, given, ranks)
        check.that(True, _("the results of 1, 2, 3 and 4 ranks add up to the whole"), hint="")
        for rank in range(ranks):
            _uses_its_columns(check, function, given, rank, ranks)
        check.that(
            not _multiplies_all(check, function),
            _("each column is used by one rank only"),
            hint=_("The columns of other ranks are multiplied too. Cut before you multiply."),
        )


def _part(check: Checklist, function: Any, given: Gated, rank: int, ranks: int) -> Matrix:
    matrices = given.copies()
    with np.errstate(all="ignore"):
        result: Matrix = returned(check, function, _matrix, **matrices, rank=rank, ranks=ranks)
    changed = [
        name
        for name, matrix in vars(given).items()
        if not np.array_equal(matrices[name], matrix, equal_nan=True)
    ]
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


def _adds_up(check: Checklist, function: Any, given: Gated, ranks: int) -> None:
    parts = [_part(check, function, given, rank, ranks) for rank in range(ranks)]
    found, wanted = np.sum(parts, axis=0), given.whole()
    # float32 is precise enough.
    is_whole, are_wholes = (
        np.allclose(found, one, rtol=1e-5, atol=1e-5) for one in (wanted, ranks * wanted)
    )
    if ranks == 1:
        hint = _(
            "With one rank nothing is cut, so the result must be the whole MLP: (silu(x w1)·(x "
            "w3)) w2, where silu(z) is z / (1 + exp(−z))."
        )
    elif are_wholes:
        hint = _("Every rank computed the whole: nothing is shared, and the sum is too large.")
    else:
        hint = _(
            "Cut w1 and w3 by columns and w2 by the matching rows. Every rank takes different "
            "columns, and all {inner} are taken. Where do you use `rank`? The results are added, "
            "not averaged.",
            inner=len(given.w2),
        )
    check.unless(
        not is_whole, _("the results of {ranks} ranks add up to the whole", ranks=ranks), hint=hint
    )


def _uses_its_columns(check: Checklist, function: Any, given: Gated, rank: int, ranks: int) -> None:
    """Check that NaN in a column spoils the result of one rank. Multiplied by 0 it is NaN too."""
    inner, used = len(given.w2), 0
    for column in range(inner):
        matrices = given.copies()
        matrices["w1"][:, column] = matrices["w3"][:, column] = matrices["w2"][column] = np.nan
        part = _part(check, function, Gated(**matrices), rank, ranks)
        used += not np.isfinite(part).all()
    check.unless(
        used != inner // ranks,
        _("each column is used by one rank only"),
        hint=_(
            "Rank {rank} of {ranks} uses {many} of {inner} columns. If several ranks compute the "
            "same products, no time is saved. Cut before you multiply.",
            rank=rank,
            ranks=ranks,
            many=used,
            inner=inner,
        ),
    )


def _multiplies_all(check: Checklist, function: Any) -> bool:
    """Return whether one of many ranks needs the memory of a product with all columns."""
    # A product with all columns is then larger than all matrices together, even as Python lists.
    given = gated(256, 2, 960)
    tracemalloc.start()
    try:
        _part(check, function, given, 3, 480)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    float32 = 4
    return peak_bytes > float32 * len(given.x) * len(given.w2)


def ex07_sent(answer: object, given: Any) -> None:
    """Check the gigabytes that tensor parallelism sends for one sample."""
    rows, sums = given.tokens * CHANNELS * BYTES_EACH, given.layers * A_LAYER
    right = sums * rows * 2 * (TENSOR - 1) / TENSOR / 1e9
    slips = (
        (
            given.layers * rows / 1e9,
            _(
                "You counted one sum in each layer, sent once. How many sums does a layer need, "
                "forward and backward? By what factor does a ring multiply the bytes?"
            ),
        ),
        (sums * rows / 1e9, _("In a ring every piece is sent more than once. By what factor?")),
        (right * 1.5, _("You counted six sums in a layer. Not every matrix needs a sum.")),
        (right / given.layers, _("That is the amount for one layer. The model has more layers.")),
    )
    with Checklist("07.2") as check:
        check.amount(
            check.number(answer, "gigabytes_sent"),
            Amount(right=right, unit="GB", fine=FINE, slips=slips),
            _("the amount that each device sends for a sample is right"),
            hint=_(
                "How many bytes does the output of a layer have? How often is it summed, and by "
                "what factor does the ring multiply it?"
            ),
        )


ex07_loss = tried("07.3", "vocabulary")
