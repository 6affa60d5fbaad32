"""Checks of lesson 08, mixed precision."""

from __future__ import annotations

from course_lib.teach.answers import EXACT, Amount
from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.judge import tried
from course_lib.words import _

PRINTED_SCALE, SKIPPED = 2**23, 10


ex08_scaler = tried("08.1", "scaler")


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
                            "The line prints this scale after ten skipped iterations. How did each "
                            "of them change the scale?"
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
                        _("With a hysteresis of 2, only the first overflow keeps the scale."),
                    ),
                ),
            ),
            _("the scale at the start explains the line"),
            hint=later
            if given < PRINTED_SCALE
            else _(
                "Go backwards from {printed_scale:,}: each step back doubles it. How many of ten "
                "overflows halve the scale, with a hysteresis of 2?",
                printed_scale=PRINTED_SCALE,
            ),
        )
