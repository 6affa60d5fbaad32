"""Checks of lesson 11, sharded data parallelism."""

from __future__ import annotations

from typing import Any

from course_lib.teach.answers import Amount
from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.judge import tried
from course_lib.words import N_, _

# Bytes per parameter, and FLOPs per parameter and token.
BYTES, FLOPS = 2, 2

ex11_zero1 = tried("11.1", "zero1")
ex11_fsdp = tried("11.2", "fsdp")
ex11_clip = tried("11.3", "clip")


def ex11_tokens(answer: object, device: Any) -> None:
    """Check the number of tokens for which computing a layer takes as long as gathering it."""
    right = device.tflops * 1e12 * BYTES / (device.gb_per_s * 1e9 * FLOPS)
    twos = _(
        "A factor 2 is missing or doubled. A bf16 number has 2 bytes, and T tokens take 2 P T "
        "FLOPs."
    )
    both = _(
        "6 FLOPs count forward and backward together. The gather runs during the forward pass "
        "alone."
    )
    tera = _("A TFLOP/s is 1000 times a GFLOP/s, and a GB/s is 1e9 bytes/s.")
    slips = ((right / 3, both), (right * 2, twos), (right / 2, twos), (right / 1000, tera))
    with Checklist("11.4") as check:
        check.amount(
            check.number(answer, "tokens_needed"),
            Amount(right=right, unit=N_("tokens"), slips=slips),
            _("the gather takes as long as the forward pass of that many tokens"),
            hint=_(
                "Compare the seconds to gather P parameters with the seconds to compute T tokens. "
                "They are 2 P / {gb_per_s}e9 and 2 P T / {tflops}e12, and P cancels out.",
                gb_per_s=device.gb_per_s,
                tflops=device.tflops,
            ),
        )
