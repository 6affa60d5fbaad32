"""Checks of lesson 03, data parallelism."""

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

NAME, BATCH, COPIES, ITERATIONS = "wide", 32, 4, 5


def ex03_wide(run: Any) -> None:
    """Check a run with global batch 32 on four devices of two nodes, without accumulation."""
    with Checklist("03.1") as check:
        check.trained(run)
        is_run_of(check, run, NAME)
        has_devices(check, run, 2, 2)
        copies(check, run, COPIES)
        batch_is(check, run, BATCH, COPIES)
        check.that(
            run.log.world.micro_batches == 1,
            _("every device saw its share of the batch at once"),
            hint=_(
                "The program went through the model {micro_batches} times before each step. How "
                "many samples must each of 4 devices take, so that all 32 pass at once?",
                micro_batches=run.log.world.micro_batches,
            ),
        )
        flags_are(check, run, {"--train-iters": ITERATIONS}, {})


def ex03_megabytes(answer: object, run: Any) -> None:
    """Check the bytes that each device sends in ring all-reduces during a whole run."""
    with Checklist("03.2") as check:
        given = check.number(answer, "megabytes_sent")
        check.trained(run)
        gradients_mb = gradient_bytes(check, run) / 1e6
        devices, iterations = copies(check, run), run.log.last_iteration
        once = 2 * (devices - 1) / devices * gradients_mb
        sent = Amount(
            right=iterations * once,
            unit="MB",
            slips=(
                in_other_unit(iterations * once, "MB", "bytes"),
                (
                    once,
                    _(
                        "That is what a device sends in one iteration. The run had {iterations}.",
                        iterations=iterations,
                    ),
                ),
                (
                    iterations * gradients_mb,
                    _("In a ring every piece is sent more than once. By what factor?"),
                ),
            ),
        )
        check.amount(
            given,
            sent,
            _("the answer is the amount of data that a device sends"),
            hint=_(
                "One gradient is {bytes_per_gradient} bytes (float32); the log of the "
                "run says how many parameters there are, and d is {devices}.",
                bytes_per_gradient=BYTES_PER_GRADIENT,
                devices=devices,
            ),
        )
