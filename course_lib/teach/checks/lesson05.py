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
    """Which share of the device time of all ranks went into waiting for another rank."""
    with Checklist("05.3") as check:
        given = check.number(answer, "waiting_percent")
        check.succeeded(ill, "the run `ill`")
        table = ill.profile.communication.groupby("rank")
        waits_us, spent_us = table["synchronising_us"].sum(), table["total_us"].sum()
        check.that(
            len(waits_us) > 1,
            "its ranks can be compared",
            hint="There is a record of one rank only, and it cannot tell waiting from transfer.",
        )
        whole_us = ill.profile.overlap.groupby("rank")["total_us"].sum()
        steps = max(ill.profile.overlap["step"].nunique(), 1)
        right = 100 * float(waits_us.sum() / whole_us.sum())
        last = waits_us.idxmin()
        others = 100 * float(waits_us.drop(last).sum() / whole_us.drop(last).sum())
        spent = 100 * float(spent_us.sum() / whole_us.sum())
        hints = [
            hint
            for wrong, hint in _other_shares(right, others, spent, len(waits_us), steps)
            if _close(given, wrong)
        ]
        check.that(
            _close(given, right),
            "it is the share of all device time that went into waiting",
            hint=hints[0]
            if hints
            else f"You answered {given:g} %. Add up what waiting_ms(ill) says of all ranks for one "
            "step, and divide by how long one step takes all of them together.",
        )


def _other_shares(
    right: float, others: float, spent: float, ranks: int, steps: int
) -> list[tuple[float, str]]:
    """Answers that show what was taken for what: (answer, hint)."""
    return [
        (right / 100, "The digits are those of a fraction; percent are asked for."),
        (others, "You left the straggler out. Its device is paid for as well."),
        (spent, "That is the share of all communication. Part of it is the transfer."),
        (right * ranks, f"You divided by the time of one device; {ranks} are paid for."),
        (right / ranks, "You took the waiting of a mean rank, and the device time of all."),
        (
            right * steps,
            f"The waiting is for all {steps} recorded steps, the time for one of them.",
        ),
        (right / steps, f"The waiting is for one step, the time for all {steps} recorded ones."),
    ]


def _listed(ranks: set[int]) -> str:
    return f"rank {', '.join(map(str, sorted(ranks)))}" if ranks else "no rank"


def _close(value: float, right: float) -> bool:
    return right > 0 and close(value, right, CLOSE_ENOUGH)
