"""Whether the gradients that the optimizer got are the mean over the ranks' own."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from course_lib.teach.trials.verdict import ranks

if TYPE_CHECKING:
    from course_lib.teach.trials.edits import Seen

SAME = 0.02
"""Of a factor; clipped gradients may have any other one."""


def judge(seen: Seen) -> str:
    """Of the first step. (What nobody saw, a loss of another kind, is not judged.)"""
    found = seen.first("gradients")
    if found is None or not all(event["own"] for event in found):
        return ""
    if not all(event["held"] for event in found):
        return (
            "the weights that the optimizer changes are not those of the model that is called. "
            "Is it made from the parameters of another one?"
        )
    mean = [fmean(values) for values in zip(*(event["own"] for event in found), strict=True)]
    for rank, event in enumerate(found):
        factor = _factor(event["used"], mean)
        if abs(factor * seen.size - 1) < SAME:
            return (
                f"rank {rank}'s gradients are 1/{seen.size} of the mean over {ranks(seen.size)}: "
                "DistributedDataParallel divides already. A loss that is averaged over the ranks, "
                "or divided, before backward is divided again; only what is printed is to be."
            )
        if abs(factor / seen.size - 1) < SAME:
            return (
                f"rank {rank}'s gradients are {seen.size} times the mean over {ranks(seen.size)}: "
                "the sum. The rate that is right for one device is right for the mean."
            )
    return ""


def _factor(used: Sequence[float], mean: Sequence[float]) -> float:
    square = sum(value * value for value in mean)
    return sum(a * b for a, b in zip(used, mean, strict=True)) / square if square else 1.0
