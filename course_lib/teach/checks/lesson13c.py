"""Checks of lesson 13c, experts over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from course_lib.teach.checklist import Checklist
from course_lib.teach.functions import is_function, returned
from course_lib.teach.trials.judge import tried
from course_lib.words import _

# Biases of experts, and their tokens.
CASES = (([0.5, 0.0, -0.5, 0.0], [10, 2, 5, 3]), ([1.0, -2.0, 3.0], [1, 7, 2]))
RATE = 0.25


def ex13c_bias(function: Any) -> None:
    """Check the rule that balances experts."""
    with Checklist("13c.1") as check:
        is_function(check, function, "new_bias")
        for bias, tokens in CASES:
            moved = returned(
                check, function, _numbers, bias=list(bias), tokens=list(tokens), rate=RATE
            )
            mean = sum(tokens) / len(tokens)
            wanted = [
                old + RATE * np.sign(mean - one) for old, one in zip(bias, tokens, strict=True)
            ]
            check.that(
                len(moved) == len(wanted) and np.allclose(moved, wanted),
                _("each of {count} biases moves by the rate, towards balance", count=len(bias)),
                where=_(
                    "With {tokens} tokens and a rate of {rate}, the biases {bias} become {moved}. ",
                    tokens=_listed(tokens), rate=RATE, bias=_listed(bias), moved=_listed(moved),
                ),
                hint=_(
                    "They should become {wanted}. The mean is {mean:.3g} tokens. An expert with "
                    "more loses the rate from its bias, an expert with fewer gains it, and an "
                    "expert with the mean keeps its bias.", wanted=_listed(wanted), mean=mean,
                ),
            )  # fmt: skip


ex13c_experts = tried("13c.2", "experts")


def _numbers(answer: Any) -> list[float]:
    return [float(number) for number in np.asarray(answer, dtype=float).ravel()]


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
