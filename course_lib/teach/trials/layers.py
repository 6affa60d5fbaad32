"""A parallel layer that is not the serial one: which mistake its numbers show."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.failures import came_through
from course_lib.teach.trials.layer_hints import Hints
from course_lib.teach.trials.verdict import Event, Trial, is_equal, right_on, trial_of, wrong_on

NOT_SUMMED = ("own", "partial", "partial, no bias")
"""A rank's own share, where the sum of all is wanted."""
ALONE = (*NOT_SUMMED, "shares", "values")
"""What the other ranks may hold where only rank 0 got the sum."""
SUMMED = (
    "y",
    "the gradient of x",
    "the gradient of wq",
    "the gradient of wk",
    "the gradient of wv",
)
AGAIN = ", step 2"
SECOND_STEP = (
    "right in the first step, not in the second, in which x, dy and the weights are others. What "
    "is kept from step to step?"
)
IN_VAIN = (
    "it is rank {rank}'s own share. A sum is asked for, but what it has summed up is not what is "
    "used: a copy, a new name, or a call that nobody has waited for?"
)
VIEW = (
    "The slice is a view of the whole weight, which therefore stays in memory: {times:g} times the "
    "slice. A copy, by .clone(), lets go of it."
)
BESIDE = (
    "The layer keeps {times:g} times its slices in memory. Which other tensor does it hold on to, "
    "such as the whole weight under another name?"
)


def equal_to_serial(check: Checklist, run: Any, exercise: str, hints: Hints) -> Trial:
    """The run is a trial of this exercise that came through with the serial layer's numbers."""
    trial = trial_of(check, run, exercise)
    has_serial_numbers(check, trial, run, hints)
    return trial


def has_serial_numbers(check: Checklist, trial: Trial, run: Any, hints: Hints) -> None:
    came_through(check, trial, run)
    is_equal(check, trial, lambda *found: explain(hints, *found))


def explain(hints: Hints, trial: Trial, rank: int, event: Event) -> str:
    if event["slip"] == "own keys":  # rank 0 has the same numbers by other mistakes in the mask
        event = max(wrong_on(trial, event).items())[1]
    part, slip, right = event["part"], event["slip"], right_on(trial, event)
    if slip in ALONE and part in SUMMED and right == [0]:
        return f"only rank 0 has the right sum in {part}. Every rank needs it."
    said = hints.get((part, slip)) or hints.get(("", slip)) or hints["", "values"]
    if event["case"].endswith(AGAIN):
        said = SECOND_STEP
    elif slip in NOT_SUMMED and _sums_something_else(trial, rank, event):
        said = IN_VAIN
    elif slip == "none" and right:
        said = hints.get((part, "none here"), said)
    return f"{part}: " + said.format(
        rank=rank, size=event["size"], has=event.get("has"), wanted=event.get("wanted"),
        whose=event.get("whose"), other=right[0] if right else 0,
        shares=", ".join(f"{share:g}" for share in event.get("shares", ())),
    )  # fmt: skip


def _sums_something_else(trial: Trial, rank: int, event: Event) -> bool:
    """Whether a call was meant for this part: by its name, or for what has none."""
    name = event["part"].removeprefix("the gradient of ")
    calls = trial.at(event["size"], event["case"], "call")[rank]
    return any(
        call["call"].startswith(("all_reduce", "reduce")) and call.get("of", "") in ("", name)
        for call in calls
    )


def keeps_its_slice_alone(check: Checklist, trial: Trial) -> None:
    events = [event for _, event in trial.all("result") if "kept" in event]
    kept, viewed = (max(event[what] for event in events) for what in ("kept", "viewed"))
    check.that(
        kept < 1.05,
        "each rank keeps its slice alone",
        hint=VIEW.format(times=round(viewed, 2))
        if viewed > 1.01
        else BESIDE.format(times=round(kept, 2)),
    )


def sent(trial: Trial, size: int, phase: str) -> float:
    """What the busiest rank sent in a phase, in the unit of the trial."""
    found = [event for _, event in trial.all("result") if event["size"] == size]
    return max(float(event["sent"]) for event in found if event["case"].startswith(phase))


def calls_in(trial: Trial, size: int, phase: str) -> str:
    """Names of the collectives that rank 0 called in a phase of the first step."""
    calls = [str(call["call"]) for call in trial.at(size, phase, "call")[0]]
    return ", ".join(calls) or "nothing"
