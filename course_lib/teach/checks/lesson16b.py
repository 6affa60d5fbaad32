"""Lesson 16b, keep going."""

from __future__ import annotations

from math import sqrt

from course_lib.plan.kept_work import daly_interval_s, failures_of
from course_lib.teach.checklist import Checklist
from course_lib.teach.slips import Quantity

SAVE_S, NODES = 40.0, 2048
RESTART_S = 600.0
BETWEEN = 0.06
"""Young's formula and Daly's differ by a few per cent: both are right."""


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
    right = 100 * (best.useful - half.useful)
    with Checklist("16b.2") as check:
        given = check.number(costs_percent, "costs_percent")
        check.amount(
            given,
            Quantity(
                right=right,
                unit="%",
                within=(right - 0.3, right + 0.3),
                own=((100 * half.useful, "That is the kept work itself. By how much is it less?"),),
            ),
            "that is what the longer interval costs",
            hint="Subtract goodput(…).useful with interval_s=twice the best from that of the best.",
        )
        said = check.text(chosen, "chosen").strip().lower()
        check.that(
            said in ("flat", "a flat bottom", "flat bottom"),
            "near its best the curve is flat",
            hint="A factor of 2 in the interval moved the kept work by how much? Choose "
            '"flat" or "sharp".',
        )
