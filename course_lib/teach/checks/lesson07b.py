"""Checks of lesson 07b, pipelines and their combination with tensor parallelism."""

from __future__ import annotations

import math
from typing import Any

from course_lib.teach.answers import EXACT, Amount
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import (
    BYTES_PER_GRADIENT,
    batch_is,
    has_devices,
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
        check.equal(run.name, NAME, _("name of the run"))
        check.trained(run)
        has_devices(check, run, NODES, DEVICES // NODES)
        world = run.log.world
        slots = _("Does every launcher start a process for each device slot of its node?")
        check.equal(world.world_size, DEVICES, _("processes in one world"), hint=slots)
        check.that(
            (world.tensor, world.pipeline) == (2, 2),
            "tensor 2 × pipeline 2",
            hint=_(
                "The world line says tensor {world.tensor}, pipeline {world.pipeline}, data "
                "{world.data}. Their product is the number of devices. Tensor ranks share every "
                "matrix, pipeline ranks the layers, and data ranks have a copy of the model each.",
                world=world,
            ),
        )
        # Tensor groups lie inside nodes of two devices if tensor is the fastest axis larger than 1.
        # All orders of Megatron-LM begin with it.
        order = str(run.log.arguments.get("rank_order", "tp"))
        axes = [axis for axis in order.split("-") if axis in ("tp", "pp")]
        check.that(
            axes[:1] != ["pp"],
            _("ranks that share every matrix are on the same node"),
            hint=_(
                "The order was {order}. The axis named first varies fastest, so ranks 0 and 1, "
                "neighbours on the first node, are two stages, and every all-reduce of tensor "
                "parallelism crosses the link.",
                order=order,
            ),
        )
        batch_is(check, run, GLOBAL_BATCH)
        passes = _("global batch = micro batch × number of micro-batches × data-parallel size")
        count = _("micro-batches in a step")
        check.equal(world.micro_batches, MICRO_BATCHES, count, hint=passes)


def ex07b_bubble(answer: object, pipeline: Any) -> None:
    """Check how many micro-batches a pipeline needs for a bubble of a tenth of the time."""
    stages = pipeline.stages
    waiting = stages - 1
    least = round(waiting * (1 - MOST_BUBBLE) / MOST_BUBBLE)
    of_work = _(
        "With your number the idle time is a tenth of the *work*. The exercise asks for a tenth of "
        "the whole time, including the waiting."
    )
    all_stages = _("A stage waits only for the other stages, which takes p - 1 of m + p - 1 units.")
    slips = (
        (round(waiting / MOST_BUBBLE), of_work),
        (stages / MOST_BUBBLE, all_stages),
        (stages * (1 - MOST_BUBBLE) / MOST_BUBBLE, all_stages),
    )
    with Checklist("07b.2") as check:
        given = check.number(answer, "micro_batches_needed")
        share = 100 * waiting / (given + waiting) if given > 0 else 100
        check.amount(
            given,
            Amount(right=least, share=EXACT, slips=slips),
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
        given = check.number(answer, "crossing_batch")
        check.started(run, "pretrain_gpt.py")
        data = check.left(run, "log").world.data
        check.equal(data, run.devices, _("copies of the model, one on each device"))
        tokens, width = whole_flag(run, "--seq-length", 1), whole_flag(run, "--hidden-size", 1)
        in_ring = 2 * (data - 1) / data
        sent = in_ring * BYTES_PER_GRADIENT * run.log.parameter_count
        per_sample = 2 * BYTES_PER_NUMBER * tokens * width

        def first(batch: float) -> int:
            return int(data * math.ceil(batch / data))

        exact = sent / per_sample
        twice = _("In a ring the gradients travel more than once (lesson 03).")
        one_copy = _("That is the batch of one copy of the model. Count the samples of all copies.")
        slips = ((first(exact / in_ring), twice), (first(exact / data), one_copy))
        check.amount(
            given,
            Amount(right=first(exact), share=EXACT, slips=slips),
            _("the batch is the first with which data parallelism sends no more than the pipeline"),
            hint=_(
                "With {given:g} samples the pipeline sends {per_sample:.2f} MB, data "
                "parallelism {sent:.2f} MB. Look for the first multiple of {data} with which the "
                "pipeline sends no less.",
                given=given,
                per_sample=per_sample * given / 1e6,
                sent=sent / 1e6,
                data=data,
            ),
        )
