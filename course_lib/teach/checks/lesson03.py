"""Lesson 03, data parallelism."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import (
    BYTES_PER_GRADIENT,
    another_run,
    copies,
    counted_otherwise,
    fewer_copies,
    global_batch,
    gradient_bytes,
    iterations_asked,
)
from course_lib.teach.slips import Quantity

NAME, BATCH, COPIES, ITERATIONS = "wide", 32, 4, 5


def ex03_wide(run: Any) -> None:
    """Global batch 32 on four devices of two nodes, without accumulation."""
    with Checklist("03.1") as check:
        check.trained(run)
        world, batch = run.log.world, global_batch(run)
        check.that(
            run.recipe.nodes == 2,
            "it used both nodes",
            hint=f"It asked for {run.recipe.nodes}. Look at --nodes in lab.script(wide).",
        )
        check.that(
            world.data == COPIES,
            "the model was copied four times",
            hint=fewer_copies(run),
        )
        check.that(
            batch == BATCH,
            "the global batch was 32",
            hint=f"{another_run(run, NAME)}The iteration lines say {batch}. "
            + (counted_otherwise(batch, BATCH, COPIES) or _on_each(batch)),
        )
        check.that(
            world.micro_batches == 1,
            "every device saw its share of the batch at once",
            hint=f"The program went through the model {world.micro_batches} times before each "
            "step. How many samples does each of 4 devices have to take, if 32 are to be done in "
            "one go?",
        )
        iterations_asked(check, run, ITERATIONS)


def _on_each(batch: int | None) -> str:
    return f"That is {batch / COPIES:g} on each of {COPIES} devices." if batch else ""


def ex03_megabytes(answer: object, run: Any) -> None:
    """Bytes that each device sends in a ring all-reduce, over a whole run."""
    with Checklist("03.2") as check:
        given = check.number(answer, "megabytes_sent")
        check.trained(run)
        gradients_mb = gradient_bytes(check, run) / 1e6
        devices, iterations = copies(check, run), run.log.last_iteration
        once = 2 * (devices - 1) / devices * gradients_mb
        sent = Quantity(
            right=iterations * once,
            unit="MB",
            own=(
                (once, f"That is sent in one iteration. The run had {iterations}."),
                (ITERATIONS * once, f"That is for the {ITERATIONS} iterations of `wide`."),
            ),
            known={
                "how many million parameters there are": gradients_mb / BYTES_PER_GRADIENT,
                "the size of all gradients": gradients_mb,
            },
            counts={"iterations": iterations},
            bytes_each=BYTES_PER_GRADIENT,
            ring=devices,
        )
        check.amount(
            given,
            sent,
            "it is the amount of data that a device sends",
            hint=f"One gradient is {BYTES_PER_GRADIENT} bytes (float32); the log of the run says "
            f"how many parameters there are, and d is {devices}.",
        )
