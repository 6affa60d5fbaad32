"""Checks of lesson 07b, pipelines and their combination with tensor parallelism."""

from __future__ import annotations

import math
from typing import Any

from course_lib.teach.answers import Amount
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import (
    batch_is,
    gradient_bytes,
    has_devices,
    is_run_of,
    whole_flag,
)
from course_lib.words import _

NAME, NODES, DEVICES, MICRO_BATCHES, GLOBAL_BATCH = "hybrid", 2, 4, 4, 8
# Numbers of exercise 07b.2.
MOST_BUBBLE = 0.1
# Number of exercise 07b.3.
BYTES_PER_NUMBER = 4


def ex07b_hybrid(run: Any) -> None:
    """Check tensor 2 × pipeline 2 on two nodes: tensor inside a node, four micro-batches a step."""
    with Checklist("07b.1") as check:
        check.succeeded(run)
        # A run of the lesson may have the same layout, but the learner filled no gap for it.
        is_run_of(check, run, NAME)
        check.trained(run)
        has_devices(check, run, NODES, DEVICES // NODES)
        world = run.log.world
        check.that(
            world.world_size == DEVICES,
            _("{devices} processes formed one world", devices=DEVICES),
            hint=_(
                "The world line says world size {world_size}. There is one process per device "
                "slot. How many slots does each node have, and does every launcher start a "
                "process for each?",
                world_size=world.world_size,
            ),
        )
        check.that(
            (world.tensor, world.pipeline) == (2, 2),
            "tensor 2 × pipeline 2",
            hint=_(
                "The world line says tensor {tensor}, pipeline {pipeline}, data {data}. Their "
                "product is the number of devices. Tensor ranks share every matrix, pipeline ranks "
                "the layers, and data ranks have a copy of the model each.",
                tensor=world.tensor,
                pipeline=world.pipeline,
                data=world.data,
            ),
        )
        # Tensor groups lie inside nodes of two devices if tensor is the fastest axis larger than 1.
        # All orders of Megatron-LM begin with it.
        order = str(run.log.arguments.get("rank_order", "tp"))
        axes = [axis for axis in order.split("-") if axis in ("tp", "pp")]
        check.unless(
            axes[:1] == ["pp"],
            _("ranks that share every matrix are on the same node"),
            hint=_(
                "The order was {order}: tensor and pipeline are swapped. The axis named "
                "first varies fastest, so ranks 0 and 1, neighbours on the first node, "
                "are now two stages, and every all-reduce of tensor parallelism crosses "
                "the link.",
                order=order,
            ),
        )
        batch_is(check, run, GLOBAL_BATCH, DEVICES)
        check.that(
            world.micro_batches == MICRO_BATCHES,
            _(
                "{micro_batches} micro-batches of 2 samples passed the pipeline in every step",
                micro_batches=MICRO_BATCHES,
            ),
            hint=_(
                "The number of micro-batches was {count}. global batch = micro batch × number of "
                "micro-batches × data-parallel size",
                count=world.micro_batches,
            ),
        )


def ex07b_bubble(answer: object, pipeline: Any) -> None:
    """Check how many micro-batches a pipeline needs for a bubble of a tenth of the time."""
    stages = pipeline.stages
    waiting = stages - 1
    least = round(waiting * (1 - MOST_BUBBLE) / MOST_BUBBLE)
    all_stages = _("A stage waits only for the other stages, which takes p - 1 of m + p - 1 units.")
    with Checklist("07b.2") as check:
        given = check.number(answer, "micro_batches_needed", "micro-batches")
        share = 100 * waiting / (given + waiting) if given > 0 else 100
        check.amount(
            given,
            Amount(
                right=least,
                within=(least, least),
                slips=(
                    (
                        round(waiting / MOST_BUBBLE),
                        _(
                            "With your number the idle time is a tenth of the *work*. The exercise "
                            "asks for a tenth of the whole time, including the waiting."
                        ),
                    ),
                    (stages / MOST_BUBBLE, all_stages),
                    (stages * (1 - MOST_BUBBLE) / MOST_BUBBLE, all_stages),
                    (stages, _("As many micro-batches as stages leave a bubble of nearly half.")),
                ),
            ),
            _("with fewer micro-batches, the bubble exceeds 10 %"),
            hint=_(
                "With your number the bubble is {share:.1f} %. Find the smallest whole number with "
                "a bubble of at most 10 %.",
                share=share,
            ),
        )


def ex07b_crossing(answer: object, run: Any) -> None:
    """Check the batch from which gradients cost less to send than activations."""
    with Checklist("07b.3") as check:
        given = check.number(answer, "crossing_batch", "samples")
        check.started(run, "pretrain_gpt.py")
        data = check.left(run, "log").world.data
        check.that(
            data == run.devices > 1,
            _("your run uses data parallelism only"),
            hint=_(
                "{name} has data-parallel size {data} on {devices} devices.",
                name=run.name,
                data=data,
                devices=run.devices,
            ),
        )
        tokens, width = whole_flag(run, "--seq-length", 1), whole_flag(run, "--hidden-size", 1)
        sent = 2 * (data - 1) / data * gradient_bytes(check, run)
        per_sample = 2 * BYTES_PER_NUMBER * tokens * width
        check.amount(
            given,
            _crossing(sent / per_sample, data),
            _("the batch is the first with which data parallelism sends no more than the pipeline"),
            hint=_(
                "With {given:g} samples the pipeline sends {per_sample:.2f} MB, data "
                "parallelism {sent:.2f} MB. {value}",
                given=given,
                per_sample=per_sample * given / 1000000.0,
                sent=sent / 1000000.0,
                value=_(
                    "Look for the first multiple of {data} with which the pipeline sends no less.",
                    data=data,
                ),
            ),
        )


def _crossing(exact: float, data: int) -> Amount:
    """Return the wanted batch, rounded up to a multiple of the number of model copies."""

    def first(batch: float) -> int:
        return data * math.ceil(batch / data)

    right = first(exact)
    return Amount(
        right=right,
        within=(right, right),
        slips=(
            (
                first(exact / (2 * (data - 1) / data)),
                _("In a ring the gradients travel more than once (lesson 03)."),
            ),
            (
                first(exact / data),
                _("That is the batch of one copy of the model. Count the samples of all copies."),
            ),
        ),
    )
