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
EPOCH = r"epoch\D{0,3}(\d+)"
NEAR = 2e-4
"""Summed in float32."""


def losses(lines: Sequence[Event], part: str) -> list[float]:
    """What stands behind the name of the part, line by line."""
    return [float(text) for texts in by_epoch(lines, part) for text in texts]


def by_epoch(lines: Sequence[Event], part: str) -> list[list[str]]:
    """As printed. A rank may tell of an epoch twice; lines that name none are of one each."""
    found: dict[str, list[str]] = {}
    for number, event in enumerate(lines):
        if match := re.search(LOSS % part, event["text"], re.IGNORECASE):
            named = re.search(EPOCH, event["text"], re.IGNORECASE)
            found.setdefault(named[1] if named else f"{number}.", []).append(match[1])
    return list(found.values())


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
    told = by_epoch(seen.of("line")[rank], part)
    epochs = seen.of("epoch", part)
    for number, values in enumerate(told):
        if any(len(events) <= number or not events[number]["losses"] for events in epochs):
            return None
        means = [fmean(events[number]["losses"]) for events in epochs]
        for text in values:
            if said := _why(text, means, rank):
                when = f" of epoch {number + 1}" if part != "test" else ""
                return f"the {part} loss{when} was printed as {text}, and {said}"
    return "" if told else None


def _why(text: str, means: Sequence[float], rank: int) -> str:
    size, mean, own = len(means), fmean(means), means[rank]
    if _near(text, mean):
        return ""
    if _near(text, own):
        return (
            f"that is the mean over rank {rank}'s own samples; over all ranks it is {mean:.4f}. "
            f"{size - 1} of {size} samples have no say in it."
        )
    if _near(text, size * mean):
        return f"that is the sum over {size} ranks: all_reduce adds up. The mean is {mean:.4f}."
    if _near(text, own / size):
        return f"that is rank {rank}'s own mean divided by {size}, without the others'."
    if _near(text, mean / size):
        return f"that was divided by {size} once too often. The mean is {mean:.4f}."
    return f"the mean over all ranks' samples is {mean:.4f}."


def _near(text: str, wanted: float) -> bool:
    """But for the digits that were not printed; two at least are to be."""
    digits = max(2, len(text.partition(".")[2]))
    return abs(float(text) - wanted) <= NEAR * max(1.0, abs(wanted)) + 0.5 * 10.0**-digits
