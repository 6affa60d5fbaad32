"""Lesson 07b, pipelines, and both kinds of parallelism together."""

from __future__ import annotations

import math
from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import global_batch, gradient_bytes, whole_flag
from course_lib.teach.slips import Quantity, Slip

NAME, NODES, DEVICES, MICRO_BATCHES, GLOBAL_BATCH = "hybrid", 2, 4, 4, 8
STAGES, MOST_BUBBLE = 8, 0.1
BYTES_PER_NUMBER = 4
REFUSALS = ("bad_layout", "bad_argument")


def ex07b_hybrid(run: Any) -> None:
    """Tensor 2 × pipeline 2 on both nodes, tensor inside a node, four micro-batches a step."""
    with Checklist("07b.1") as check:
        _not_refused(check, run)
        check.succeeded(run)
        world = check.left(run, "log").world
        check.unless(
            world.world_size is None,
            "it trained a model",
            hint=f"The log of {run.name} has no world line: this run started something else. "
            "Give the check what lab.submit(hybrid) returned.",
        )
        _on_both_nodes(check, run)
        _layout(check, run)
        _inside_a_node(check, run)
        _batch(check, run)
        check.that(
            run.log.last_iteration > 0,
            "it trained",
            hint="Its log has no iteration line. Which flag says how many iterations to run?\n"
            + run.tail(5),
        )


def _not_refused(check: Checklist, run: Any) -> None:
    """A layout that the program itself refused: its own sentence, and where to look."""
    failure = getattr(run, "failure", None) if getattr(run, "ended", False) else None
    if getattr(run, "ok", True) or failure is None or failure.cause not in REFUSALS:
        return
    said = failure.evidence.strip()
    if "global-batch-size" in said:
        look = (
            "A step consists of whole micro-batches, for every copy of the model. How many copies "
            "are there, when tensor 2 × pipeline 2 takes four devices?"
        )
    elif "devices cannot be split" in said:
        look = (
            "So the processes that found each other are not the four that you meant. Look at "
            "nodes, --nnodes and --nproc-per-node, and at the sizes that were asked for."
        )
    else:
        look = "Its sentence names the numbers and some that would work."
    check.refuse("the layout fits the devices and the batch", f"The program said: {said}\n{look}")


def _on_both_nodes(check: Checklist, run: Any) -> None:
    nodes, size = run.recipe.nodes, run.log.world.world_size
    check.that(
        nodes == NODES,
        "it used both nodes",
        hint=f"{_which(run)}It asked for {_count(nodes, 'node')}. Which line of lab.script(hybrid) "
        "says so, and what decides it?",
    )
    check.that(
        size == DEVICES,
        f"{DEVICES} processes formed one world",
        hint=f"{_which(run)}The world line says world size {size}. There is one process per device "
        "slot: how many has each node, and is every launcher told of them?",
    )


def _layout(check: Checklist, run: Any) -> None:
    world = run.log.world
    tensor, pipeline, data = (value or 1 for value in (world.tensor, world.pipeline, world.data))
    found = f"{_which(run)}The world line says tensor {tensor}, pipeline {pipeline}, data {data}. "
    if data > 1:
        look = f"So there are {data} copies of the model. Which flags cut it further?"
    elif tensor == DEVICES:
        look = "All four devices share every matrix, and nothing is left for a second stage."
    elif pipeline == DEVICES:
        look = "Four stages with one device each: nobody shares a matrix. You may have swapped the "
        look += "two kinds: which of them deals out the layers?"
    else:
        look = "Their product is the number of devices."
    check.that(tensor == pipeline == 2, "tensor 2 × pipeline 2", hint=found + look)


def _inside_a_node(check: Checklist, run: Any) -> None:
    """With two devices on a node, tensor is inside exactly if it is the fastest axis that is
    larger than 1; Megatron-LM's own orders all begin with it."""
    order = str(run.log.arguments.get("rank_order", "tp"))
    axes = [axis for axis in order.split("-") if axis in ("tp", "pp")]
    check.unless(
        axes[:1] == ["pp"],
        "ranks that share every matrix sit on the same node",
        hint=f"The order was {order}: tensor and pipeline are swapped. The axis named first varies "
        "fastest, so ranks 0 and 1, neighbours on the first node, are now two stages, and every "
        "all-reduce of tensor parallelism crosses the link.",
    )


def _batch(check: Checklist, run: Any) -> None:
    count, batch = run.log.world.micro_batches, global_batch(run)
    found = f"{_which(run)}The log says: global batch size {batch}, number of micro-batches {count}"
    if batch == GLOBAL_BATCH * DEVICES:
        look = "You counted four devices as four copies of the model. What does the world line say "
        look += "of the data-parallel size?"
    elif batch == MICRO_BATCHES:
        look = "A micro-batch has 2 samples: four of them are more than 4 samples."
    elif count == 1:
        look = "With a single micro-batch nothing fills the pipeline."
    else:
        look = "global batch = micro batch × number of micro-batches × data-parallel size"
    check.that(
        count == MICRO_BATCHES and batch == GLOBAL_BATCH,
        f"{MICRO_BATCHES} micro-batches of 2 samples passed the pipeline in every step",
        hint=f"{found}. {look}",
    )


def _which(run: Any) -> str:
    """Whoever hands in another run than that of the exercise looks for a mistake in vain."""
    if run.name == NAME:
        return ""
    return f"This is the run {run.name!r}; the recipe of the exercise is called {NAME!r}. "


def ex07b_bubble(answer: object) -> None:
    """Micro-batches that a pipeline of eight stages needs for a bubble of a tenth of the time."""
    with Checklist("07b.2") as check:
        given = check.count(answer, "micro_batches_needed", "micro-batches")
        waiting = STAGES - 1
        least = round(waiting * (1 - MOST_BUBBLE) / MOST_BUBBLE)
        check.unless(
            not given.is_integer() or given < 1,
            "it is a number of micro-batches",
            hint=f"{given:g} micro-batches cannot be sent. Round to a whole number, and think of "
            "which way.",
        )
        slips = _bubble_slips(waiting, least)
        check.no_slip(given, slips, "it is a share of the whole time that is spent waiting")
        share = 100 * waiting / (given + waiting)
        check.that(
            given >= least,
            "the bubble is at most 10 % of the time",
            hint=f"With {given:g} micro-batches it is {share:.1f} %.",
        )
        check.that(
            given == least,
            "no smaller number is enough",
            hint=f"With {given:g} micro-batches the bubble is {share:.1f} %. It may be larger.",
        )


def _bubble_slips(waiting: int, least: int) -> Quantity:
    of_the_work = round(waiting / MOST_BUBBLE)
    all_stages = (
        "You seem to have put all stages into the numerator. A step lasts m + p - 1 units: how many"
        " of them does one stage wait?"
    )
    own = (
        (
            of_the_work,
            f"With {of_the_work} the idle time is a tenth of the *work*. The question asks for a "
            "tenth of the whole time, waiting included: fewer are enough.",
        ),
        (STAGES / MOST_BUBBLE, all_stages),
        (STAGES * (1 - MOST_BUBBLE) / MOST_BUBBLE, all_stages),
        (math.ceil(least / 2), "That is for two chunks on each stage. This pipeline has one."),
        (least / 2, "That is for two chunks on each stage. This pipeline has one."),
        (least + 1, "You are off by one, or took p for p − 1. Fewer are enough."),
        (least - 1, "You are off by one: that is just too much waiting. Round up."),
        (
            round(waiting * (1 - 0.05) / 0.05),
            "That is for 5 %. The bubble may be a tenth of the time.",
        ),
        (2 * least, "That is twice as many: backward fills the same gaps as forward."),
        (STAGES, "As many micro-batches as stages leave nearly half of the time as bubble."),
        (2 * STAGES, "Twice the stages is far from enough for a tenth."),
        (waiting, "That is how many units a stage waits. What share of the whole is that?"),
        (STAGES * waiting, "That is how long all stages wait together. One stage waits 7 units."),
        (of_the_work + waiting, "That is the length of a step with 70 micro-batches, not fewer."),
    )
    return Quantity(right=least, own=own)


def ex07b_crossing(answer: object, run: Any) -> None:
    """The batch from which on sending gradients is cheaper than sending activations."""
    with Checklist("07b.3") as check:
        given = check.count(answer, "crossing_batch", "samples")
        check.started(run, "pretrain_gpt.py")
        data = check.left(run, "log").world.data
        check.that(
            data == run.devices > 1,
            "the run handed in is the one with data parallelism only",
            hint=f"{run.name} has data-parallel size {data} on {run.devices} devices.",
        )
        gradients = gradient_bytes(check, run)
        tokens, width = whole_flag(run, "--seq-length", 1), whole_flag(run, "--hidden-size", 1)
        sent, per_sample = 2 * (data - 1) / data * gradients, 2 * BYTES_PER_NUMBER * tokens * width
        first = data * math.ceil(sent / per_sample / data)
        slips = _crossing_slips(sent / per_sample, first, data, global_batch(run))
        check.no_slip(given, slips, "it counts what each sends")
        check.that(
            given > 0 and given % data == 0,
            f"{data} copies can share it evenly",
            hint=f"{given:g} samples cannot be shared so. Which multiple of {data} comes next?",
        )
        check.that(
            given == first,
            "it is the first batch with which data parallelism sends no more",
            hint=f"With {given:g} samples the pipeline sends {per_sample * given / 1e6:.2f} MB, "
            f"data parallelism {sent / 1e6:.2f} MB. "
            + ("There is a smaller one." if given > first else "The pipeline still sends less."),
        )


def _crossing_slips(exact: float, first: int, data: int, batch: int | None) -> Quantity:
    """The batch may have been rounded already, either way."""
    ring = 2 * (data - 1) / data
    slips = (
        (
            2 * exact,
            "You let the pipeline send R once per sample. How many ranks of stage 0 send it?",
        ),
        (
            exact / 2,
            "You let the pipeline send R four times per sample. What comes back in the backward "
            "pass is sent by the other stage, at the same time.",
        ),
        (
            exact / ring,
            "You let every device send its gradients once. In the ring they travel further "
            "(lesson 03).",
        ),
        (2 * exact / ring, f"The factor of a ring of {data} is 2 ({data} − 1) / {data}, not 2."),
        (exact / BYTES_PER_NUMBER, "Gradients have 4 bytes each, and so have activations."),
        (exact * BYTES_PER_NUMBER, "Gradients have 4 bytes each, and so have activations."),
        (exact / data, "That is what one of the copies takes. The batch counts over all of them."),
        (exact * data, "The batch counts over all copies already: do not multiply by them."),
    )
    own: list[Slip] = []
    for value, said in slips:
        down = data * math.floor(value / data)
        rounded = (value, math.floor(value), math.ceil(value), down, down + data)
        own += [(each, said) for each in rounded]
    known = {} if batch in (None, first) else {"the batch of this run": float(batch or 0)}
    return Quantity(right=first, own=tuple(own), known=known)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
