"""Lesson 13, parallel layers by hand."""

from __future__ import annotations

from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.orders import ranks, steps
from course_lib.teach.trials import layer_hints, layers
from course_lib.teach.trials.loading import could_load
from course_lib.teach.trials.own_function import comes_back, function_tried
from course_lib.teach.trials.verdict import Trial, trial_of

ROUNDING = 0.01


def ex13_groups(function: Any) -> None:
    """The groups of ranks that an order such as tp-cp-dp makes."""
    with Checklist("13.1") as check:
        ranks.are_right(check, function)


def ex13_column(run: Any) -> None:
    """A linear layer whose outputs are shared."""
    with Checklist("13.2") as check:
        trial = layers.equal_to_serial(check, run, "column", layer_hints.COLUMN)
        layers.keeps_its_slice_alone(check, trial)
        _nothing_travels(check, trial, "forward")
        _sums_once(check, trial, "backward")


def ex13_row(run: Any) -> None:
    """A linear layer whose inputs are shared."""
    with Checklist("13.3") as check:
        trial = layers.equal_to_serial(check, run, "row", layer_hints.ROW)
        layers.keeps_its_slice_alone(check, trial)
        _sums_once(check, trial, "forward")
        _nothing_travels(check, trial, "backward")


def ex13_tokens(run: Any) -> None:
    """Sequence parallelism: gather and scatter in the place of copy and sum."""
    with Checklist("13.4") as check:
        trial = layers.equal_to_serial(check, run, "tokens", layer_hints.TOKENS)
        size = max(size for size, _ in trial.cases)
        for phase in ("forward", "backward"):
            most, whole = layers.sent(trial, size, phase), 2 * (size - 1) / size
            used = layers.calls_in(trial, size, phase)
            # Who keeps the own tokens alone gathers them once more for the gradient of a.
            again = whole / 2 if phase == "backward" and "all_reduce" not in used else 0
            check.that(
                most <= whole + again + ROUNDING,
                f"{phase} sends, counted round a ring, no more than one all-reduce: "
                f"{whole:g} times all tokens",
                hint=f"{phase} sends {most:g} times all tokens on {size} ranks ({used}), an "
                f"all-reduce {whole:g} times. An all-gather and a reduce-scatter are half of it "
                "each; what sums up all tokens everywhere, to drop most of them, is the whole.",
            )


def ex13_schedule(mine: Any, run: Any) -> None:
    """1F1B: the steps of one stage, carried out by ranks and tried without any.

    What never came back on a rank, or printed without end, would do so in the notebook; so the
    trial is asked before the file is run here.
    """
    with Checklist("13.5") as check:
        check.answered(mine, steps.NAME)
        trial = trial_of(check, run, "schedule")
        could_load(check, trial)
        comes_back(check, trial)
        steps.are_right(check, function_tried(check, mine, run, steps.NAME))
        layers.has_serial_numbers(check, trial, run, layer_hints.EVERY)


def _nothing_travels(check: Checklist, trial: Trial, phase: str) -> None:
    size = max(size for size, _ in trial.cases)
    check.that(
        layers.sent(trial, size, phase) == 0,
        f"{phase}: nothing travels",
        hint=f"In {phase} it calls {layers.calls_in(trial, size, phase)}; nothing has to travel.",
    )


def _sums_once(check: Checklist, trial: Trial, phase: str) -> None:
    """By whatever collectives or messages: the most that one sum takes is to send all to all."""
    sizes = sorted({size for size, _ in trial.cases})
    for size in sizes:
        most = layers.sent(trial, size, phase)
        check.unless(
            most > size - 1 + ROUNDING,
            f"{phase}: what travels is one sum",
            hint=f"In {phase} it calls {layers.calls_in(trial, size, phase)}, and sends the whole "
            f"{most:g} times on {size} ranks; one all-reduce, {2 * (size - 1) / size:.2g} times, "
            "is enough.",
        )
    check.lines.append(f"✓ {phase}: what travels is one sum")
