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
    twos = _("Count again: 2 bytes for each parameter, and 2 FLOPs for each token.")
    passes = _("6 FLOPs are forward and backward together; the gather goes beside forward.")
    bits = _("50 GB/s are bytes, not bits.")
    with Checklist("11.3") as check:
        check.amount(
            check.number(answer, "tokens_needed"),
            Amount(
                right=right,
                unit=N_("tokens"),
                slips={
                    **dict.fromkeys((right * times for times in (2, 1 / 2, 4, 1 / 4)), twos),
                    **dict.fromkeys((right * times for times in (1 / 3, 1 / 6, 3, 6)), passes),
                    **dict.fromkeys((right * times for times in (8, 1 / 8)), bits),
                },
            ),
            _("the gather takes as long as the forward pass of that many tokens"),
            hint=_(
                "Seconds to gather P parameters: 2 P / 50e9. Seconds to compute T tokens "
                "with them: 2 P T / 400e12. P falls out."
            ),
        )
