"""Checks of lesson 05, profiling."""

from __future__ import annotations

from typing import Any

from course_lib.teach.answers import Amount, in_other_unit
from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.judge import tried
from course_lib.teach.trials.verdict import trial_of
from course_lib.words import N_, _

# What the trace shows if a place costs time.
TRACES = {
    "reading": N_("If reading costs the time, long ranges `data` fill the step on all ranks."),
    "asking": N_(
        "If reading single values costs the time, `aten::item` is called more than a thousand "
        "times."
    ),
    "messages": N_("If messages cost the time, all ranks are inside many short exchanges."),
    "dealing": N_("If dealing costs the time, some ranks compute while the other ranks wait."),
}
# Relative tolerance of the waiting time, which is a measurement.
CLOSE_ENOUGH = 0.05


def ex05_place(answer: object, slow: Any) -> None:
    """Check which of the four places costs the time of the learner's own task."""
    with Checklist("05.1") as check:
        check.answered(answer, "place")
        given = str(answer)
        check.needs(
            given in TRACES,
            _("the answer is one of the four places"),
            hint=_("The places are {places}.", places=", ".join(TRACES)),
        )
        drawn = [event["place"] for _rank, event in trial_of(check, slow, "cure").all("drawn")]
        check.needs(
            bool(drawn),
            _("the job recorded your program"),
            hint=_("The run ended too early. check.ex05_cure(slow) says why."),
        )
        check.that(
            given == drawn[0],
            _("this place costs the time"),
            where=_("You answered {answered}.", answered=given) + " ",
            hint=_(TRACES[given]) + " " + _("Compare the four places in milliseconds of a step."),
        )


ex05_cure = tried("05.2", "cure")


def ex05_waiting(answer: object, ill: Any) -> None:
    """Check what percentage of all ranks' device time was spent waiting for another rank."""
    with Checklist("05.3") as check:
        given = check.number(answer, "waiting_percent")
        check.succeeded(ill, _("the run `ill`"))
        profile = check.left(ill, "profile", _("the run `ill`"))
        waits_us = profile.communication.groupby("rank")["synchronising_us"].sum()
        check.that(
            len(waits_us) > 1,
            _("the ranks of the run can be compared"),
            hint=_(
                "Only one rank was recorded, and one rank alone cannot tell waiting from transfer."
            ),
        )
        whole_us = profile.overlap.groupby("rank")["total_us"].sum()
        spent_us = profile.communication["total_us"].sum()
        right, spent = (100 * float(us / whole_us.sum()) for us in (waits_us.sum(), spent_us))
        others = waits_us.drop(waits_us.idxmin())
        without = 100 * float(others.sum() / whole_us[others.index].sum())
        slips = (
            in_other_unit(right, "%", "parts of 1"),
            (without, _("You left out the straggler. The time of all devices counts.")),
            (spent, _("That is the share of all communication, which includes the transfer.")),
        )
        # Exchange time of each rank beyond the shortest in its step, as a percentage of all time.
        each = {"index": "rank", "columns": "step", "values": "exposed_communication_us"}
        inside_us = profile.overlap.pivot(**each)
        beyond = 100 * float((inside_us - inside_us.min()).sum().sum() / whole_us.sum())
        check.amount(
            given,
            Amount(right=right, unit="%", share=CLOSE_ENOUGH, also=(beyond,), slips=slips),
            _("the answer is the share of all device time that went into waiting"),
            hint=_(
                "Add up waiting_ms(ill) of all ranks for one step, and divide by the time of "
                "this step, summed over all ranks."
            ),
        )
