"""Lesson 16b, keep going."""

from __future__ import annotations

import re
from math import sqrt

from course_lib.plan.kept_work import Failures, daly_interval_s, failures_of, goodput
from course_lib.teach.checklist import Checklist
from course_lib.teach.slips import Quantity

SAVE_S, NODES = 40.0, 2048
RESTART_S = 600.0
BETWEEN = 0.06
"""Young's formula and Daly's differ by a few per cent: both are right."""


LOST = "That is all that is lost. How much more is lost than with the best interval?"
NOT_AS_MUCH = "Near its best the curve is flat: it is much less. goodput(…) says how much."
DENIED = r"\b(?:not|isn['’]t|never|no|without|anything but|far from|hardly)\b(?: [a-z]+){0,3}? "
NOT_SHARP = re.compile(rf"{DENIED}(?:sharp|steep)\w*")
FLAT = re.compile(r"\b(?:flat\w*|plateau|shallow|broad|gentle|wide)\b")
NOT_FLAT = re.compile(
    rf"{DENIED}(?:flat|shallow|broad|plateau)|\b(?:sharp|steep)|\bflat\w* or\b|\bor flat"
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


def _cost_of_twice(failures: Failures) -> list[float]:
    """In points: of the best interval, of Young's, and of one in whole minutes."""
    best_s = goodput(NODES, failures).interval_s
    young_s = sqrt(2 * failures.checkpoint_s * failures.mtbf_s(NODES))
    found = []
    for interval_s in (best_s, young_s, 60 * round(best_s / 60)):
        once, twice = (goodput(NODES, failures, times * interval_s) for times in (1, 2))
        found.append(100 * (once.useful - twice.useful))
    return found


def ex16b_half(costs_percent: object, chosen: object) -> None:
    """What it costs to save half as often as is best; and which way one errs better."""
    failures = failures_of("llama-405b", checkpoint_s=SAVE_S, restart_s=RESTART_S)
    best = goodput(NODES, failures)
    half = goodput(NODES, failures, 2 * best.interval_s)
    often = goodput(NODES, failures, best.interval_s / 2)
    right, *by_other_intervals = _cost_of_twice(failures)
    relative = "That is a share of the kept work itself. How many points of a hundred less is it?"
    with Checklist("16b.2") as check:
        given = check.number(costs_percent, "costs_percent")
        check.amount(
            given,
            Quantity(
                right=right,
                unit="%",
                own=(
                    (right / best.useful, relative),
                    (
                        _cost_of_twice(failures_of("llama-405b"))[0],
                        f"That is for other times: a save takes {SAVE_S:g} s here, and a start "
                        f"{RESTART_S:g} s.",
                    ),
                    (100 * half.useful, "That is the kept work itself. By how much is it less?"),
                    (100 * best.useful, "That is the kept work itself. By how much is it less?"),
                    (100 * (1 - best.useful), LOST),
                    (100 * (1 - half.useful), LOST),
                    (
                        100 * half.useful / best.useful,
                        "That is what is kept of the best. By how much is it less?",
                    ),
                    (
                        100 * (best.useful - often.useful),
                        "That is the other way: half the interval. Twice is asked for.",
                    ),
                    (-right, "A cost is asked for: how much less is kept than at the best?"),
                    *((guess, NOT_AS_MUCH) for guess in (25, 50, 100)),
                ),
            ).or_as(*by_other_intervals, round(right), given=given),
            "that is what the longer interval costs",
            hint="Subtract goodput(…).useful with interval_s=twice the best from that of the best.",
        )
        said = NOT_SHARP.sub("flat", check.text(chosen, "chosen").lower())
        check.that(
            FLAT.search(said) is not None and NOT_FLAT.search(said) is None,
            "near its best the curve is flat",
            hint="A factor of 2 in the interval moved the kept work by how much? Choose "
            '"flat" or "sharp".',
        )
