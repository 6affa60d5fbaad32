"""Checks of lesson 03, data parallelism."""

from __future__ import annotations

from typing import Any

from course_lib.teach.answers import Amount, in_other_unit
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import (
    BYTES_PER_GRADIENT,
    batch_is,
    has_devices,
    whole_flag,
)
from course_lib.words import _

NAME, BATCH, COPIES, ITERATIONS = "wide", 32, 4, 5


def ex03_wide(run: Any) -> None:
    """Check a run with global batch 32 on four devices of two nodes, without accumulation."""
    with Checklist("03.1") as check:
        check.trained(run)
        check.equal(run.name, NAME, _("name of the run"))
        has_devices(check, run, 2, 2)
        world = run.log.world
        said = _("Its log says: {world}. A model that is split has fewer copies.", world=world)
        check.equal(world.data, COPIES, _("copies of the model"), hint=said)
        batch_is(check, run, BATCH)
        at_once = _("How many samples must each of 4 devices take, so that all 32 pass at once?")
        times = _("passes through the model before each step")
        check.equal(world.micro_batches, 1, times, hint=at_once)
        check.equal(whole_flag(run, "--train-iters"), ITERATIONS, _("iterations"))


def ex03_megabytes(answer: object, run: Any) -> None:
    """Check the bytes that each device sends in ring all-reduces during a whole run."""
    with Checklist("03.2") as check:
        given = check.number(answer, "megabytes_sent")
        check.trained(run)
        gradients_mb = BYTES_PER_GRADIENT * run.log.parameter_count / 1e6
        devices, iterations = run.log.world.data or 1, run.log.last_iteration
        once = 2 * (devices - 1) / devices * gradients_mb
        in_one = _(
            "That is what a device sends in one iteration. The run had {iterations}.",
            iterations=iterations,
        )
        slips = (
            in_other_unit(iterations * once, "MB", "bytes"),
            (once, in_one),
            (
                iterations * gradients_mb,
                _("In a ring every piece is sent more than once. By what factor?"),
            ),
        )
        check.amount(
            given,
            Amount(right=iterations * once, unit="MB", slips=slips),
            _("the answer is the amount of data that a device sends"),
            hint=_(
                "One gradient is {bytes_per_gradient} bytes (float32); the log of the "
                "run says how many parameters there are, and d is {devices}.",
                bytes_per_gradient=BYTES_PER_GRADIENT,
                devices=devices,
            ),
        )
