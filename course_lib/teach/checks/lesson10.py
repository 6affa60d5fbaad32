"""Checks of lesson 10, gradient accumulation."""

from __future__ import annotations

from typing import Any

from course_lib.teach.answers import Amount, in_other_unit
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import BYTES_PER_GRADIENT, gradient_bytes
from course_lib.teach.trials.judge import is_right
from course_lib.words import _

DEVICES, ACCUMULATED = 16, 8


def ex10_accumulate(run: Any) -> None:
    """Check gradient accumulation: gradients, loss, and how often the gradients are sent."""
    with Checklist("10.1") as check:
        is_right(check, run, "accumulate")


def ex10_needless(answer: object, run: Any) -> None:
    """Check the bytes that a loop without `no_sync` sends needlessly."""
    with Checklist("10.2") as check:
        given = check.number(answer, "needless_mb")
        check.trained(run)
        gradients_mb = gradient_bytes(check, run) / 1e6
        check.amount(
            given,
            _needless(gradients_mb),
            _("it is what every device sends unnecessarily in a step"),
            hint=_(
                "One gradient is {bytes_per_gradient} bytes; the log of {name} says how "
                "many parameters there are; d is {devices}.",
                bytes_per_gradient=BYTES_PER_GRADIENT,
                name=run.name,
                devices=DEVICES,
            ),
        )


def _needless(gradients_mb: float) -> Amount:
    times = ACCUMULATED - 1
    once = 2 * (DEVICES - 1) / DEVICES * gradients_mb
    return Amount(
        right=times * once,
        unit="MB",
        slips=(
            in_other_unit(times * once, "MB", "bytes"),
            (
                ACCUMULATED * once,
                _("That is all that a device sends. One of the eight exchanges is needed."),
            ),
            (once, _("That is one exchange. How many of the eight are unnecessary?")),
            (
                times * gradients_mb,
                _("In a ring every piece is sent more than once. By what factor?"),
            ),
        ),
    )
