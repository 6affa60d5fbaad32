"""Lesson 09, activation checkpointing."""

from __future__ import annotations

from typing import Any

from course_lib.lab.job.recipes import gpt
from course_lib.plan import Model
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import MIB, memory_of_rank_0, whole_flag
from course_lib.teach.slips import Quantity

FLOAT32_BYTES, WIDTHS_OF_A_LAYER = 4, 16
RANDOM_STATE_BYTES = 5056
"""What torch keeps on a processor beside each input, to repeat its random numbers."""
HOW_TO_RECOMPUTE = (
    "--recompute-granularity",
    "--recompute-method",
    "--recompute-num-layers",
)
# What is written down, and when, or with which numbers it begins, changes no peak.
MAY_DIFFER = (
    *HOW_TO_RECOMPUTE, "--profile", "--use-pytorch-profiler", "--log-interval",
    "--log-memory-interval", "--train-iters", "--save", "--save-interval",
    "--seed", "--lr", "--record-memory-history", "--profile-step-start", "--profile-step-end",
)  # fmt: skip
ASK_FOR_MEMORY = "Give the recipe memory=(6, 7), as `common` does."


def ex09_fits(run: Any, keep: Any, room: object) -> None:
    """As few layers recomputed, one by one, as bring the peak under a limit."""
    with Checklist("09.1") as check:
        room_mib = check.number(room, "room_mib")
        for each, name in ((run, "the run `fits_run`"), (keep, "the run `keep`")):
            check.started(each, "pretrain_gpt.py", name)
        _same_training(check, run, keep)
        recomputed = _by_block(check, run)
        peak_mib, all_mib = (
            memory_of_rank_0(check, each, f"the run `{each.name}`", ASK_FOR_MEMORY).peak_bytes / MIB
            for each in (run, keep)
        )
        each_mib = (all_mib - peak_mib) / recomputed
        check.that(
            peak_mib <= room_mib,
            f"its peak is within {room_mib:.1f} MiB",
            hint=f"It peaks at {peak_mib:.1f} MiB, {peak_mib - room_mib:.1f} MiB too much. Each "
            f"layer that is recomputed gives back about {each_mib:.1f} MiB.",
        )
        check.that(
            peak_mib + each_mib > room_mib,
            "one layer less would not have been enough",
            hint=f"It peaks at {peak_mib:.1f} MiB and leaves {room_mib - peak_mib:.1f} MiB unused, "
            f"more than the {each_mib:.1f} MiB that a layer keeps. You pay for layers that need "
            "not be recomputed.",
        )


def _same_training(check: Checklist, run: Any, keep: Any) -> None:
    """Anything but the way of recomputing would change the peak for another reason."""
    check.unless(
        run.name == keep.name,
        "it is another run than `keep`",
        hint="Both names hold the run that keeps everything. Submit the recipe `fits`.",
    )
    mine, other = run.recipe.flags, keep.recipe.flags
    changed = [
        name
        for name in sorted({*mine, *other})
        if name not in MAY_DIFFER and mine.get(name) != other.get(name)
    ]
    check.that(
        not changed and run.devices == keep.devices,
        "it trains what `keep` trains, on as many devices",
        hint=f"These differ: {', '.join(changed) or 'the devices'}. They change the peak for "
        "another reason, but the task is to recompute. Use **common in the recipe.",
    )


def _by_block(check: Checklist, run: Any) -> int:
    """How many layers the run recomputed, one by one."""
    flags = run.recipe.flags
    granularity = flags.get("--recompute-granularity", "none")
    check.that(
        granularity == "full",
        "it recomputes whole layers",
        hint=f"Its recompute granularity is {granularity!r}. Which one forgets all that a layer "
        "keeps but its input?",
    )
    method, count = flags.get("--recompute-method"), whole_flag(run, "--recompute-num-layers", 1)
    check.that(
        method == "block",
        "it recomputes some of the layers and leaves the others alone",
        hint=f"With the method {method!r} the number {count} is the size of a group, and every "
        "layer is recomputed. The other method counts layers.",
    )
    return count


def ex09_inputs(answer: object, run: Any) -> None:
    """Bytes of the inputs that full recomputation keeps."""
    with Checklist("09.2") as check:
        given = check.number(answer, "kept_mib")
        check.started(run, "pretrain_gpt.py")
        model, layout = gpt.model(run.recipe), gpt.layout(run.recipe)
        check.that(
            run.recipe.flags.get("--recompute-granularity") == "full",
            "the run recomputes whole layers",
            hint=f"This is the run {run.name}, which keeps more than inputs. The question is about "
            "`forget`.",
        )
        inputs = -(-model.layers // layout.recompute_layers)
        check.amount(
            given,
            _weight(inputs, layout.micro_batch, model, run),
            "it is what the inputs weigh",
            hint=f"One input holds {model.hidden} numbers (the hidden size) for every token that "
            "the device has in hand.",
        )


def _weight(inputs: int, micro_batch: int, model: Model, run: Any) -> Quantity:
    tokens, width = model.sequence, model.hidden
    each_bytes = micro_batch * tokens * width * FLOAT32_BYTES
    right = inputs * each_bytes / MIB
    logits = each_bytes / width * model.vocabulary / MIB
    own = [
        (
            WIDTHS_OF_A_LAYER * right,
            "This is what all sixteen widths of each layer weigh: what `keep` keeps.",
        ),
        ((WIDTHS_OF_A_LAYER - 1) * right, "These are the fifteen widths that are computed again."),
        (
            inputs * (each_bytes + RANDOM_STATE_BYTES) / MIB,
            "That is what the traces show, and it counts more than inputs: beside each of them "
            f"{RANDOM_STATE_BYTES:,} bytes are kept, to repeat the random numbers of dropout.",
        ),
    ]
    steps = whole_flag(run, "--train-iters", 1)
    own.append((right * steps, f"That is for all {steps} iterations. Each keeps them anew."))
    own += [
        (right * 4, "Four times the width is the inside of the MLP. The input of a layer is h."),
        (right * 5, "Four times the width is the inside of the MLP. The input of a layer is h."),
        (
            right * 3,
            "Three times the width is q, k and v. The input of a layer is h.",
        ),
        (right * 34 / 4, "34 bytes for each number of a token is what a layer keeps in bf16."),
    ]
    if inputs > 1:
        own.append((right / inputs, f"This is one input. The run keeps {inputs} of them."))
    if micro_batch > 1:
        one_sample = f"You counted the tokens of one sample. The micro batch is {micro_batch}."
        own.append((right / micro_batch, one_sample))
    return Quantity(
        right=right,
        unit="MiB",
        own=tuple(own),
        known={
            "the logits": logits,
            "inputs and logits together": right + logits,
            "all that a layer keeps, and the logits": WIDTHS_OF_A_LAYER * right + logits,
            **_traced(run),
        },
        counts={"inputs": inputs, "samples": micro_batch, "tokens": tokens, "widths": width},
        bytes_each=FLOAT32_BYTES,
    )


def _traced(run: Any) -> dict[str, float]:
    """What a trace shows of rank 0, where there is one."""
    try:
        memory = run.memory[0]
    except (FileNotFoundError, IndexError, KeyError):
        return {}
    kept = memory.peak_composition.get("activations", 0)
    return {
        "the peak of the run": memory.peak_bytes / MIB,
        "the activations at the peak": kept / MIB,
    }
