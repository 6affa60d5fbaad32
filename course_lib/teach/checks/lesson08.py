"""Lesson 08, mixed precision."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.slips import EXACT, Quantity

LEAST_SCALE, ITERATIONS = 2.0**8, 5
"""The exercise states the scale."""
LEAST_EXPONENT, LARGEST_EXPONENT = 8, 32
PRINTED_SCALE, SKIPPED = 2**23, 10


def ex08_settled(run: Any) -> None:
    """An fp16 run whose loss scale moves by itself and never had to throw a step away."""
    with Checklist("08.1") as check:
        check.trained(run)
        flags, log = run.recipe.flags, run.log
        check.that(
            "--fp16" in flags and log.world.precision == "float16",
            "it computed in float16",
            hint=f"Its log says {log.world.precision or 'nothing of it'}. bfloat16 needs no scale, "
            "which is true and no answer: some devices have only float16.",
        )
        started = _moves_by_itself(check, flags)
        check.that(
            log.last_iteration >= ITERATIONS,
            f"it made at least {ITERATIONS} iterations",
            hint=f"It made {log.last_iteration}. Few steps prove little: take small(…) as it is.",
        )
        check.that(
            log.skipped == 0,
            "no iteration was skipped",
            hint=f"Skipped: {log.skipped}. The scale began at {started:,.0f}. Where did that of "
            "`half` come to rest? Begin below.",
        )
        scale = float([0.0, *log.iterations["loss_scale"].dropna()][-1])
        check.that(
            scale >= LEAST_SCALE,
            f"its scale of at least {LEAST_SCALE:g} saves small gradients",
            hint=f"{scale:g} looks like a power of two's exponent: write 2**{scale:g}."
            if LEAST_EXPONENT <= scale <= LARGEST_EXPONENT
            else f"With a scale of {scale:g} nearly all that vanishes without scaling vanishes "
            "still. Look at the moving picture again: how far to the right may the bars go?",
        )


def _moves_by_itself(check: Checklist, flags: dict[str, Any]) -> float:
    """Where the search for the scale begins."""
    check.unless(
        "--loss-scale" in flags,
        "its loss scale can move by itself",
        hint="--loss-scale sets a fixed one, which nobody raises or lowers when the gradients "
        "change. Choose where the search begins instead: initial_loss_scale.",
    )
    started = float(flags.get("--initial-loss-scale", 2**32))
    floor = float(flags.get("--min-loss-scale", 0))
    check.that(
        floor < started,
        "its loss scale can move by itself",
        hint=f"It begins with {started:,.0f} and may not fall below {floor:,.0f}, so the first "
        "overflow would find it unable to move. Leave --min-loss-scale out.",
    )
    return started


def ex08_started_at(answer: object) -> None:
    """Where the search began, if ten skipped steps had led to 2²³."""
    with Checklist("08.2") as check:
        given = check.count(answer, "started_at", "")
        check.unless(
            given in (23, 32, SKIPPED - 1, SKIPPED),
            "it is the scale itself",
            hint="The scale, not its power of two or a number of steps.",
        )
        check.unless(
            given in (2 ** (SKIPPED - 1), 2**SKIPPED),
            "it is the scale itself",
            hint="That is how many times smaller the scale became. How large was it before?",
        )
        check.unless(
            given < PRINTED_SCALE,
            "it is larger than what was printed",
            hint="Overflows make the scale smaller as time goes on. So at the beginning it was…",
        )
        check.amount(
            given,
            _scale_at_the_start(),
            "the scale at the start explains the line",
            hint=f"Go backwards from {PRINTED_SCALE:,}: each halving undone doubles it. How many "
            "halvings do ten overflows with a patience of 2 make?",
        )


def _scale_at_the_start() -> Quantity:
    halvings = SKIPPED - 1
    own = (
        (
            PRINTED_SCALE,
            "That is what the line prints after ten iterations, all of them skipped. What had each "
            "of them done to the scale?",
        ),
        (
            PRINTED_SCALE * 2**SKIPPED,
            "You counted the skipped steps. Ten were skipped, and not every skipped step halves: "
            "look at the first two lines of `half` again.",
        ),
        (
            PRINTED_SCALE * 2 ** (halvings - 1),
            "That is one halving too few. The patience is used up once, by the first overflow.",
        ),
        (
            PRINTED_SCALE * 2 ** (SKIPPED // 2),
            "A patience of 2 does not mean that every second overflow halves: from the second one "
            "on, each does.",
        ),
        *(
            (PRINTED_SCALE * many, "Each halving undone doubles the scale; it does not add to it.")
            for many in (SKIPPED, halvings, 2 * halvings, 2 * SKIPPED)
        ),
        (PRINTED_SCALE * 2, "That undoes one halving. There were more."),
        *(
            (PRINTED_SCALE * 2**count, f"That undoes {count} halvings. Count them again.")
            for count in (*range(2, 8), *range(11, 22))
        ),
    )
    return Quantity(right=PRINTED_SCALE * 2**halvings, share=EXACT, own=own)
