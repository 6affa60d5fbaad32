"""Judge printed losses: which rank printed them, and are they means over all ranks' samples?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean

from course_lib.teach.trials.verdict import Event, Seen, ranks_of
from course_lib.words import _

LOSS = r"(?<![a-z])%s[ _-]?loss\D{0,10}?(-?\d+(?:\.\d+)?(?:e-?\d+)?)"
EPOCH = r"epoch\D{0,3}(\d+)"
PARTS = ("train", "validation", "test")
# Relative tolerance, because the losses are summed in float32.
NEAR = 2e-4


def printed(lines: Sequence[Event], part: str) -> list[list[str]]:
    """Return the printed losses by epoch. A line that names no epoch is an epoch of its own."""
    found: dict[str, list[str]] = {}
    for number, event in enumerate(lines):
        if match := re.search(LOSS % part, event["text"], re.IGNORECASE):
            named = re.search(EPOCH, event["text"], re.IGNORECASE)
            found.setdefault(named[1] if named else f"{number}.", []).append(match[1])
    return list(found.values())


def judge_train(seen: Seen) -> str | None:
    return _judged(seen, "train")


def judge_test(seen: Seen) -> str | None:
    said = [_judged(seen, part) for part in PARTS[1:]]
    return said[0] or said[1]


def _judged(seen: Seen, part: str) -> str | None:
    """Judge the losses of the first rank that printed any, whichever rank it is."""
    lines = seen.of("line")
    who = (r for r, some in enumerate(lines) if printed(some, PARTS[0]) or printed(some, PARTS[1]))
    rank = next(who, 0)
    told = printed(lines[rank], part)
    epochs = seen.of("epoch", part)
    for number, texts in enumerate(told):
        if any(len(events) <= number or not events[number]["losses"] for events in epochs):
            return None
        means = [fmean(events[number]["losses"]) for events in epochs]
        for text in texts:
            if said := _why(text, means, rank):
                return _(
                    "the {part} loss of epoch {epoch} was printed as {text}, and {said}",
                    part=part, epoch=number + 1, text=text, said=said,
                )  # fmt: skip
    return "" if told else None


def _why(text: str, means: Sequence[float], rank: int) -> str:
    if _near(text, fmean(means)):
        return ""
    return _(
        "the mean over the samples of all ranks is {mean:.4f}. Over rank {rank}'s own samples it "
        "is {own:.4f}.", mean=fmean(means), rank=rank, own=means[rank],
    )  # fmt: skip


def _near(text: str, wanted: float) -> bool:
    """Return whether the printed digits match; at least two decimals are compared."""
    digits = max(2, len(text.partition(".")[2]))
    return abs(float(text) - wanted) <= NEAR * max(1.0, abs(wanted)) + 0.5 * 10.0**-digits


def judge_printing(seen: Seen) -> str | None:
    lines = seen.of("line")
    for part in PARTS:
        who = [rank for rank, some in enumerate(lines) if printed(some, part)]
        if who and who != [0]:
            return _(
                "the {part} loss was printed {count} times, by {ranks}; only rank 0 should print "
                "it: `if rank == 0:`. (LOCAL_RANK is 0 on each node.)",
                part=part, count=len(who), ranks=ranks_of(who),
            )  # fmt: skip
        if not who and part == "train":
            said = _("No rank printed a line `epoch 1: train loss …`.")
            return said if seen.ended else None
    return ""
