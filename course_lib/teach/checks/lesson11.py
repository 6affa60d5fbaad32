"""Checks of lesson 11, sharded data parallelism."""

from __future__ import annotations

from typing import Any

from course_lib.teach.answers import Amount
from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.judge import is_right
from course_lib.words import N_, _

# Numbers of exercise 11.3. BYTES is per parameter, FLOPS per parameter and token.
FLOPS_PER_S, LINK_BYTES_PER_S, BYTES, FLOPS = 400e12, 50e9, 2, 2


def ex11_zero1(run: Any) -> None:
    """Check sharded optimizer state: reduce-scatter, step, all-gather."""
    with Checklist("11.1") as check:
        is_right(check, run, "zero1")


def ex11_fsdp(run: Any) -> None:
    """Check sharded parameters: gathered before use and freed after it."""
    with Checklist("11.2") as check:
        is_right(check, run, "fsdp")


def ex11_tokens(answer: object) -> None:
    """Check the number of tokens for which computing a layer takes as long as gathering it."""
    right = FLOPS_PER_S * BYTES / (LINK_BYTES_PER_S * FLOPS)
    with Checklist("11.3") as check:
        check.amount(
            check.number(answer, "tokens_needed"),
            Amount(
                right=right,
                unit=N_("tokens"),
                slips=(
                    (
                        right / 3,
                        _(
                            "6 FLOPs are forward and backward together. The gather runs beside "
                            "the forward pass."
                        ),
                    ),
                ),
            ),
            _("the gather takes as long as the forward pass of that many tokens"),
            hint=_(
                "Seconds to gather P parameters: 2 P / 50e9. Seconds to compute T tokens with "
                "them: 2 P T / 400e12. P cancels out."
            ),
        )
