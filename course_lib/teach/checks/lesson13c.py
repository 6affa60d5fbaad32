"""Checks of lesson 13c, experts over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from course_lib.teach.checklist import Checklist
from course_lib.teach.functions import is_function, returned
from course_lib.teach.trials.judge import tried
from course_lib.words import _

EXPERTS, CHOSEN, TOKENS, STEPS, RATE = 8, 2, 256, 300, 0.02
# Highest number of tokens of an expert over the mean, as a mean of the last steps.
BALANCED = 1.6


def ex13c_bias(function: Any) -> None:
    """Check the rule that balances experts, on a router that prefers some of them."""
    with Checklist("13c.1") as check:
        is_function(check, function, "new_bias")

        def bias_after(bias: Sequence[float], tokens: Sequence[int], rate: float) -> list[float]:
            arguments = {"bias": list(bias), "tokens": list(tokens), "rate": rate}
            moved: list[float] = returned(check, function, _numbers, **arguments)
            return moved

        moved = bias_after([0.5, 0.0, -0.5, 0.0], [10, 2, 4, 4], 0.25)
        check.that(
            len(moved) == 4,
            _("the function returns one number for each expert"),
            hint=_("The function returns {count} numbers for 4 experts.", count=len(moved)),
        )
        check.that(
            moved[0] < 0.5 and moved[1] > 0,
            _("a busy expert's bias falls, and an idle expert's bias rises"),
            hint=_(
                "With 10, 2, 4 and 4 tokens, the biases 0.5 and 0 of the first two experts become "
                "{first:g} and {second:g}. Compare the tokens of an expert with the mean, 5.",
                first=moved[0],
                second=moved[1],
            ),
        )
        busiest = _busiest(bias_after)
        check.that(
            busiest <= BALANCED,
            _("after {steps} steps, no expert has far more than its share", steps=STEPS),
            hint=_(
                "The busiest expert still has {times:.1f} times its share. Each step moves each "
                "bias by `rate`, beginning from its old value.",
                times=busiest,
            ),
        )


ex13c_experts = tried("13c.2", "experts")


def _numbers(answer: Any) -> list[float]:
    return [float(number) for number in np.asarray(answer, dtype=float).ravel()]


def _busiest(bias_after: Any) -> float:
    """Return the tokens of the busiest expert over the mean, for the last quarter of the steps."""
    random = np.random.default_rng(0)
    liked, bias = np.linspace(1, -1, EXPERTS), [0.0] * EXPERTS
    times = []
    for _step in range(STEPS):
        logits = random.normal(size=(TOKENS, EXPERTS)) + liked
        scores = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        chosen = np.argsort(scores + np.array(bias), axis=1)[:, -CHOSEN:]
        tokens = np.bincount(chosen.ravel(), minlength=EXPERTS)
        bias = bias_after(bias, tokens.tolist(), RATE)
        times.append(tokens.max() / tokens.mean())
    return float(np.mean(times[STEPS * 3 // 4 :]))
