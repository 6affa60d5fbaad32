"""Checks of lesson 16b, surviving failures."""

from __future__ import annotations

from math import sqrt

from course_lib.plan.kept_work import Failures, daly_interval_s, failures_of, goodput
from course_lib.teach.answers import Amount
from course_lib.teach.checklist import Checklist
from course_lib.words import N_, _

SAVE_S, NODES = 40.0, 2048
RESTART_S = 600.0
# Tolerance that accepts both formulas, Young's and Daly's, which differ by a few percent.
BETWEEN = 0.06


def ex16b_interval(minutes: object) -> None:
    """Check how often a run on 16,384 devices should save."""
    mtbf_s = failures_of("llama-405b").mtbf_s(NODES)
    right = daly_interval_s(SAVE_S, mtbf_s) / 60
    of_a_node = _("That is for one node. Any of 2048 nodes ends the job.")
    root, mixed = (
        _("The root is still to be taken."),
        _("Units are mixed under the root. Take seconds for all, then divide by 60."),
    )
    slips = {
        sqrt(SAVE_S * mtbf_s) / 60: _(
            "That is without the factor 2 under the root: on average half an interval is lost."
        ),
        **dict.fromkeys((2 * SAVE_S * mtbf_s / 60, right**2), root),
        **dict.fromkeys(
            (daly_interval_s(SAVE_S, mtbf_s * NODES) / 60, right * sqrt(NODES)), of_a_node
        ),
        **dict.fromkeys(
            (
                sqrt(2 * SAVE_S / save * mtbf_s / between)
                for save, between in ((1, 60), (60, 3600), (60, 60))
            ),
            mixed,
        ),
    }
    with Checklist("16b.1") as check:
        check.amount(
            check.number(minutes, "minutes"),
            Amount(
                right=right,
                unit=N_("minutes"),
                share=BETWEEN,
                slips=slips,
                known={
                    _("the seconds of a save"): SAVE_S,
                    _("the time between failures"): mtbf_s / 60,
                },
            ),
            _("that is the interval that loses least"),
            hint=_(
                "plan.failures_of says how often a node fails, mtbf_s(nodes) how often "
                "the job, and plan.checkpoint_interval takes seconds."
            ),
        )


def _cost_of_twice(failures: Failures) -> list[float]:
    """Return the cost of doubling the interval, in percentage points.

    Include the best interval, Young's interval, and the best interval in whole minutes.
    """
    best_s = goodput(NODES, failures).interval_s
    young_s = sqrt(2 * failures.checkpoint_s * failures.mtbf_s(NODES))
    found = []
    for interval_s in (best_s, young_s, 60 * round(best_s / 60)):
        once, twice = (goodput(NODES, failures, times * interval_s) for times in (1, 2))
        found.append(100 * (once.useful - twice.useful))
    return found


def ex16b_half(costs_percent: object, chosen: object) -> None:
    """Check the cost of saving half as often as is best, and which error costs less."""
    failures = failures_of("llama-405b", checkpoint_s=SAVE_S, restart_s=RESTART_S)
    best = goodput(NODES, failures)
    half, often = (goodput(NODES, failures, times * best.interval_s) for times in (2, 1 / 2))
    right, *by_other_intervals = _cost_of_twice(failures)
    kept = _("That is the kept work itself. By how much is it less?")
    lost = _("That is all that is lost. How much more is lost than with the best interval?")
    with Checklist("16b.2") as check:
        given = check.number(costs_percent, "costs_percent")
        wanted = Amount(
            right=right,
            unit="%",
            also=(*by_other_intervals, round(right)),
            slips={
                right / best.useful: (
                    _(
                        "That is a share of the kept work itself. How many points of a "
                        "hundred less is it?"
                    )
                ),
                **dict.fromkeys((100 * one.useful for one in (half, best)), kept),
                **dict.fromkeys((100 * (1 - one.useful) for one in (half, best)), lost),
                100 * (best.useful - often.useful): _(
                    "That is the other way: half the interval. Twice is asked for."
                ),
                _cost_of_twice(failures_of("llama-405b"))[0]: (
                    _(
                        "That is for other times: a save takes {save_s:g} s here, and a "
                        "start {restart_s:g} s.",
                        save_s=SAVE_S,
                        restart_s=RESTART_S,
                    )
                ),
            },
        )
        check.amount(
            given,
            wanted,
            _("that is what the longer interval costs"),
            hint=_(
                "Subtract goodput(…).useful with interval_s=twice the best from that of the best."
            ),
        )
        check.that(
            check.text(chosen, "chosen").strip(" .").lower() == "flat",
            _("near its best the curve is flat"),
            hint=_(
                "A factor of 2 in the interval moved the kept work by how much? Choose "
                '"flat" or "sharp".'
            ),
        )
