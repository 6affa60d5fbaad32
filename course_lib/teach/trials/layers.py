"""A parallel layer that is not the serial one: which mistake its numbers show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.teach.checklist import Checklist
from course_lib.teach.trials.failures import came_through
from course_lib.teach.trials.verdict import Event, Trial, is_equal, right_on, trial_of

ALONE = ("own", "partial", "partial, no bias", "values")
"""What the other ranks may hold where only rank 0 got the sum."""
Hints = Mapping[tuple[str, str], str]
"""By the part of the result and the mistake that the trial found; "" stands for any part."""

VIEW = (
    "The slice is a view of the whole weight, which therefore stays in memory: {times:g} times the "
    "slice. A copy, by .clone(), lets go of it."
)
AGAIN = (
    "all ranks had the same numbers there, and they were summed over the ranks: {size} times too "
    "much."
)
NOT_SUMMED = (
    "it is this rank's own: its positions gave only a part of it. All ranks hold these weights, "
    "so their gradients need one more sum."
)
EVERY: dict[tuple[str, str], str] = {
    ("", "none"): "it is None. Does the layer set it (self.weight, self.bias), or return it?",
    ("", "no tensor"): "it is {has}.",
    ("the gradient of x", "none"): "it is None: what does backward return?",
    ("", "dtype"): "it is {has}; what comes in is float64, and is to stay so.",
    ("", "shape"): "it has shape {has}; {wanted} is wanted.",
    ("", "values"): "its shape is right, its numbers are not, by none of the usual mistakes. "
    "Compare it with the serial layer on one rank.",
    ("", "mean"): "it was divided by the number of ranks: partial sums are added, not averaged.",
    ("", "times"): AGAIN,
    ("the weight", "whole"): "it is not cut: every rank holds the whole weight.",
    ("the weight", "every so many"): "rank {rank} took every {size}th row or column. A rank takes "
    "neighbours: chunk({size}, …)[rank].",
    ("the weight", "another rank's"): "rank {rank} holds the slice of rank 0. Where does `rank` "
    "enter?",
    ("the bias", "another rank's"): "rank {rank} holds the slice of rank 0.",
    ("", "transposed"): "it is transposed: shape {has} where {wanted} is wanted.",
}
COLUMN: Hints = EVERY | {
    ("the weight", "other dimension"): "it is cut along the inputs, which is the row-parallel "
    "layer. torch keeps weights as [outputs, inputs]: the columns of the A in x A are the rows of "
    "this tensor, its dimension 0.",
    ("the weight", "other dimension, transposed"): "it is cut along the inputs, and transposed.",
    ("the bias", "whole"): "it is not cut. There is one number for each output, so each belongs "
    "to the rank that has the output.",
    ("y", "gathered"): "all outputs are here: they were gathered where nobody needs them. What "
    "follows, an activation and a row-parallel layer, works on the slice.",
    ("y", "no bias"): "the bias is missing.",
    ("the gradient of x", "own"): "it holds this rank's outputs alone: the all-reduce in backward "
    "is missing. Every output depends on all of x, so x gets a share of its gradient from each "
    "rank, and they have to be added up.",
    ("the gradient of x", "times"): "the gradient was summed twice: {size} equal sums were added.",
    ("the gradient of the weight", "added up"): "the gradients of all slices were added up. Each "
    "slice belongs to one rank; there is nothing to sum.",
    ("the gradient of the bias", "added up"): "the gradients of all slices were added up. Each "
    "slice belongs to one rank; there is nothing to sum.",
    ("the gradient of the weight", "times"): AGAIN,
}  # fmt: skip
ROW: Hints = EVERY | {
    ("the weight", "other dimension"): "it is cut along the outputs, which is the column-parallel "
    "layer. torch keeps weights as [outputs, inputs]: here dimension 1, the inputs, is cut.",
    ("the weight", "other dimension, transposed"): "it is cut along the outputs, and transposed.",
    ("the bias", "cut"): "it is cut. Every output needs its bias, and every rank has all outputs.",
    ("the bias", "divided"): "it is divided by the number of ranks. The sum comes out right, but "
    "each rank's share gets the whole gradient: a step of the optimizer moves it {size} times as "
    "far. Keep it whole, and add it after the sum.",
    ("y", "partial"): "this is rank {rank}'s partial sum: the all-reduce in forward is missing.",
    ("y", "partial, no bias"): "this is rank {rank}'s partial sum, without the bias: the "
    "all-reduce in forward is missing.",
    ("y", "bias everywhere"): "the bias is in it {size} times: every rank added it before the sum. "
    "Add it afterwards.",
    ("y", "no bias"): "the bias is missing.",
    ("y", "times"): "the products were summed twice.",
    ("y", "cut"): "this is a slice of the outputs. A row-parallel layer leaves the whole on every "
    "rank.",
    ("the gradient of x", "times"): "a sum in backward that is not needed: dy is the same on every "
    "rank, so the gradient comes out {size} times too large. y = y₀ + y₁ + …, so each partial sum "
    "has the gradient of y itself, and nothing travels.",
    ("the gradient of the weight", "times"): "a sum in backward that is not needed: dy is the same "
    "on every rank, so the gradient comes out {size} times too large.",
    ("the gradient of x", "added up"): "the gradients of all slices were added up. Each slice "
    "belongs to one rank; there is nothing to sum.",
    ("the gradient of the weight", "added up"): "the gradients of all slices were added up.",
    ("the gradient of the bias", "none"): "it has none here, while rank 0's has one: the copies of "
    "the bias drift apart. Add it on every rank after the sum, or hold it on rank 0 alone.",
}  # fmt: skip
TOKENS: Hints = EVERY | {
    ("y", "all tokens"): "all tokens are here, and each rank is to have its own: a "
    "reduce-scatter in the place of the all-reduce.",
    ("y", "partial"): "the tokens are the right ones, but only rank {rank}'s partial sum of them "
    "is here: cutting is not enough, the partial sums have to be added.",
    ("y", "all tokens, partial"): "this is the partial sum as it came in: ScatterTokens does "
    "nothing.",
    ("y", "another rank's"): "these are the tokens of rank 0.",
    ("the gradient of x", "own"): "it holds rank {rank}'s share alone. Every rank used these "
    "tokens, so backward of GatherTokens adds up all shares: a reduce-scatter, not a cut.",
    ("the gradient of a", "own tokens"): "it comes from the own tokens of dy alone: backward of "
    "ScatterTokens has to gather the others'.",
    ("the gradient of b", "own tokens"): "it comes from the own tokens of dy alone: backward of "
    "ScatterTokens has to gather the others'.",
    ("the gradient of x", "times"): "the gradient was summed twice.",
}  # fmt: skip

CONTEXT: Hints = EVERY | {
    ("y", "own keys"): "each position looks at those of its own rank alone: keys and values of "
    "the others have to come.",
    ("y", "no mask"): "positions look ahead: the causal mask is missing.",
    ("y", "rank order"): "the gathered keys lie rank by rank, and the mask takes them for the "
    "sequence in its order. Gather their positions as well.",
    ("y", "place in the list"): "the mask counts places in the list of gathered keys, not "
    "positions of the sequence.",
    ("the gradient of x", "own"): "it comes from this rank's outputs alone. Other ranks looked at "
    "these keys and values: backward of the all-gather is a reduce-scatter.",
    ("the gradient of x", "no keys"): "it comes by the queries alone: through the gathered keys "
    "and values nothing comes back. dist.all_gather is unknown to autograd.",
    ("the gradient of wq", "own"): NOT_SUMMED,
    ("the gradient of wk", "own"): NOT_SUMMED,
    ("the gradient of wv", "own"): NOT_SUMMED,
    ("", "mean"): "it is the mean over the ranks. Each rank holds other positions of the same "
    "sequence, and the loss is a sum over them: gradients are added.",
}  # fmt: skip


def equal_to_serial(check: Checklist, run: Any, exercise: str, hints: Hints) -> Trial:
    """The run is a trial of this exercise that came through with the serial layer's numbers."""
    trial = trial_of(check, run, exercise)
    has_serial_numbers(check, trial, run, hints)
    return trial


def has_serial_numbers(check: Checklist, trial: Trial, run: Any, hints: Hints) -> None:
    came_through(check, trial, run)
    is_equal(check, trial, lambda *found: explain(hints, *found))


def explain(hints: Hints, trial: Trial, rank: int, event: Event) -> str:
    part, slip = event["part"], event["slip"]
    if slip in ALONE and part in ("y", "the gradient of x") and right_on(trial, event) == [0]:
        return f"only rank 0 has the right sum in {part}. Every rank needs it."
    said = hints.get((part, slip)) or hints.get(("", slip)) or hints["", "values"]
    return f"{part}: " + said.format(
        rank=rank, size=event["size"], has=event.get("has"), wanted=event.get("wanted")
    )


def keeps_its_slice_alone(check: Checklist, trial: Trial) -> None:
    kept = max(event["kept"] for _, event in trial.all("result") if "kept" in event)
    check.that(
        kept < 1.01,
        "each rank keeps its slice alone",
        hint=VIEW.format(times=kept),
    )


def calls_in(trial: Trial, phase: str) -> list[str]:
    """Names of the collectives that rank 0 of the largest group called in a phase."""
    size = max(size for size, _ in trial.cases)
    lines: Sequence[Event] = [event for event in trial.ranks[0] if event.get("size") == size]
    return [str(e["call"]) for e in lines if e.get("event") == "call" and e["phase"] == phase]
