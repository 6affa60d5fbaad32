"""Checks of lesson 06, the memory wall."""

from __future__ import annotations

from typing import Any

from course_lib.lab.job.recipe import DEVICE_MEMORY
from course_lib.lab.job.recipes import gpt
from course_lib.teach.answers import EXACT, Amount
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import MIB, same_training, whole_flag
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
        runs = {"fits": fits, "breaks": breaks}
        for name, run in runs.items():
            check.ended(run, f"`{name}`")
        for name, run in runs.items():
            _same_question(check, run, name)
        low, high = (whole_flag(run, MICRO_BATCH) for run in (fits, breaks))
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


def _same_question(check: Checklist, run: Any, name: str) -> None:
    """Check that the run uses no other way to save memory."""
    wanted: Any = gpt.recipe(
        "plain", nodes=DEVICES, gpus_per_node=1, micro_batch=1, seq_length=TOKENS,
        max_position_embeddings=TOKENS, device_memory_gib=MEMORY_MIB / 1024,
    )  # fmt: skip
    same_training(check, run.recipe, wanted, "`tried(…)`", but=(MICRO_BATCH, GLOBAL_BATCH))
    asked, limit = run.recipe.environment.get(DEVICE_MEMORY), MEMORY_MIB * MIB
    original = _(
        "The exercise keeps the original device. Use wall(…) with the original MEMORY_MIB."
    )
    check.equal(asked, limit, _("bytes of a device of `{name}`", name=name), hint=original)
    check.that(
        whole_flag(run, GLOBAL_BATCH) in (0, whole_flag(run, MICRO_BATCH) * DEVICES)
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


def _one_breaks(check: Checklist, breaks: Any, high: int) -> None:
    if breaks.ok:
        most_mib = float(check.left(breaks, "log", "`breaks`").memory["max_reserved_mib"].max())
        # macOS cannot hold a process to a limit.
        check.unless(
            most_mib > BEYOND * MEMORY_MIB,
            _("the limit was enforced"),
            hint=_(
                "Micro-batch {high} completed with {most_mib:.0f} MiB reserved, far more than its "
                "limit. This machine enforces no limit, so the exercise needs Linux or a GPU.",
                high=high,
                most_mib=most_mib,
            ),
        )
        check.refuse(
            _("`breaks` did not complete"),
            _(
                "Micro-batch {high} fits too, so the limit is higher. Its log says how much was "
                "reserved: breaks.log.memory['max_reserved_mib'].",
                high=high,
            ),
        )
    check.that(
        breaks.ran_out and breaks.failure.cause != "host_oom_kill",
        _("`breaks` failed because the memory of its device was full"),
        hint=_(
            "It failed for another reason. If the memory of the whole machine was full, free some "
            "and submit the run once more.\n{error}",
            error=breaks.error,
        ),
    )


def ex06_published(answer: object) -> None:
    """Check which micro-batch asked for 512 MiB at once."""
    heads, tokens, refused_mib = 32, 1024, 512
    weights_mib = heads * tokens * tokens * 4 / MIB  # of one sample
    right = refused_mib / weights_mib
    slips = (
        (32, _("With 32 samples this tensor would need 4 GiB.")),
        (right * 1e6 / MIB, _("512 MiB is 512 × 2²⁰ bytes, and you took 512 × 10⁶ bytes.")),
        (weights_mib, _("That is how many MiB one sample takes.")),
    )
    with Checklist("06.2") as check:
        check.amount(
            check.number(answer, "published_micro_batch"),
            Amount(right=right, share=EXACT, slips=slips),
            _("the number of samples that ask for 512 MiB is right"),
            hint=_(
                "How many bytes do heads × tokens × tokens numbers take for one sample? The "
                "refused tensor is a whole multiple of this size."
            ),
        )
