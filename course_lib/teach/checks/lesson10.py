"""Lesson 10, gradient accumulation."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import (
    BYTES_PER_GRADIENT,
    another_run,
    counted_otherwise,
    fewer_copies,
    global_batch,
    gradient_bytes,
    iterations_asked,
    whole_flag,
)
from course_lib.teach.slips import Quantity

MICRO_BATCH, GLOBAL_BATCH, COPIES, ITERATIONS = 2, 32, 4, 3
DEVICES, ACCUMULATED = 16, 8
RING_OF_FOUR = 1.5
NAME = "fits"


def ex10_fits(run: Any) -> None:
    """Global batch 32 on four devices of two nodes, never more than two samples at once."""
    with Checklist("10.1") as check:
        check.started(run, "pretrain_gpt.py")
        check.that(
            run.recipe.nodes == 2,
            "it used both nodes",
            hint=f"It asked for {run.recipe.nodes}. Look at --nodes in lab.script(fits).",
        )
        world = check.left(run, "log").world
        check.that(
            world.data == COPIES,
            f"{COPIES} copies of the model shared the batch",
            hint=fewer_copies(run),
        )
        micro, count = whole_flag(run, "--micro-batch-size", 1), world.micro_batches
        check.that(
            micro <= MICRO_BATCH,
            f"at most {MICRO_BATCH} samples were in a device at once",
            hint=f"{another_run(run, NAME)}The micro-batch of this run is {micro}. "
            + ("That is what a device would need to do its share at once." if count == 1 else ""),
        )
        _whole_batch(check, run, micro, count)
        check.that(
            micro == MICRO_BATCH,
            "no smaller portions than necessary",
            hint=f"With micro-batches of {micro} each device goes through the model {count} times; "
            f"{MICRO_BATCH} samples fit at once, so fewer passes would do.",
        )
        iterations_asked(check, run, ITERATIONS)


def _whole_batch(check: Checklist, run: Any, micro: int, count: int) -> None:
    batch = global_batch(run) or 0
    if batch == micro * COPIES:
        look = "That is one micro-batch on each device: nothing was accumulated."
    else:
        made = f"It made {count} micro-batches of {micro} on each of {COPIES} devices."
        look = counted_otherwise(batch, GLOBAL_BATCH, COPIES) or made
    check.that(
        batch == GLOBAL_BATCH,
        f"a step counted {GLOBAL_BATCH} samples",
        hint=f"{another_run(run, NAME)}The iteration lines say {batch}. {look}",
    )


def ex10_needless(answer: object, run: Any) -> None:
    """What a loop without `no_sync` sends beyond what it must."""
    with Checklist("10.2") as check:
        given = check.number(answer, "needless_mb")
        check.trained(run)
        gradients_mb = gradient_bytes(check, run) / 1e6
        check.amount(
            given,
            _needless(gradients_mb),
            "it is what every device sends needlessly in a step",
            hint=f"One gradient is {BYTES_PER_GRADIENT} bytes; the log of {run.name} says how many "
            f"parameters there are; d is {DEVICES}.",
        )


def _needless(gradients_mb: float) -> Quantity:
    times = ACCUMULATED - 1
    once = 2 * (DEVICES - 1) / DEVICES * gradients_mb
    right = times * once
    own = (
        (
            ACCUMULATED * once,
            "That is all that it sends. One of the eight exchanges is needed.",
        ),
        (
            ACCUMULATED * gradients_mb,
            "You counted all eight exchanges, each as large as the gradients. One of them is "
            "needed, and in the ring every piece travels more than once.",
        ),
        (
            times * gradients_mb,
            "Seven times the gradients is right so far. In the ring every piece of them travels "
            "more than once.",
        ),
        (
            times * RING_OF_FOUR * gradients_mb,
            "1.5 is the factor of a ring of four. What is 2 (d - 1) / d for d = 16?",
        ),
        *(
            (
                many * once,
                f"That is {many} exchanges. A step has {ACCUMULATED} micro-batches on each device, "
                "and needs one exchange.",
            )
            for many in (3, 5, 6, 9, DEVICES - 1, DEVICES)
        ),
        (
            (DEVICES - 1) * 2 * (ACCUMULATED - 1) / ACCUMULATED * gradients_mb,
            f"The numbers are swapped: {ACCUMULATED} micro-batches, on {DEVICES} devices.",
        ),
        (100 * times / ACCUMULATED, "That is the share in percent. How many MB are it?"),
        (
            right / ACCUMULATED,
            "That is the mean of the eight micro-batches. What a step sends is asked for.",
        ),
        (
            right * 5,
            "That is for the five iterations of the run. What is sent in every step is asked for.",
        ),
        (gradients_mb * RING_OF_FOUR, "1.5 is the factor of a ring of four, and that is once."),
        (once, "That is one exchange. How many does the loop make, and how many does it need?"),
    )
    return Quantity(
        right=right,
        unit="MB",
        own=own,
        known={
            "how many million parameters there are": gradients_mb / BYTES_PER_GRADIENT,
            "the size of all gradients": gradients_mb,
        },
        counts={"needless exchanges": times},
        bytes_each=BYTES_PER_GRADIENT,
        ring=DEVICES,
    )
