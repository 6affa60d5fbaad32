"""Checks of lesson 05, profiling."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from course_lib.lab.job.recipes import gpt
from course_lib.teach.answers import Amount, in_other_unit
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import flags_are, has_devices, recorded_steps
from course_lib.words import _

ITERATIONS, STEPS = 12, (8, 10)
RANKS = {0, 1, 2, 3}
PLANT = "--planted-bottleneck"
# Operators of the second plant. Each is called once per row.
TINY = ("aten::item", "aten::_local_scalar_dense", "aten::sum")
# Relative tolerance of the waiting time, which is a measurement.
CLOSE_ENOUGH = 0.05


def ex05_second(run: Any) -> None:
    """Check the run with the second plant, recorded like the run with the first."""
    with Checklist("05.1") as check:
        check.succeeded(run)
        has_devices(check, run, 2, 2)
        counted = _(
            "The log counts steps from 1, and the flags from 0; `profile` takes the first step to "
            "record and the first that is *not* recorded, as the ill run did."
        )
        flags_are(
            check,
            run,
            {
                PLANT: 2,
                "--profile": True,
                "--profile-step-start": STEPS[0],
                "--profile-step-end": STEPS[1],
                "--train-iters": ITERATIONS,
            },
            {
                PLANT: _("The exercise asks for the second fault. You know the first already."),
                "--profile": _("No step was recorded. `profile` takes the steps to record."),
                "--profile-step-start": counted,
                "--profile-step-end": counted,
            },
        )
        # The recorded steps have to match those of `healthy` for a comparison.
        ill: Any = gpt.recipe("ill", nodes=2, gpus_per_node=2, micro_batch=2, global_batch=8)
        layouts = [gpt.layout(one) for one in (run.recipe, ill)]
        models = [gpt.model(one).but(name="") for one in (run.recipe, ill)]
        mine, its = layouts if layouts[0] != layouts[1] else models
        check.that(
            mine == its,
            _("it trained the same model as the ill run, with the same batch and layout"),
            hint=_(
                "A different model, batch or layout has different steps, so you cannot compare "
                "them with `healthy`. It had:\n{mine}\nThe ill run had:\n{its}",
                mine=mine,
                its=its,
            ),
        )
        found = set(check.left(run, "profile").ranks)
        check.that(
            found >= RANKS,
            _("all four ranks were recorded"),
            hint=_(
                "There are records of ranks {ranks}. `profile_ranks` takes a list of ranks, which "
                "count from 0; left out, it is rank 0 alone.",
                ranks=sorted(found),
            ),
        )


def ex05_operator(name: object, calls: object, second: Any, healthy: Any) -> None:
    """Check which operator the second plant calls, and how often per rank and step."""
    with Checklist("05.2") as check:
        operator = check.text(name, _("operator"))
        given = check.number(calls, "calls_per_step")
        check.succeeded(second, _("the run `second`"))
        check.succeeded(healthy, _("the run `healthy`"))
        before, after = _calls(check, healthy, "`healthy`"), _calls(check, second, "`second`")
        operator = _known_name(operator, after)
        _cause(check, operator, before.get(operator, 0), after.get(operator, 0))
        check.amount(
            given,
            _of_one_step(operator, before.get(operator, 0), after[operator], second),
            _("the number is that of one rank and one step"),
            hint=_(
                "The table has one row for each rank and operator; its column `calls` "
                "counts over the recorded steps."
            ),
        )


def _cause(check: Checklist, operator: str, before: float, after: float) -> None:
    check.that(
        after > 0,
        _("the operator was called in the run `second`"),
        hint=_(
            "There is no operator {operator!r}. second.profile.operators lists the names, which "
            "begin with `aten::`.",
            operator=operator,
        ),
    )
    check.that(
        after > 2 * before + 10,
        _("it is called far more often than in the healthy run"),
        hint=_(
            "{operator} is called {after:g} times per step of a rank here, and "
            "{before:g} times in the healthy run. Sort by the difference of `calls`, not "
            "by the time.",
            operator=operator,
            after=after,
            before=before,
        ),
    )
    check.that(
        operator in TINY,
        _("it is the cause, or goes with it"),
        hint=_(
            "{operator} is called more often only because another operator is. Which operator "
            "asks for a value?",
            operator=operator,
        ),
    )


def _known_name(said: str, known: Iterable[str]) -> str:
    """Return the operator's name in the table, ignoring case, quotes, prefixes and parentheses."""
    bare = re.sub(r"^(?:aten|torch|tensor|[.:]+)*", "", said.strip(" `'\"()").lower())
    return next((name for name in known if name.lower() in (bare, f"aten::{bare}")), said)


def _of_one_step(operator: str, before: float, calls: float, run: Any) -> Amount:
    """Return the wanted number of calls. Ranks may differ by a call or two."""
    ranks, steps = len(run.profile.ranks), recorded_steps(run)
    table = run.profile.operators
    of_ranks = table[table["name"] == operator].groupby("rank")["calls"].sum() / steps
    return Amount(
        right=calls,
        within=(min(of_ranks.min(), calls) - 0.5, max(of_ranks.max(), calls) + 0.5),
        slips=(
            (
                calls - before,
                _("That is the difference to the healthy run. Count all calls."),
            ),
            (
                calls * steps / ITERATIONS,
                _(
                    "You divided by all {iterations} iterations. {steps} of them were recorded.",
                    iterations=ITERATIONS,
                    steps=steps,
                ),
            ),
            (calls * steps, _("That is the number of all recorded steps of one rank.")),
            (calls * steps * ranks, _("That is the number of all recorded steps of all ranks.")),
        ),
    )


def _calls(check: Checklist, run: Any, name: str) -> dict[str, float]:
    """Return the calls of each operator by rank 0 in one step."""
    table = check.left(run, "profile", _("the run {name}", name=name)).operators
    mine = table[table["rank"] == 0]
    check.needs(
        not mine.empty,
        _("rank 0 of {name} was recorded", name=name),
        hint=_(
            "There is no record of it in {folder}. Is it the run of the lesson?", folder=run.folder
        ),
    )
    steps = recorded_steps(run)
    return {str(n): c / steps for n, c in zip(mine["name"], mine["calls"], strict=True)}


def ex05_waiting(answer: object, ill: Any) -> None:
    """Check what percentage of all ranks' device time was spent waiting for another rank."""
    with Checklist("05.3") as check:
        given = check.number(answer, "waiting_percent")
        check.succeeded(ill, _("the run `ill`"))
        profile = check.left(ill, "profile", _("the run `ill`"))
        waits_us = profile.communication.groupby("rank")["synchronising_us"].sum()
        check.that(
            len(waits_us) > 1,
            _("its ranks can be compared"),
            hint=_("There is a record of one rank only, and it cannot tell waiting from transfer."),
        )
        check.amount(
            given,
            _waiting(profile, waits_us),
            _("it is the share of all device time that went into waiting"),
            hint=_(
                "Add up waiting_ms(ill) of all ranks for one step, and divide by the time of "
                "this step, summed over all ranks."
            ),
        )


def _waiting(profile: Any, waits_us: Any) -> Amount:
    overlap = profile.overlap
    whole_us = overlap.groupby("rank")["total_us"].sum()
    spent_us = profile.communication["total_us"].sum()
    right, spent = (100 * float(us / whole_us.sum()) for us in (waits_us.sum(), spent_us))
    others = waits_us.drop(waits_us.idxmin())
    # Exchange time of each rank beyond the shortest in its step, as a percentage of all time.
    inside_us = overlap.pivot(index="rank", columns="step", values="exposed_communication_us")
    beyond = 100 * float((inside_us - inside_us.min()).sum().sum() / whole_us.sum())
    return Amount(
        right=right,
        unit="%",
        share=CLOSE_ENOUGH,
        also=(beyond,),
        slips=(
            in_other_unit(right, "%", "parts of 1"),
            (
                100 * float(others.sum() / whole_us[others.index].sum()),
                _("You left out the straggler. The time of all devices counts."),
            ),
            (spent, _("That is the share of all communication. The transfer is a part of it.")),
            (100 * right / spent, _("That is a share of the communication, not of all time.")),
        ),
    )
