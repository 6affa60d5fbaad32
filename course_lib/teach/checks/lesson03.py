"""Lesson 03, data parallelism."""

from __future__ import annotations

from functools import partial
from typing import Any

from course_lib.teach.checklist import Checklist, close

BYTES_PER_GRADIENT = 4
CLOSE_ENOUGH = 0.02
"""Share by which a number worked out by hand may be off."""
_close = partial(close, share=CLOSE_ENOUGH)


def ex03_wide(run: Any) -> None:
    """Global batch 32 on four devices of two nodes, without accumulation."""
    with Checklist("03.1") as check:
        check.trained(run)
        world, iterations = run.log.world, run.log.iterations
        check.that(
            run.recipe.nodes == 2,
            "it used both nodes",
            hint=f"It asked for {run.recipe.nodes}. Look at --nodes in lab.script(wide).",
        )
        check.that(
            world.data == 4,
            "the model was copied four times",
            hint=f"The world line of its log says: {world}",
        )
        batch = int(iterations["global_batch_size"].iloc[-1])
        check.that(
            batch == 32,
            "the global batch was 32",
            hint=f"The iteration lines say {batch}.",
        )
        check.that(
            world.micro_batches == 1,
            "every device saw its share of the batch at once",
            hint=f"The program went through the model {world.micro_batches} times before each "
            "step. How many samples does each of 4 devices have to take, if 32 are to be done in "
            "one go?",
        )


def ex03_megabytes(answer: object, run: Any) -> None:
    """Bytes that each device sends in a ring all-reduce, over a whole run."""
    with Checklist("03.2") as check:
        given = check.number(answer, "megabytes_sent")
        check.trained(run)
        devices = run.log.world.data
        iterations = run.log.last_iteration
        gradients_mb = BYTES_PER_GRADIENT * run.log.parameter_count / 1e6
        right = iterations * 2 * (devices - 1) / devices * gradients_mb
        check.unless(
            _close(given * iterations, right),
            "it counts all iterations",
            hint=f"{given:g} MB is what a device sends in one iteration. The run had {iterations}.",
        )
        check.unless(
            _close(given, iterations * gradients_mb),
            "it counts what the ring sends, not what the gradients weigh",
            hint="You have the size of the gradients right. In the ring every piece of them travels"
            " more than once.",
        )
        check.unless(
            _close(given * 1e6, right) or _close(given, right * 1e6),
            "it is in megabytes",
            hint="The digits are right, the unit is not: 1 MB is 1 000 000 bytes.",
        )
        check.that(
            _close(given, right),
            "it is the amount of data that a device sends",
            hint=f"You answered {given:g} MB. One gradient is {BYTES_PER_GRADIENT} bytes (float32);"
            f" the log of the run says how many parameters there are, and d is {devices}.",
        )
