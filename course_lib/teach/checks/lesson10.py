"""Lesson 10, gradient accumulation."""

from __future__ import annotations

from functools import partial
from typing import Any

from course_lib.teach.checklist import Checklist, close

MICRO_BATCH, GLOBAL_BATCH, COPIES = 2, 32, 4
DEVICES, ACCUMULATED = 16, 8
BYTES_PER_GRADIENT = 4
CLOSE_ENOUGH = 0.02
_close = partial(close, share=CLOSE_ENOUGH)


def ex10_fits(run: Any) -> None:
    """Global batch 32 on four devices of two nodes, never more than two samples at once."""
    with Checklist("10.1") as check:
        check.succeeded(run)
        check.that(
            run.recipe.program.endswith("pretrain_gpt.py"),
            "the run trained the GPT",
            hint=f"This is the run {run.name!r}, which started something else. Check `fits_run`.",
        )
        check.that(
            run.recipe.nodes == 2,
            "it used both nodes",
            hint=f"It asked for {run.recipe.nodes}. Look at --nodes in lab.script(fits).",
        )
        world, flags = run.log.world, run.recipe.flags
        check.that(
            world.data == COPIES,
            f"{COPIES} copies of the model shared the batch",
            hint=f"The world line says data-parallel size {world.data}. Is this the run of the "
            f"exercise? It is called {run.name!r}.",
        )
        micro, count = int(flags.get("--micro-batch-size", 1)), world.micro_batches
        check.that(
            micro <= MICRO_BATCH,
            f"at most {MICRO_BATCH} samples were in a device at once",
            hint=f"The micro-batch of this run is {micro}. "
            + ("That is what a device would need to do its share at once." if count == 1 else ""),
        )
        _whole_batch(check, run, micro, count)
        check.that(
            micro == MICRO_BATCH,
            "no smaller portions than necessary",
            hint=f"With micro-batches of {micro} each device goes through the model {count} times; "
            f"{MICRO_BATCH} samples fit at once, so fewer passes would do.",
        )


def _whole_batch(check: Checklist, run: Any, micro: int, count: int) -> None:
    iterations = run.log.iterations
    batch = int(iterations["global_batch_size"].iloc[-1]) if len(iterations) else 0
    if batch == micro * COPIES:
        look = "That is one micro-batch on each device: nothing was accumulated."
    elif batch * COPIES == GLOBAL_BATCH:
        look = "The global batch counts over all devices, not on one."
    elif batch == GLOBAL_BATCH * COPIES:
        look = "The global batch counts over all devices; it is not multiplied by them."
    else:
        look = f"It made {count} micro-batches of {micro} on each of {COPIES} devices."
    check.that(
        batch == GLOBAL_BATCH,
        f"a step counted {GLOBAL_BATCH} samples",
        hint=f"The iteration lines say {batch}. {look}",
    )


def ex10_needless(answer: object, run: Any) -> None:
    """What a loop without `no_sync` sends beyond what it must."""
    with Checklist("10.2") as check:
        given = check.number(answer, "needless_mb")
        check.succeeded(run)
        gradients_mb = BYTES_PER_GRADIENT * run.log.parameter_count / 1e6
        once = 2 * (DEVICES - 1) / DEVICES * gradients_mb
        right = (ACCUMULATED - 1) * once
        check.that(
            not _close(given * 1e6, right) and not _close(given, right * 1e6),
            "it is in megabytes",
            hint="The digits are right, the unit is not: 1 MB is 1 000 000 bytes.",
        )
        check.that(
            not _close(given, ACCUMULATED * once),
            "what must be sent is not counted",
            hint="That is all that it sends. One of the eight exchanges is needed.",
        )
        check.that(
            not _close(given, (ACCUMULATED - 1) * gradients_mb),
            "it counts what the ring sends, not what the gradients weigh",
            hint="Seven times the gradients is right so far. In the ring every piece of them "
            "travels more than once.",
        )
        check.that(
            not _close(given, (ACCUMULATED - 1) * 1.5 * gradients_mb),
            "the ring has 16 devices",
            hint="1.5 is the factor of a ring of four. What is 2 (d - 1) / d for d = 16?",
        )
        check.that(
            not _close(given, once),
            "all needless exchanges are counted",
            hint="That is one exchange. How many does the loop make, and how many does it need?",
        )
        check.that(
            _close(given, right),
            "it is what every device sends needlessly in a step",
            hint=f"You answered {given:g} MB. One gradient is {BYTES_PER_GRADIENT} bytes; the log "
            f"of {run.name} says how many parameters there are; d is {DEVICES}.",
        )
