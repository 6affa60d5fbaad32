"""Checks of lesson 06, the memory wall."""

from __future__ import annotations

from typing import Any

from course_lib.lab.job.recipe import DEVICE_MEMORY
from course_lib.lab.job.recipes import gpt
from course_lib.teach.answers import EXACT, Amount
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import MIB, trains_as, whole_flag
from course_lib.words import _

TOKENS, DEVICES, MEMORY_MIB, APART = 256, 2, 160, 2
# Iterations after which memory use has reached its maximum.
ENOUGH = 2
# Reserved memory is counted differently from the limit, but by at most this factor.
BEYOND = 1.25
MICRO_BATCH, GLOBAL_BATCH = "--micro-batch-size", "--global-batch-size"


def ex06_longer(fits: Any, breaks: Any) -> None:
    """Check the largest micro-batch for sequences of 256 tokens: one run fits, the next fails."""
    with Checklist("06.1") as check:
        for run, name in ((fits, "`fits`"), (breaks, "`breaks`")):
            check.ended(run, name)
        low, high = _same_question(check, fits, "fits"), _same_question(check, breaks, "breaks")
        check.unless(
            breaks.ok and fits.ran_out,
            _("the two runs have separate folders"),
            hint=_(
                "`fits` ran out of memory and `breaks` completed: swap {low} and {high}.",
                low=low,
                high=high,
            ),
        )
        check.unless(
            fits.ran_out,
            _("`fits` stayed within the memory"),
            hint=_(
                "Micro-batch {low} ran out of memory. The line of this lesson was drawn for "
                "samples of 128 tokens. By what factor does a sample of 256 tokens need more "
                "memory?",
                low=low,
            ),
        )
        check.that(fits.ok, _("`fits` ended well"), hint=fits.error)
        _one_breaks(check, breaks, high)
        check.that(
            high - low <= APART,
            _("their micro-batches differ by at most {apart}", apart=APART),
            hint=_(
                "They are {low} and {high}, so the limit lies between them. Try a number in the "
                "middle: each try halves the range.",
                low=low,
                high=high,
            ),
        )


def _same_question(check: Checklist, run: Any, name: str) -> int:
    """Check that the run uses no other way to save memory. Return its micro-batch."""
    micro = whole_flag(run, MICRO_BATCH)
    wanted: Any = gpt.recipe(
        "plain", nodes=DEVICES, gpus_per_node=1, micro_batch=1, seq_length=TOKENS,
        max_position_embeddings=TOKENS, device_memory_gib=MEMORY_MIB / 1024,
    )  # fmt: skip
    trains_as(check, run.recipe, wanted, "`tried(…)`", but=(MICRO_BATCH, GLOBAL_BATCH))
    asked = run.recipe.environment.get(DEVICE_MEMORY)
    check.that(
        asked == str(MEMORY_MIB * MIB),
        _("`{name}` had devices of {memory_mib} MiB", name=name, memory_mib=MEMORY_MIB),
        hint=_(
            "The device had {bytes} bytes. The exercise keeps the original device. Use wall(…) "
            "with the original MEMORY_MIB.",
            bytes=asked,
        ),
    )
    check.that(
        whole_flag(run, GLOBAL_BATCH) in (0, micro * DEVICES)
        and whole_flag(run, "--train-iters", ENOUGH) >= ENOUGH,
        _(
            "`{name}` took its whole batch at once, and the batch had more than one sample",
            name=name,
        ),
        hint=_(
            "Only one of several micro-batches is in memory at a time, and memory use is higher "
            "in the second iteration, because the optimizer keeps its state from the first step "
            "on. Call tried(…) with a micro-batch and nothing else."
        ),
    )
    return micro


def _one_breaks(check: Checklist, breaks: Any, high: int) -> None:
    most_mib = 0.0
    if breaks.ok:
        most_mib = float(check.left(breaks, "log", "`breaks`").memory["max_reserved_mib"].max())
    check.unless(
        most_mib > BEYOND * MEMORY_MIB,
        _("the limit was enforced"),
        hint=_(
            "Micro-batch {high} completed with {most_mib:.0f} MiB reserved, far more than the "
            "{memory_mib} MiB that it was given. This machine cannot hold a process to a limit "
            "(macOS cannot), so the exercise has no answer here; on Linux or on a GPU it has.",
            high=high,
            most_mib=most_mib,
            memory_mib=MEMORY_MIB,
        ),
    )
    check.unless(
        breaks.ok,
        _("`breaks` did not complete"),
        hint=_(
            "Micro-batch {high} fits too, so the limit is higher. Its log says how much was "
            "reserved: breaks.log.memory['max_reserved_mib'].",
            high=high,
        ),
    )
    failure = breaks.failure
    check.unless(
        failure is not None and failure.cause == "host_oom_kill",
        _("`breaks` failed because its memory was full"),
        hint=_(
            "The system ended the run before it reached its limit: the memory of the machine was "
            "full, not the {memory_mib} MiB of a device. Free some memory, and submit the run "
            "once more.\n{error}",
            memory_mib=MEMORY_MIB,
            error=breaks.error,
        ),
    )
    check.that(
        breaks.ran_out,
        _("`breaks` failed because its memory was full"),
        hint=_("It failed for another reason.\n{error}", error=breaks.error),
    )


def ex06_published(answer: object) -> None:
    """Check which micro-batch asked for 512 MiB at once."""
    heads, tokens, refused_mib = 32, 1024, 512
    weights_mib = heads * tokens * tokens * 4 / MIB  # of one sample
    right = refused_mib / weights_mib
    with Checklist("06.2") as check:
        check.amount(
            check.number(answer, "published_micro_batch"),
            Amount(
                right=right,
                share=EXACT,
                slips=(
                    (
                        32,
                        _(
                            "With 32 samples the attention weights of one layer would need "
                            "{value:g} GiB.",
                            value=32 * weights_mib / 1024,
                        ),
                    ),
                    (
                        refused_mib * 1e6 / MIB / weights_mib,
                        _("512 MiB is 512 × 2²⁰ bytes, and you took 512 × 10⁶ bytes."),
                    ),
                    (weights_mib, _("That is how many MiB one sample takes.")),
                ),
            ),
            _("the number of samples that ask for 512 MiB is right"),
            hint=_(
                "How many bytes do heads × tokens × tokens numbers take for one sample? The "
                "refused tensor is a whole multiple of this size."
            ),
        )
