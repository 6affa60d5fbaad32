"""Losses that a program printed, beside the means over all samples of all ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from course_lib.teach.trials.verdict import Event

if TYPE_CHECKING:
    from course_lib.teach.trials.edits import Seen

LOSS = r"(?<![a-z])%s[ _-]?loss\D{0,10}?(-?\d+(?:\.\d+)?(?:e-?\d+)?)"
NEAR = 2e-4
"""Printed with four digits, and summed in float32."""


def losses(lines: Sequence[Event], part: str) -> list[float]:
    """What stands behind the name of the part, line by line."""
    found = (re.search(LOSS % part, event["text"], re.IGNORECASE) for event in lines)
    return [float(match[1]) for match in found if match]


def has_losses(lines: Sequence[Event]) -> bool:
    return bool(losses(lines, "train") or losses(lines, "validation"))


def judge_train(seen: Seen) -> str | None:
    return _judged(seen, "train")


def judge_test(seen: Seen) -> str | None:
    for part in ("validation", "test"):
        if said := _judged(seen, part):
            return said
    return "" if losses(seen.of("line")[_speaker(seen)], "test") else None


def _speaker(seen: Seen) -> int:
    """The first rank that printed losses; whether it is to is another question."""
    who = [rank for rank, lines in enumerate(seen.of("line")) if has_losses(lines)]
    return who[0] if who else 0


def _judged(seen: Seen, part: str) -> str | None:
    rank = _speaker(seen)
    told = losses(seen.of("line")[rank], part)
    epochs = seen.of("epoch", part)
    for number, value in enumerate(told):
        if any(len(events) <= number or not events[number]["losses"] for events in epochs):
            return None
        means = [fmean(events[number]["losses"]) for events in epochs]
        if said := _why(value, means, rank):
            when = f" of epoch {number + 1}" if part != "test" else ""
            return f"the {part} loss{when} was printed as {value:.4f}, and {said}"
    return "" if told else None


def _why(value: float, means: Sequence[float], rank: int) -> str:
    size, mean, own = len(means), fmean(means), means[rank]
    if _near(value, mean):
        return ""
    if _near(value, own):
        return (
            f"that is the mean over rank {rank}'s own samples; over all ranks it is {mean:.4f}. "
            f"{size - 1} of {size} samples have no say in it."
        )
    if _near(value, size * mean):
        return f"that is the sum over {size} ranks: all_reduce adds up. The mean is {mean:.4f}."
    if _near(value, own / size):
        return f"that is rank {rank}'s own mean divided by {size}, without the others'."
    if _near(value, mean / size):
        return f"that was divided by {size} once too often. The mean is {mean:.4f}."
    return f"the mean over all ranks' samples is {mean:.4f}."


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= NEAR * max(1.0, abs(other))
