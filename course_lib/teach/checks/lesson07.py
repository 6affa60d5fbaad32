"""Lesson 07, tensor parallelism."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from course_lib.teach.checklist import Checklist
from course_lib.teach.orders.calling import called
from course_lib.teach.slips import Quantity

Matrix = np.ndarray[Any, np.dtype[np.float64]]
Gated = tuple[Matrix, Matrix, Matrix, Matrix]
TOKENS, WIDTH, INNER = 5, 6, 8
LAYERS, TENSOR, ROWS, CHANNELS, BYTES_EACH, A_LAYER = 80, 8, 4096, 8192, 2, 4
NAME = "partial_sum"


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
        given = matrices()
        for ranks in (1, 2, 4):
            parts = [_part(check, function, given, rank, ranks) for rank in range(ranks)]
            _adds_up(check, parts, whole(*given), ranks)
        check.that(True, "the results of 1, 2 and 4 ranks add up to the whole", hint="")
        _each_column_once(check, function, given)


def matrices() -> Gated:
    random = np.random.default_rng(7)
    shapes = ((TOKENS, WIDTH), (WIDTH, INNER), (WIDTH, INNER), (INNER, WIDTH))
    x, w1, w3, w2 = (random.normal(size=shape) for shape in shapes)
    return x, w1, w3, w2


def whole(x: Matrix, w1: Matrix, w3: Matrix, w2: Matrix) -> Matrix:
    z = x @ w1
    return np.asarray(z / (1 + np.exp(-z)) * (x @ w3) @ w2)


def _part(
    check: Checklist, function: Callable[..., Any], given: Gated, rank: int, ranks: int
) -> Matrix:
    x, w1, w3, w2 = (matrix.copy() for matrix in given)
    asked = f"{NAME}(x, w1, w3, w2, {rank}, {ranks})"
    try:
        found = called(function, x=x, w1=w1, w3=w3, w2=w2, rank=rank, ranks=ranks)
    except Exception as error:
        check.refuse(
            f"{asked} works",
            f"It ended with {type(error).__name__}: {str(error)[:200]}\nShapes that do not fit "
            "mean that one of the three matrices is cut another way than its partner.",
        )
    check.unless(
        found is ... or found is None,
        f"{asked} gives a result",
        hint=f"It gave {'nothing' if found is None else 'the ...'}. Return the partial sum.",
    )
    try:
        result = np.asarray(getattr(found, "tolist", lambda: found)(), dtype=float)
    except (TypeError, ValueError):
        result = np.zeros(())
    check.unless(
        result.shape != (TOKENS, WIDTH),
        f"{asked} has the shape of the whole",
        hint=f"It is {type(found).__name__} of shape {result.shape}, and the whole has "
        f"{(TOKENS, WIDTH)}: a row for each token. Partial sums have the full shape.",
    )
    return result


def _close(one: Matrix, other: Matrix) -> bool:
    """Float32 is as good as float64."""
    return np.allclose(one, other, rtol=1e-5, atol=1e-5)


def _adds_up(check: Checklist, parts: list[Matrix], wanted: Matrix, ranks: int) -> None:
    found = np.sum(parts, axis=0)
    hint = "Which columns of w3 does the gate need, where this rank has some columns of w1? And "
    hint += "which rows of w2 belong to them?"
    if ranks == 1:
        hint = _another_whole(found)
    elif _close(found, ranks * wanted):
        hint = "Every rank computed the whole: nothing is shared, and the sum is too large."
    elif _close(found * ranks, wanted):
        hint = "It is too small by the number of ranks: partial sums are added, not averaged."
    elif all(_close(part, parts[0]) for part in parts):
        hint = "All ranks returned the same: where does `rank` enter?"
    check.unless(
        not _close(found, wanted),
        f"the results of {ranks} ranks add up to the whole",
        hint=hint,
    )


def _another_whole(found: Matrix) -> str:
    """What was computed instead, where nothing is cut yet."""
    x, w1, w3, w2 = matrices()
    z, gate = x @ w1, x @ w3
    sigmoid = 1 / (1 + np.exp(-z))
    instead = {
        "silu goes to x w1, and you gave it x w3.": gate / (1 + np.exp(-gate)) * z,
        "The gate x w3 is missing.": z * sigmoid,
        "silu is missing.": z * gate,
        "silu goes to x w1 alone, before the gate.": z * gate / (1 + np.exp(-z * gate)),
        "silu(z) is z / (1 + exp(−z)); you took the sigmoid, without z.": sigmoid * gate,
        "silu(z) is z / (1 + exp(−z)); you took relu.": np.maximum(z, 0) * gate,
        "The gate is multiplied; you added it.": z * sigmoid + gate,
    }
    why = next((said for said, inner in instead.items() if _close(found, inner @ w2)), "")
    whole_is = "With one rank nothing is cut, and the whole must come out: "
    return f"{why}\n{whole_is}(silu(x w1) · (x w3)) w2".strip()


def _each_column_once(check: Checklist, function: Callable[..., Any], given: Gated) -> None:
    """Whose result changes when a column of the inner width is another one."""
    ranks = 4
    before = [_part(check, function, given, rank, ranks) for rank in range(ranks)]
    users_of: list[set[int]] = []
    for column in range(INNER):
        x, w1, w3, w2 = (matrix.copy() for matrix in given)
        w1[:, column] += 1
        after = [_part(check, function, (x, w1, w3, w2), rank, ranks) for rank in range(ranks)]
        users_of.append(
            {rank for rank in range(ranks) if not _close(before[rank], after[rank])},
        )
    users = max(map(len, users_of))
    check.that(
        users <= 1,
        "each column is used by one rank only",
        hint=f"One column of w1 changes the results of {users} ranks: they compute the same "
        "products, and no time is saved. Cut before you multiply.",
    )
    busy = set().union(*users_of)
    check.unless(
        len(busy) < ranks,
        "each rank has some columns",
        hint=f"Of {ranks} ranks, {len(busy)} compute and the others add nothing. Each is to have "
        f"{INNER // ranks} of {INNER} columns.",
    )


def ex07_sent(answer: object) -> None:
    """Gigabytes that tensor parallelism sends for a sample."""
    rows = ROWS * CHANNELS * BYTES_EACH
    right = LAYERS * A_LAYER * rows * 2 * (TENSOR - 1) / TENSOR / 1e9
    wanted = Quantity(
        right=right,
        unit="GB",
        ring=TENSOR,
        bytes_each=BYTES_EACH,
        counts={"layers": LAYERS, "all-reduces of a layer": A_LAYER},
        own=(
            (right / 2, "That is half: of the forward pass alone, or the ring gone round once."),
            (
                right / A_LAYER,
                "That counts one all-reduce in a layer. How many are there, forward and backward?",
            ),
            (
                LAYERS * rows / 1e9,
                "That is one sum in a layer, sent once. How many sums has a layer, forward and "
                "backward, and what does the ring make of each?",
            ),
            (
                right * 96 / LAYERS,
                f"That is for 96 layers, as GPT-3 has them. This model has {LAYERS}.",
            ),
            (right / ROWS, f"That is one token. A sample has {ROWS}."),
            (right / CHANNELS, f"You left out the width: a token has {CHANNELS} numbers."),
            (right * 4, "Between layers go h numbers for a token; 4 h stay inside the MLP."),
            (
                right / TENSOR,
                "You divided by the devices. A sum has its full size on every one of them: the "
                "products are cut, not what comes out.",
            ),
        ),
    )
    with Checklist("07.2") as check:
        check.amount(
            check.number(answer, "gigabytes_sent"),
            wanted,
            "each device sends that much for a sample",
            hint="How many bytes does one layer hand to the next? How often is that summed, and "
            "what does the ring make of it?",
        )
