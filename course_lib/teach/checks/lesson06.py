"""Lesson 06, the memory wall."""

from __future__ import annotations

from typing import Any

from course_lib.lab.job.recipe import DEVICE_MEMORY
from course_lib.lab.job.recipes import gpt
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import MIB, ran_out, whole_flag
from course_lib.teach.slips import EXACT, Quantity

TOKENS, DEVICES, MEMORY_MIB, APART = 256, 2, 160, 2
ENOUGH = 2
"""Iterations after which memory is as full as it gets."""
BEYOND = 1.25
"""What is reserved is counted differently from what is limited, but not by that much."""
LIGHTER = (
    "--bf16", "--fp16", "--recompute-granularity", "--use-distributed-optimizer",
    "--use-torch-fsdp2", "--vocab-size",
)  # fmt: skip
"""Ways to need less memory that are the subjects of other lessons."""
SPLIT = ("--tensor-model-parallel-size", "--pipeline-model-parallel-size")


def ex06_longer(fits: Any, breaks: Any) -> None:
    """The largest micro-batch of sequences of 256 tokens: one run below the wall, one behind."""
    with Checklist("06.1") as check:
        for run, name in ((fits, "`fits`"), (breaks, "`breaks`")):
            check.ended(run, name)
        _same_question(check, fits, "fits")
        _same_question(check, breaks, "breaks")
        low, high = _micro_batch(fits), _micro_batch(breaks)
        check.unless(
            breaks.ok and ran_out(fits),
            "the two runs have each its own place",
            hint=f"`fits` ran out of memory and `breaks` completed: swap {low} and {high}.",
        )
        _one_fits(check, fits, low)
        _one_breaks(check, breaks, high)
        check.unless(
            high <= low,
            f"their micro-batches differ by at most {APART}",
            hint=f"{low} fits and {high} does not, although it is not larger. On this machine "
            "memory varies from run to run: submit one of them again under another name.",
        )
        check.that(
            high - low <= APART,
            f"their micro-batches differ by at most {APART}",
            hint=f"They are {low} and {high}, so the wall is somewhere between. Try a number in "
            "the middle: each try halves what is left.",
        )


def _same_question(check: Checklist, run: Any, name: str) -> None:
    asked = run.recipe.environment.get(DEVICE_MEMORY)
    tokens = run.recipe.flags.get("--seq-length", "none")
    check.that(
        tokens == str(TOKENS),
        f"`{name}` had sequences of {TOKENS} tokens",
        hint=f"It had {tokens}. Take tried(…), which asks for {TOKENS}.",
    )
    _same_model(check, run, name)
    check.unless(
        whole_flag(run, "--train-iters", ENOUGH) < ENOUGH,
        f"`{name}` made more than one iteration",
        hint="It made one, and memory is fuller in the second: the optimizer keeps its state from "
        "the first step on. Take tried(…) with a micro-batch and nothing else.",
    )
    check.that(
        run.recipe.devices == DEVICES,
        f"`{name}` ran on {DEVICES} devices",
        hint=f"It had {run.recipe.devices}. Take wall(…), which asks for 2 nodes with one each.",
    )
    limit = f"{int(asked) / MIB:g} MiB" if asked and asked.isdecimal() else "no limit"
    check.that(
        asked == str(MEMORY_MIB * MIB),
        f"`{name}` had devices of {MEMORY_MIB} MiB",
        hint=f"It had {limit}. A larger device is not forbidden in life, but it is another "
        "question. Take wall(…) with MEMORY_MIB as it was.",
    )
    micro, batch = _micro_batch(run), whole_flag(run, "--global-batch-size")
    check.that(
        batch in (0, micro * DEVICES),
        f"`{name}` took its whole batch at once",
        hint=f"Global batch {batch} on {DEVICES} devices with micro-batch {micro} means several "
        "micro-batches one after the other. Only one of them is in memory at a time, so memory "
        "did not grow. Leave the global batch to follow from the micro-batch.",
    )


def _same_model(check: Checklist, run: Any, name: str) -> None:
    """Whatever else would save memory makes another wall."""
    flags, plain = run.recipe.flags, gpt.model("tiny")
    shape = {"--num-layers": plain.layers, "--hidden-size": plain.hidden}
    changed = [flag for flag, size in shape.items() if whole_flag(run, flag) != size]
    changed += [flag for flag in LIGHTER if flag in flags]
    changed += [flag for flag in SPLIT if whole_flag(run, flag, 1) != 1]
    check.unless(
        bool(changed),
        f"`{name}` trained the model of the lesson, in its way",
        hint=f"These differ: {', '.join(changed)}. They change what is in memory, and move the wall"
        " that is asked for. Take tried(…) with a micro-batch and nothing else.",
    )


def _one_fits(check: Checklist, fits: Any, low: int) -> None:
    check.unless(
        ran_out(fits),
        "`fits` stayed within the memory",
        hint=f"Micro-batch {low} ran out of memory. The line of this lesson was drawn for samples "
        "of 128 tokens. What does a sample of 256 tokens leave behind, compared with those?",
    )
    check.that(fits.ok, "`fits` ended well", hint=fits.error)


def _one_breaks(check: Checklist, breaks: Any, high: int) -> None:
    most_mib = 0.0
    if breaks.ok:
        most_mib = float(check.left(breaks, "log", "`breaks`").memory["max_reserved_mib"].max())
    check.unless(
        most_mib > BEYOND * MEMORY_MIB,
        "the limit was kept",
        hint=f"Micro-batch {high} completed with {most_mib:.0f} MiB reserved, far more than the "
        f"{MEMORY_MIB} MiB that it was given. This machine cannot hold a process to a limit (macOS "
        "cannot), so the exercise has no answer here; on Linux or on a GPU it has.",
    )
    check.unless(
        breaks.ok,
        "`breaks` did not complete",
        hint=f"Micro-batch {high} fits too, so the wall stands further out. Its log says how much "
        "was reserved: breaks.log.memory['max_reserved_mib'].",
    )
    failure = breaks.failure
    check.unless(
        failure is not None and failure.cause == "host_oom_kill",
        "`breaks` failed because its memory was full",
        hint="The system ended it before it came to its limit: the memory of the machine was full, "
        f"not the {MEMORY_MIB} MiB of a device. Leave it more memory, and submit it once more.\n"
        f"{breaks.error}",
    )
    check.that(
        ran_out(breaks),
        "`breaks` failed because its memory was full",
        hint=f"It failed for another reason.\n{breaks.error}",
    )


def ex06_published(answer: object) -> None:
    """Which micro-batch asked for 512 MiB at once."""
    weights_mib = 32 * 1024 * 1024 * 4 / MIB  # of one sample: heads × tokens × tokens × bytes
    right = 512 / weights_mib
    own = (
        (
            32,
            "With 32 samples the attention weights of one layer would be "
            f"{32 * weights_mib / 1024:g} GiB in one tensor. How many samples make 512 MiB?",
        ),
        (
            right * 4,
            "That is what all four devices take together, or what would fit with one byte for each "
            "number. A device allocates for its own, and this lab ran in float32.",
        ),
        (right * 2, "With 2 bytes for each number it would be so. This lab ran in float32."),
        *(
            (number, "512 MiB are 512 × 2²⁰ bytes; you took 512 × 10⁶.")
            for number in (512e6 / MIB / weights_mib, 512e6 // (MIB * weights_mib))
        ),
        (1, f"One sample's attention weights are {weights_mib:g} MiB in each layer."),
        (right * 32, "You left out the 32 heads: each has its own weights."),
        (weights_mib, "That is how many MiB one sample takes. How many samples make 512?"),
        (1024, "That is the number of tokens of a sample, or how many KiB a MiB has."),
        (512, "That is the size in MiB. How many samples make it?"),
        (weights_mib * MIB, "That is how many bytes one sample takes. How many make 512 MiB?"),
        (512 * MIB / (32 * 1024 * 4), "You counted the tokens once: weights are tokens × tokens."),
        (
            512 * MIB / (1024 * 50257 * 4),
            "No whole number of samples has logits of 512 MiB. Which other tensor is as large?",
        ),
        (
            512 * MIB / (1024 * 768 * 4),
            "No whole number of samples has inputs of 512 MiB. Which other tensor is as large?",
        ),
        (15.78 * 1024 / weights_mib, "That would fill the whole device. One tensor was refused."),
        (
            512 * MIB // (1024 * 50257 * 4),
            "The logits of so many samples fit into 512 MiB, and do not fill them. Which other "
            "tensor does?",
        ),
        (right / 2, "With 8 bytes for each number it would be so. This lab ran in float32."),
        *(
            (number, "The tensor is that of one layer: do not divide by the layers.")
            for number in (512 // 12, right / 12)
        ),
        (weights_mib / 1024, "That is how many GiB one sample takes. How many samples make 512?"),
    )
    with Checklist("06.2") as check:
        given = check.number(answer, "published_micro_batch")
        check.amount(
            given,
            Quantity(right=right, share=EXACT, own=own, known={"the number of layers": 12}),
            "that many samples ask for 512 MiB",
            hint="How many numbers are heads × tokens × tokens, and how many bytes is that for one "
            "sample? The refused tensor is a whole multiple of it.",
        )


def _micro_batch(run: Any) -> int:
    return whole_flag(run, "--micro-batch-size")
