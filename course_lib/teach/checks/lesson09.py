"""Lesson 09, activation checkpointing."""

from __future__ import annotations

from functools import partial
from typing import Any

from course_lib.lab.job.recipes import gpt
from course_lib.teach.checklist import Checklist, close

FLOAT32_BYTES = 4
CLOSE_ENOUGH = 0.02
"""Share by which a number worked out by hand may be off."""
_close = partial(close, share=CLOSE_ENOUGH)
HOW_TO_RECOMPUTE = (
    "--recompute-granularity",
    "--recompute-method",
    "--recompute-num-layers",
)
# What is written down, and where, does not change what is trained.
MAY_DIFFER = (*HOW_TO_RECOMPUTE, "--profile", "--use-pytorch-profiler", "--log-interval")


def ex09_fits(run: Any, keep: Any, room_mib: float) -> None:
    """As few layers recomputed, one by one, as bring the peak under a limit."""
    with Checklist("09.1") as check:
        check.succeeded(run, "the run `fits_run`")
        check.succeeded(keep, "the run `keep`")
        _same_training(check, run, keep)
        check.that(
            _recorded(run) and _recorded(keep),
            "it recorded its memory",
            hint=f"There is no memory trace in {run.folder}. Give the recipe memory=(6, 7), as "
            "`common` does.",
        )
        recomputed = _by_block(check, run)
        peak_mib, all_mib = run.memory[0].peak_bytes / 2**20, keep.memory[0].peak_bytes / 2**20
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
    check.that(
        run.name != keep.name,
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
        hint=f"These differ: {', '.join(changed) or 'the devices'}. A smaller batch or model has "
        "smaller activations too, but the task is to recompute. Use **common in the recipe.",
    )


def _recorded(run: Any) -> bool:
    return (run.folder / "memory").is_dir() and len(run.memory) > 0


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
    method, count = flags.get("--recompute-method"), flags.get("--recompute-num-layers")
    check.that(
        method == "block",
        "it recomputes some of the layers and leaves the others alone",
        hint=f"With the method {method!r} the number {count} is the size of a group, and every "
        "layer is recomputed. The other method counts layers.",
    )
    return int(count)


def ex09_inputs(answer: object, run: Any) -> None:
    """Bytes of the inputs that full recomputation keeps."""
    with Checklist("09.2") as check:
        given = check.number(answer, "kept_mib")
        check.succeeded(run)
        flags = run.recipe.flags
        model, layout = gpt.model(run.recipe), gpt.layout(run.recipe)
        check.that(
            flags.get("--recompute-granularity") == "full",
            "the run recomputes whole layers",
            hint=f"This is the run {run.name}, which keeps more than inputs. The question is about "
            "`forget`.",
        )
        tokens = layout.micro_batch * model.sequence
        inputs = -(-model.layers // layout.recompute_layers)
        right = inputs * tokens * model.hidden * FLOAT32_BYTES / 2**20
        for wrong, requirement, hint in _mistakes(right, inputs, layout.micro_batch):
            check.that(not _close(given, wrong), requirement, hint=hint)
        check.that(
            _close(given, right),
            "it is what the inputs weigh",
            hint=f"You answered {given:g} MiB. One input holds {model.hidden} numbers (the hidden "
            "size) for every token that the device has in hand.",
        )


def _mistakes(right: float, inputs: int, micro_batch: int) -> list[tuple[float, str, str]]:
    """Answers that show what was forgotten: (answer, what was asked, hint)."""
    found = [
        (
            right * 2**20 / 1e6,
            "it is in MiB",
            "You divided by 10⁶: these are MB. One MiB is 2²⁰ = 1 048 576 bytes.",
        ),
        (
            right / FLOAT32_BYTES,
            "it counts bytes, not numbers",
            "You counted numbers. Each is a float32; how many bytes is that?",
        ),
        (
            16 * right,
            "it counts the inputs only",
            "This is what all sixteen widths of each layer weigh: what `keep` keeps.",
        ),
    ]
    if inputs > 1:
        hint = f"This is one input. The run keeps {inputs} of them."
        found.append((right / inputs, "it counts all layers", hint))
    if micro_batch > 1:
        hint = f"You counted the tokens of one sample. The micro batch is {micro_batch}."
        found.append((right / micro_batch, "it counts the whole micro batch", hint))
    return found
