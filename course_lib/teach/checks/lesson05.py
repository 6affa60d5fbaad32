"""Lesson 05, profiling."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from course_lib.lab.job.recipes import gpt
from course_lib.teach.checklist import Checklist
from course_lib.teach.checks.common import recorded_steps, same_shape, whole_flag
from course_lib.teach.checks.lesson05_waiting import ex05_waiting
from course_lib.teach.slips import Quantity

__all__ = ["ex05_operator", "ex05_second", "ex05_waiting"]

ITERATIONS, STEPS = 12, (8, 10)
RANKS = {0, 1, 2, 3}
PLANT = "--planted-bottleneck"
ROW = 1024
"""Gradients that the second plant looks at in one go."""
TINY = ("aten::item", "aten::_local_scalar_dense", "aten::sum")
"""The operators of the second plant; each is called once for each row."""


def ex05_second(run: Any) -> None:
    """The run with the second plant, recorded as the lesson recorded the first."""
    with Checklist("05.1") as check:
        check.succeeded(run)
        flags = run.recipe.flags
        check.that(
            flags.get(PLANT) == "2",
            "it has the second planted fault",
            hint="It was healthy: no flag made it slow."
            if flags.get(PLANT) in (None, "0")
            else f"It has the fault {flags[PLANT]}, which you know already.",
        )
        same_shape(check, run, 2, 2, "as the ill run")
        check.that(
            "--profile" in flags,
            "it was recorded",
            hint="No step was recorded. `profile` takes the first step to record and the first not "
            "to.",
        )
        _window(check, run)
        _like_the_ill_one(check, run)
        found = set(check.left(run, "profile").ranks)
        check.that(
            found >= RANKS,
            "all four ranks were recorded",
            hint=_which_are_missing(found),
        )


def _like_the_ill_one(check: Checklist, run: Any) -> None:
    """Else the recorded steps are not those of `healthy`, with which they are compared."""
    ill: Any = gpt.recipe("ill", nodes=2, gpus_per_node=2, micro_batch=2, global_batch=8)
    layouts = [gpt.layout(each) for each in (run.recipe, ill)]
    models = [gpt.model(each).but(name="") for each in (run.recipe, ill)]
    mine, its = layouts if layouts[0] != layouts[1] else models
    check.that(
        mine == its,
        "it trained what the ill run trained, in the same portions",
        hint="Another model, batch or way of cutting it makes other steps, and `healthy` says "
        f"nothing of those. It had:\n{mine}\nThe ill run had:\n{its}",
    )


def _window(check: Checklist, run: Any) -> None:
    first, end = (whole_flag(run, f"--profile-step-{name}") for name in ("start", "end"))
    hint = f"It recorded the steps from {first} up to, not with, {end}."
    if (first, end) == (STEPS[0], STEPS[1] - 1):
        hint += " The second number is the first step that is *not* recorded."
    elif (first, end) == (STEPS[0] + 1, STEPS[1] + 1):
        hint += " The log counts from 1, and the flags count from 0."
    elif end - first != STEPS[1] - STEPS[0]:
        hint += " The ill run recorded two steps: the second number less the first."
    elif (first, end) == (STEPS[0] - 1, STEPS[1] - 1):
        hint += " That is one too early."
    check.that((first, end) == STEPS, "steps 8 and 9 were recorded", hint=hint)
    count = whole_flag(run, "--train-iters")
    check.that(
        count == ITERATIONS,
        f"it made {ITERATIONS} iterations",
        hint=f"It was to make {count}. Steps count from 0, so step {STEPS[1] - 1} is the tenth.",
    )


def ex05_operator(name: object, calls: object, second: Any, healthy: Any) -> None:
    """Which operator the second plant calls, and how often one rank does in one step."""
    with Checklist("05.2") as check:
        operator = check.text(name, "operator")
        given = check.number(calls, "calls_per_step")
        check.succeeded(second, "the run `second`")
        check.succeeded(healthy, "the run `healthy`")
        before, after = _calls(check, healthy, "`healthy`"), _calls(check, second, "`second`")
        operator = _spelt(operator, after)
        _cause(check, operator, before.get(operator, 0), after.get(operator, 0))
        check.amount(
            given,
            _of_one_step(operator, before.get(operator, 0), after[operator], second),
            "the number is that of one rank and one step",
            hint="The table has one row for each rank and operator; its column `calls` counts over "
            "the recorded steps.",
        )


def _cause(check: Checklist, operator: str, before: float, after: float) -> None:
    check.that(
        after > 0,
        "the operator was called in the run `second`",
        hint=f"No operator is called {operator!r}. Names stand in second.profile.operators, with "
        "`aten::` in front.",
    )
    check.that(
        after > 2 * before + 10,
        "it is called far more often than in the healthy run",
        hint=f"{operator} is called {after:g} times per step of a rank here, and {before:g} times "
        "in the healthy run. Sort by the difference of `calls`, not by the time.",
    )
    check.that(
        operator in TINY,
        "it is the cause, or goes with it",
        hint=f"{operator} is called more often only because something else is. Which operator asks "
        "for a value?",
    )


def _spelt(said: str, known: Iterable[str]) -> str:
    """The name in the table that is meant: with other capitals, quoted, or called."""
    bare = said.strip().strip("`'\"").lower().removesuffix("()")
    ahead = r"^(?:the )?(?:operator )?(?:aten_|(?:aten|torch|tensor)?[.:]+|tensor )*"
    bare = re.sub(ahead, "", bare)
    return next((name for name in known if name.lower() in (bare, f"aten::{bare}")), said)


def _of_one_step(operator: str, before: float, calls: float, run: Any) -> Quantity:
    """Ranks may differ by a call or two."""
    ranks, steps = len(run.profile.ranks), recorded_steps(run)
    table = run.profile.operators
    of_ranks = table[table["name"] == operator].groupby("rank")["calls"].sum() / steps
    more = calls - before
    own = (
        (more, "That is how many more than in the healthy run. All of them are asked for."),
        (calls + before, "You added those of the healthy run."),
        (more * steps, f"That is how many more than in the healthy run, in {steps} steps."),
        *(
            (more * ranks * of, "That is how many more than in the healthy run, of all ranks.")
            for of in (1, steps)
        ),
        *((before * of, "That is the number of the healthy run.") for of in (1, steps)),
        (1, "It is called more than once: the table counts."),
        (
            calls * steps / ITERATIONS,
            f"You divided by all {ITERATIONS} iterations. {steps} of them were recorded.",
        ),
        (steps, "That is the number of recorded steps. How many calls are there in each?"),
        (calls * ITERATIONS, f"That is for all {ITERATIONS} steps of the run."),
        (calls * steps, f"That is the number for all {steps} recorded steps of one rank."),
        (calls * steps * ranks, f"That is for all {steps} recorded steps of all {ranks} ranks."),
        (calls * ranks, f"That is the number for all {ranks} ranks."),
    )
    counts = {"recorded steps": steps, "ranks": ranks}
    known = {"the numbers in one row": ROW, "the number of parameters": _parameters(run)}
    within = (min(of_ranks.min(), calls) - 0.5, max(of_ranks.max(), calls) + 0.5)
    return Quantity(right=calls, within=within, own=own, known=known, counts=counts)


def _parameters(run: Any) -> float:
    """Also of a run whose log does not tell: 0 is nobody's answer."""
    return float(run.log.parameter_count or 0)


def _calls(check: Checklist, run: Any, name: str) -> dict[str, float]:
    """Of rank 0 in one step."""
    table = check.left(run, "profile", f"the run {name}").operators
    mine = table[table["rank"] == 0]
    check.unless(
        mine.empty,
        f"rank 0 of {name} was recorded",
        hint=f"There is no record of it in {run.folder}. Is it the run of the lesson?",
    )
    steps = recorded_steps(run)
    return {str(n): c / steps for n, c in zip(mine["name"], mine["calls"], strict=True)}


def _which_are_missing(found: set[int]) -> str:
    if found == RANKS - {0}:
        return "There is no record of rank 0: ranks count from 0."
    return (
        f"There are records of {_listed(found)}. `profile_ranks` takes a list of ranks; "
        "left out, it is rank 0 alone, which would not have shown who was waited for."
    )


def _listed(ranks: set[int]) -> str:
    return f"rank {', '.join(map(str, sorted(ranks)))}" if ranks else "no rank"
