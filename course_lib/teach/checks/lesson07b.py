"""Lesson 07b, pipelines, and both kinds of parallelism together."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import another_run, global_batch
from course_lib.teach.checks.lesson07b_numbers import ex07b_bubble, ex07b_crossing

__all__ = ["ex07b_bubble", "ex07b_crossing", "ex07b_hybrid"]

NAME, NODES, DEVICES, MICRO_BATCHES, GLOBAL_BATCH = "hybrid", 2, 4, 4, 8
REFUSALS = ("bad_layout", "bad_argument")


def ex07b_hybrid(run: Any) -> None:
    """Tensor 2 × pipeline 2 on both nodes, tensor inside a node, four micro-batches a step."""
    with Checklist("07b.1") as check:
        _not_refused(check, run)
        check.succeeded(run)
        _own_script(check, run)
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


def _own_script(check: Checklist, run: Any) -> None:
    """A run of the lesson has the layout too, but no gap was filled for it."""
    check.unless(
        bool(run.recipe.program) and run.name != NAME,
        "its script is that of the exercise",
        hint=f"{_which(run)}The library wrote its flags. Fill the gaps of the commands, and "
        "give the check what lab.submit(hybrid) returned.",
    )


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
    return another_run(run, NAME)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
