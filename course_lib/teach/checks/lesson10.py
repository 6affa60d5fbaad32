"""Checks of lesson 10, gradient accumulation."""

from __future__ import annotations

from typing import Any

from course_lib.teach.answers import Amount, in_other_unit
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import (
    BYTES_PER_GRADIENT,
    batch_is,
    copies,
    flags_are,
    gradient_bytes,
    has_devices,
    is_run_of,
)
from course_lib.words import _

MICRO_BATCH, GLOBAL_BATCH, COPIES, ITERATIONS = 2, 32, 4, 3
DEVICES, ACCUMULATED = 16, 8
NAME = "fits"


def ex10_fits(run: Any) -> None:
    """Check global batch 32 on four devices of two nodes, with at most two samples at once."""
    with Checklist("10.1") as check:
        check.started(run, "pretrain_gpt.py")
        is_run_of(check, run, NAME)
        has_devices(check, run, 2, 2)
        check.left(run, "log")
        copies(check, run, COPIES)
        batch_is(check, run, GLOBAL_BATCH, COPIES)
        flags_are(
            check,
            run,
            {"--micro-batch-size": MICRO_BATCH, "--train-iters": ITERATIONS},
            {
                "--micro-batch-size": _(
                    "So many samples are in a device at once. {count} fit, and with fewer it goes "
                    "through the model more often than it has to.",
                    count=MICRO_BATCH,
                )
            },
        )


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
