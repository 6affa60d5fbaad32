"""Lesson 16b, keep going."""

from __future__ import annotations

import re
from math import sqrt

from course_lib.plan.kept_work import daly_interval_s, failures_of
from course_lib.teach.checklist import Checklist
from course_lib.teach.slips import Quantity

SAVE_S, NODES = 40.0, 2048
RESTART_S = 600.0
BETWEEN = 0.06
"""Young's formula and Daly's differ by a few per cent: both are right."""


LOST = "That is all that is lost. How much more is lost than with the best interval?"
NOT_AS_MUCH = "Near its best the curve is flat: it is much less. goodput(…) says how much."
FLAT = (
    r"\b(?:flat\w*|plateau|shallow|broad|gentle|wide)\b|"
    r"\bnot (?:very |so |that )?(?:sharp|steep)\b"
)
NOT_FLAT = (
    r"\b(?:not|isn't|never|no|anything but|far from|hardly) (?:\w+ )?(?:flat|shallow|broad|"
    r"a plateau)|\bor\b|(?<!not )(?<!not very )(?<!not so )(?<!not that )\b(?:sharp|steep)"
)


def ex16b_interval(minutes: object) -> None:
    """How often the run of 16 384 devices should save."""
    mtbf_s = failures_of("llama-405b").mtbf_s(NODES)
    right = daly_interval_s(SAVE_S, mtbf_s) / 60
    own = (
        (
            sqrt(SAVE_S * mtbf_s) / 60,
            "That is without the factor 2 under the root: on average half an interval is lost.",
        ),
        (2 * SAVE_S * mtbf_s / 60, "The root is still to be taken."),
        (
            daly_interval_s(SAVE_S, mtbf_s * NODES) / 60,
            "That is for one node. Any of 2048 nodes ends the job.",
        ),
        (right**2, "The root is still to be taken."),
        (
            sqrt(2 * SAVE_S * mtbf_s / 60),
            "Seconds and minutes are mixed under the root. Take seconds, then divide by 60.",
        ),
        (
            sqrt(2 * SAVE_S / 60 * mtbf_s / 3600),
            "Minutes and hours are mixed under the root. Take seconds, then divide by 60.",
        ),
        (right * sqrt(NODES), "That is for one node. Any of 2048 nodes ends the job."),
        (right * NODES, "That is for one node, and the root is missing there."),
        (right / sqrt(NODES), "You divided by the nodes twice: mtbf_s(nodes) has done it."),
        (right * sqrt(8), "You divided by 256 nodes: 2048 are nodes, of 8 devices each."),
        (right / sqrt(8), "You divided by the devices. It is nodes that are counted, 2048."),
        (mtbf_s / 120, "That is half the time between failures, far too seldom."),
        (SAVE_S, "That is how long a save takes, in seconds."),
        (SAVE_S / 60, "That is how long a save takes."),
        (60, "An hour by habit. What do failures and the cost of a save say?"),
        (mtbf_s / 60, "That is the time between failures: who saves so seldom loses half of it."),
    )
    with Checklist("16b.1") as check:
        check.amount(
            check.number(minutes, "minutes"),
            Quantity(right=right, unit="minutes", share=BETWEEN, own=own),
            "that is the interval that loses least",
            hint="plan.failures_of says how often a node fails, mtbf_s(nodes) how often the job, "
            "and plan.checkpoint_interval takes seconds.",
        )


def ex16b_half(costs_percent: object, chosen: object) -> None:
    """What it costs to save half as often as is best; and which way one errs better."""
    from course_lib.plan import goodput

    failures = failures_of("llama-405b", checkpoint_s=SAVE_S, restart_s=RESTART_S)
    best = goodput(NODES, failures)
    half = goodput(NODES, failures, 2 * best.interval_s)
    often = goodput(NODES, failures, best.interval_s / 2)
    right = 100 * (best.useful - half.useful)
    with Checklist("16b.2") as check:
        given = check.number(costs_percent, "costs_percent")
        check.amount(
            given,
            Quantity(
                right=right,
                unit="%",
                within=(right - 0.3, right + 0.3),
                own=(
                    (100 * half.useful, "That is the kept work itself. By how much is it less?"),
                    (100 * best.useful, "That is the kept work itself. By how much is it less?"),
                    (100 * (1 - best.useful), LOST),
                    (100 * (1 - half.useful), LOST),
                    (
                        100 * half.useful / best.useful,
                        "That is what is kept of the best. By how much is it less?",
                    ),
                    (
                        100 * (often.useful - best.useful),
                        "That is the other way: half the interval. Twice is asked for, and a cost.",
                    ),
                    *((guess, NOT_AS_MUCH) for guess in (25, 50, 100)),
                ),
            ),
            "that is what the longer interval costs",
            hint="Subtract goodput(…).useful with interval_s=twice the best from that of the best.",
        )
        said = check.text(chosen, "chosen").lower()
        check.that(
            re.search(FLAT, said) is not None and re.search(NOT_FLAT, said) is None,
            "near its best the curve is flat",
            hint="A factor of 2 in the interval moved the kept work by how much? Choose "
            '"flat" or "sharp".',
        )
