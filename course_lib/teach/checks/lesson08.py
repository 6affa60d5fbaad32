"""Checks of lesson 08, mixed precision."""

from __future__ import annotations

from typing import Any

from course_lib.teach.answers import EXACT, Amount
from course_lib.teach.checklist import Checklist
from course_lib.words import _

# The exercise gives this scale.
LEAST_SCALE, ITERATIONS = 2.0**8, 5
LEAST_EXPONENT, LARGEST_EXPONENT = 8, 32
PRINTED_SCALE, SKIPPED = 2**23, 10


def ex08_settled(run: Any) -> None:
    """Check an fp16 run with a dynamic loss scale that never skipped a step."""
    with Checklist("08.1") as check:
        check.trained(run)
        flags, log = run.recipe.flags, run.log
        check.that(
            "--fp16" in flags and log.world.precision == "float16",
            _("it computed in float16"),
            hint=_(
                "Its log says {value}. It is true that bfloat16 needs no scale, but some devices "
                "have only float16.",
                value=log.world.precision or _("nothing of it"),
            ),
        )
        started = _moves_by_itself(check, flags)
        check.that(
            log.last_iteration >= ITERATIONS,
            _("it made at least {iterations} iterations", iterations=ITERATIONS),
            hint=_(
                "It made {last_iteration}. Few steps prove little, so use small(…) unchanged.",
                last_iteration=log.last_iteration,
            ),
        )
        check.that(
            log.skipped == 0,
            _("no iteration was skipped"),
            hint=_(
                "Skipped: {skipped}. The scale began at {started:,.0f}. At which value did the "
                "scale of `half` stay? Begin below it.",
                skipped=log.skipped,
                started=started,
            ),
        )
        scale = float([0.0, *log.iterations["loss_scale"].dropna()][-1])
        check.that(
            scale >= LEAST_SCALE,
            _(
                "its scale of at least {least_scale:g} saves small gradients",
                least_scale=LEAST_SCALE,
            ),
            hint=_(
                "{scale:g} looks like a power of two's exponent: write 2**{scale:g}.", scale=scale
            )
            if LEAST_EXPONENT <= scale <= LARGEST_EXPONENT
            else _(
                "With a scale of {scale:g}, nearly all numbers that vanish without scaling still "
                "vanish. Look at the animation again: how far to the right may the bars go?",
                scale=scale,
            ),
        )


def _moves_by_itself(check: Checklist, flags: dict[str, Any]) -> float:
    """Check that the loss scale is dynamic. Return its initial value."""
    check.unless(
        "--loss-scale" in flags,
        _("its loss scale can change by itself"),
        hint=_(
            "--loss-scale sets a fixed scale, which does not follow the gradients. Choose the "
            "start of the search instead: initial_loss_scale."
        ),
    )
    started = float(flags.get("--initial-loss-scale", 2**32))
    floor = float(flags.get("--min-loss-scale", 0))
    check.that(
        floor < started,
        _("its loss scale can change by itself"),
        hint=_(
            "It begins with {started:,.0f} and may not fall below {floor:,.0f}, so the "
            "first overflow would find it unable to move. Leave --min-loss-scale out.",
            started=started,
            floor=floor,
        ),
    )
    return started


def ex08_started_at(answer: object) -> None:
    """Check the initial scale, if ten skipped steps led to 2²³."""
    halvings = SKIPPED - 1
    with Checklist("08.2") as check:
        given = check.number(answer, "started_at", "")
        later = _("Overflows make the scale smaller. Was it larger or smaller at the beginning?")
        check.amount(
            given,
            Amount(
                right=PRINTED_SCALE * 2**halvings,
                share=EXACT,
                slips=(
                    (32, _("That is the exponent. The exercise asks for the scale itself.")),
                    (
                        PRINTED_SCALE,
                        _(
                            "The line prints that scale after ten skipped iterations. What had "
                            "each of them done to the scale?"
                        ),
                    ),
                    (
                        PRINTED_SCALE * 2**SKIPPED,
                        _(
                            "Ten steps were skipped, and not every skipped step halves the scale: "
                            "look at the first two lines of `half`."
                        ),
                    ),
                    (
                        PRINTED_SCALE * 2 ** (SKIPPED // 2),
                        _(
                            "With a patience of 2, every overflow from the second one on halves "
                            "the scale."
                        ),
                    ),
                ),
            ),
            _("the scale at the start explains the line"),
            hint=later
            if given < PRINTED_SCALE
            else _(
                "Go backwards from {printed_scale:,}: each halving undone doubles it. "
                "How many halvings do ten overflows with a patience of 2 make?",
                printed_scale=PRINTED_SCALE,
            ),
        )
