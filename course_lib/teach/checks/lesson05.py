"""Lesson 05, profiling."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist, close

CLOSE_ENOUGH = 0.05
STEPS = (8, 10)
RANKS = {0, 1, 2, 3}
PLANT = "--planted-bottleneck"
TINY = ("aten::item", "aten::_local_scalar_dense", "aten::sum")
"""The operators of the second plant; each is called once for each row."""


def ex05_second(run: Any) -> None:
    """The run with the second plant, recorded as the lesson recorded the first."""
    with Checklist("05.1") as check:
        check.succeeded(run)
        flags = run.recipe.flags
        check.that(
            flags.get(PLANT) == "2",
            "it has the second plant",
            hint="It was healthy: no flag made it slow."
            if PLANT not in flags
            else f"It has the plant {flags[PLANT]}, which you know already.",
        )
        check.that(
            (run.recipe.nodes, run.recipe.gpus_per_node) == (2, 2),
            "it ran on two devices of each of two nodes",
            hint=f"It had {run.recipe.nodes} × {run.recipe.gpus_per_node}. Look at the first lines "
            "of lab.script(second_recipe).",
        )
        check.that(
            "--profile" in flags,
            "it was recorded",
            hint="No step was recorded. `profile` takes the first step to record and the first not "
            "to.",
        )
        _window(check, flags)
        found = set(run.profile.ranks)
        check.that(
            found >= RANKS,
            "all four ranks were recorded",
            hint=f"There are records of {_listed(found)}. `profile_ranks` takes a list of ranks; "
            "left out, it is rank 0 alone, which would not have shown who was waited for.",
        )


def _window(check: Checklist, flags: dict[str, Any]) -> None:
    first, end = (int(flags.get(f"--profile-step-{name}", 0)) for name in ("start", "end"))
    hint = f"It recorded the steps from {first} up to, not with, {end}."
    if (first, end) == (STEPS[0], STEPS[1] - 1):
        hint += " The second number is the first step that is *not* recorded."
    check.that((first, end) == STEPS, "steps 8 and 9 were recorded", hint=hint)


def ex05_operator(name: object, calls: object, second: Any, healthy: Any) -> None:
    """Which operator the second plant calls, and how often one rank does in one step."""
    with Checklist("05.2") as check:
        check.answered(name, "operator")
        given = check.number(calls, "calls_per_step")
        check.succeeded(second, "the run `second`")
        check.succeeded(healthy, "the run `healthy`")
        before, after = _calls(healthy), _calls(second)
        known = name in after
        check.that(
            known,
            "the operator was called in the run `second`",
            hint=f"No operator is called {name!r}. Names stand in second.profile.operators, with "
            "`aten::` in front.",
        )
        check.that(
            after[str(name)] > 2 * before.get(str(name), 0) + 10,
            "it is called far more often than in the healthy run",
            hint=f"{name} is called {after[str(name)]:g} times per step of a rank here, and "
            f"{before.get(str(name), 0):g} times in the healthy run. Sort by the difference of "
            "`calls`, not by the time.",
        )
        check.that(
            name in TINY,
            "it is the cause, or goes with it",
            hint=f"{name} is called more often only because something else is. Which operator asks "
            "for a value?",
        )
        right = after[str(name)]
        check.that(
            _close(given, right),
            "the number is that of one rank and one step",
            hint=_which_calls(given, right, second),
        )


def _which_calls(given: float, right: float, run: Any) -> str:
    ranks, steps = len(run.profile.ranks), STEPS[1] - STEPS[0]
    if _close(given, right * steps):
        return f"That is the number for all {steps} recorded steps of one rank."
    if _close(given, right * steps * ranks):
        return f"That is the number for all {steps} recorded steps of all {ranks} ranks."
    if _close(given, right * ranks):
        return f"That is the number for all {ranks} ranks."
    return (
        f"You answered {given:g}. The table has one row for each rank and operator; its column "
        "`calls` counts over the recorded steps."
    )


def _calls(run: Any) -> dict[str, float]:
    """Of rank 0 in one step."""
    table = run.profile.operators
    steps = max(run.profile.overlap["step"].nunique(), 1)
    mine = table[table["rank"] == 0]
    return {str(n): c / steps for n, c in zip(mine["name"], mine["calls"], strict=True)}


def ex05_waiting(answer: object, ill: Any) -> None:
    """How long the ranks that are waited for by nobody wait in a step."""
    with Checklist("05.3") as check:
        given = check.number(answer, "waiting")
        check.succeeded(ill, "the run `ill`")
        table = ill.profile.communication.groupby("rank")
        steps = max(ill.profile.overlap["step"].nunique(), 1)
        waits = table["synchronising_us"].sum() / steps / 1e3
        check.that(
            len(waits) > 1,
            "its ranks can be compared",
            hint="There is a record of one rank only, and it cannot tell waiting from transfer.",
        )
        others = waits.drop(waits.idxmin())
        right = float(others.mean())
        spent = float((table["total_us"].sum() / steps / 1e3).drop(waits.idxmin()).mean())
        wrong = {
            right * steps: f"That is for all {steps} recorded steps together.",
            float(others.sum()): f"That is the sum over {len(others)} ranks.",
            float(waits.mean()): "That is the mean over all ranks, the straggler among them.",
            float(waits.min()): "That is how long the straggler waits.",
            spent: "That is all the time in communication. Part of it is the transfer.",
            right / 1e3: "The digits are those of seconds; milliseconds are asked for.",
            right * 1e3: "The digits are those of microseconds; milliseconds are asked for.",
        }
        hints = [hint for value, hint in wrong.items() if _close(given, value)]
        check.that(
            _close(given, right),
            "it is what the others wait for the straggler",
            hint=hints[0]
            if hints
            else f"You answered {given:g}. waiting_ms(ill) has a row for each rank; leave out the "
            "rank that waits least.",
        )


def _listed(ranks: set[int]) -> str:
    return f"rank {', '.join(map(str, sorted(ranks)))}" if ranks else "no rank"


def _close(value: float, right: float) -> bool:
    return right > 0 and close(value, right, CLOSE_ENOUGH)
