"""Lesson 13, parallel layers by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.orders import ranks, steps
from course_lib.teach.trials import layers
from course_lib.teach.trials.failures import could_load
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
        trial = layers.equal_to_serial(check, run, "column", layers.COLUMN)
        layers.keeps_its_slice_alone(check, trial)
        _calls(check, trial, "forward", ())
        _calls(check, trial, "backward", ("all_reduce",))


def ex13_row(run: Any) -> None:
    """A linear layer whose inputs are shared."""
    with Checklist("13.3") as check:
        trial = layers.equal_to_serial(check, run, "row", layers.ROW)
        layers.keeps_its_slice_alone(check, trial)
        _calls(check, trial, "forward", ("all_reduce",))
        _calls(check, trial, "backward", ())


def ex13_tokens(run: Any) -> None:
    """Sequence parallelism: gather and scatter in the place of copy and sum."""
    with Checklist("13.4") as check:
        trial = layers.equal_to_serial(check, run, "tokens", layers.TOKENS)
        size = max(size for size, _ in trial.cases)
        for phase in ("forward", "backward"):
            most = max(event["sent"] for lines in trial.at(size, phase, "result")
                       for event in lines)  # fmt: skip
            whole = 2 * (size - 1) / size
            used = ", ".join(layers.calls_in(trial, phase))
            check.that(
                most <= whole + ROUNDING,
                f"{phase} sends no more than one all-reduce: {whole:g} times all tokens",
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
        layers.has_serial_numbers(check, trial, run, layers.EVERY)


def _calls(check: Checklist, trial: Trial, phase: str, wanted: Sequence[str]) -> None:
    """How many collectives are needed; which ones is the learner's choice."""
    called = layers.calls_in(trial, phase)
    some = ", ".join(called) or "nothing"
    few = "one all-reduce is enough" if wanted else "nothing has to travel"
    check.that(
        len(called) <= len(wanted),
        f"{phase}: {'one collective' if wanted else 'nothing travels'}",
        hint=f"In {phase} it calls {some}; {few}.",
    )
