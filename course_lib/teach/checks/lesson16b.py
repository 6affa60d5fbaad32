"""Checks of lesson 16b, surviving failures."""

from __future__ import annotations

from math import sqrt

from course_lib.plan.kept_work import Failures, failures_of, goodput
from course_lib.teach.answers import Amount
from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.judge import tried
from course_lib.words import _

SAVE_S, NODES = 40.0, 2048
RESTART_S = 600.0


ex16b_resume = tried("16b.1", "resume")


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
    with Checklist("16b.2") as check:
        given = check.number(costs_percent, "costs_percent")
        wanted = Amount(
            right=right,
            unit="%",
            also=(*by_other_intervals, round(right)),
            slips=(
                (100 * half.useful, _("That is the kept work. By how much is it less?")),
                (100 * (1 - half.useful), _("That is all lost work. How much more is lost?")),
                (
                    100 * (best.useful - often.useful),
                    _("That is for half the interval. The exercise asks for twice the interval."),
                ),
                (
                    _cost_of_twice(failures_of("llama-405b"))[0],
                    _(
                        "That is for other times: here a save takes {save_s:g} s and a restart "
                        "{restart_s:g} s.",
                        save_s=SAVE_S,
                        restart_s=RESTART_S,
                    ),
                ),
            ),
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
