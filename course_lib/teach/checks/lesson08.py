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
    right = PRINTED_SCALE * 2 ** (SKIPPED - 1)
    slips = (
        (32, _("That is the exponent. The exercise asks for the scale itself.")),
        (
            2 * right,
            _(
                "Ten steps were skipped, and not every skipped step halves the scale: look at the "
                "first two lines of `half`."
            ),
        ),
        (
            PRINTED_SCALE * 2 ** (SKIPPED // 2),
            _("With a hysteresis of 2, only the first overflow keeps the scale."),
        ),
    )
    with Checklist("08.2") as check:
        check.amount(
            check.number(answer, "started_at"),
            Amount(right=right, share=EXACT, slips=slips),
            _("the scale at the start explains the line"),
            hint=_(
                "Go backwards from {printed_scale:,}: each step back doubles it. How many of ten "
                "overflows halve the scale, with a hysteresis of 2?",
                printed_scale=PRINTED_SCALE,
            ),
        )
