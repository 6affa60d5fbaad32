"""A training program that is to become one of many devices: which edit is missing, or wrong.

Each edit is judged by what the ranks did (`code/trials/watched.py`), not by the program's text. A
judge answers with what is wrong and what came of it, "" where nothing is, and None where the
program did not come so far.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.teach.trials import averaged, one_rank, printed, saving
from course_lib.teach.trials.dealt import sampled
from course_lib.teach.trials.failures import GONE
from course_lib.teach.trials.verdict import Event, Trial

BATCH = 32
"""Samples of a step in the program for one device."""
SAME = 1e-9
NO_GROUP = r"[Dd]efault process group|init_process_group"
ORDINAL, EXCLUSIVE = "invalid device ordinal", "mutually exclusive"


@dataclass(frozen=True)
class Seen:
    """What a program did on so many ranks."""

    trial: Trial
    size: int

    @property
    def lines(self) -> list[list[Event]]:
        """All events, of each rank."""
        ranks = self.trial.ranks[: self.size]
        return [[e for e in lines if e.get("size") == self.size] for lines in ranks]

    def of(self, kind: str, part: str = "") -> list[list[Event]]:
        """Events of a kind, for each rank."""
        return [
            [e for e in lines if e["event"] == kind and part in ("", e.get("part"))]
            for lines in self.lines
        ]

    def first(self, kind: str, part: str = "") -> list[Event] | None:
        """Of each rank; None where a rank has none."""
        found = self.of(kind, part)
        return [events[0] for events in found] if all(found) else None

    @property
    def error(self) -> str:
        """Of the program itself; a rank that lost another one tells of that too.

        (Some have a kind and no text, as EOFError where an empty file is read.)
        """
        errors = [event for events in self.of("error") for event in events]
        texts = [f"{event['kind']}: {event['text']}" for event in errors]
        return "\n".join(text for text in texts if not GONE.search(text))

    @property
    def ended(self) -> bool:
        return all(self.of("followed"))


@dataclass(frozen=True)
class Edit:
    does: str
    judge: Callable[[Seen], str | None]
    causes: str = "(?!)"
    """Errors that its absence leads to."""


def group(seen: Seen) -> str | None:
    found = seen.first("group")
    began = any(seen.of("epoch"))
    if found is None and not began and seen.error and not re.search(NO_GROUP, seen.error):
        return None
    if found is None:
        return (
            "init_process_group was not called on all ranks. Each process believes that it is "
            "alone: nobody can say who is who, and nothing can be sent."
        )
    if {event["world"] for event in found} != {seen.size}:
        return f"the group has {found[0]['world']} ranks, and {seen.size} processes run."
    if re.search(NO_GROUP, seen.error):
        return (
            "the group is used before it is there, or after destroy_process_group: that is the "
            f"last of all lines. {seen.error.splitlines()[0]}"
        )
    return ""


def device(seen: Seen) -> str | None:
    if ORDINAL in seen.error:
        return (
            f"{seen.error.splitlines()[0]}. A rank counts through all nodes, and devices are "
            'counted on each anew: os.environ["LOCAL_RANK"].'
        )
    found, places = seen.first("device"), seen.first("place")
    if found is None or places is None:
        return None
    for number, (asked, place) in enumerate(zip(found, places, strict=True)):
        if int(asked["number"]) != int(place["local_rank"]):
            return (
                f"rank {number} computes on device {asked['number']} of {place['node']}, where its "
                f"local rank is {place['local_rank']}: ranks share a device, its memory and its "
                "time, and another one that you pay for does nothing."
            )
    return ""


def wrapped(seen: Seen) -> str | None:
    found = seen.first("epoch", "train")
    if found is None:
        return None
    weights = [event["weights"] for event in found]
    if None in weights:
        return "no optimizer made a step while the training samples were read."
    return _not_wrapped(seen, found, weights) or averaged.judge(seen)


def _not_wrapped(seen: Seen, found: Sequence[Event], weights: Sequence[float]) -> str:
    apart = max(weights) - min(weights) > SAME * max(weights)
    if any(seen.of("wrapped")):
        if not all(event["wrapped"] for event in found):
            return (
                "the model is in DistributedDataParallel, but what is trained is the model within: "
                "only a call of the wrapped one averages the gradients."
            )
        return "" if not apart else "the model is wrapped, and yet the ranks hold other weights."
    sent = [e for calls in seen.of("call") for e in calls if e.get("numbers", 0) > 1]
    if apart or not sent:
        told = ", ".join(f"{value:.6f}" for value in weights)
        return (
            "the model is not in DistributedDataParallel. No gradient is exchanged, so each rank "
            f"trains a model of its own. (Size of all weights after epoch 1, by rank: {told}.)"
        )
    return ""


def loaders(seen: Seen) -> str | None:
    """Of the batch of a step. (How the others are cut changes no mean.)"""
    if EXCLUSIVE in seen.error:
        return "A loader takes a sampler or shuffle=True: with a sampler, that one shuffles."
    found = seen.first("loader", "train")
    read = seen.first("epoch", "train")
    if found is None or read is None:
        return None
    steps = len(read[0]["losses"])
    batch = found[0]["batch"] or round(len(read[0]["order"]) / max(steps, 1))
    if batch * seen.size == BATCH:
        return ""
    if batch == BATCH:
        return (
            f"each rank takes {BATCH} samples, so a step sees {BATCH * seen.size}: with the same "
            "rate and fewer steps the model learns less from as many samples. Divide the batch by "
            "the world size."
        )
    return f"each rank takes {batch}: on {seen.size} ranks {batch * seen.size} a step, not {BATCH}."


def epochs(seen: Seen) -> str | None:
    found = seen.of("epoch", "train")
    if min(map(len, found)) < 2:
        return None
    same = [rank for rank, (one, two, *_) in enumerate(found) if one["order"] == two["order"]]
    if same:
        return (
            f"rank {same[0]} got its {len(found[0][0]['order'])} samples in epoch 2 in the order "
            "of epoch 1. The sampler shuffles by its seed and the number of the epoch, which "
            "set_epoch(epoch) has to tell it: every epoch makes the same batches."
        )
    return ""


LOADS = 12
SHORTER = r"out of (?:bounds|range).*size 96"
"""A sampler of the 384 samples on a loader of the 96."""
EDITS: dict[int, Edit] = {
    1: Edit("the processes meet in a group", group, NO_GROUP),
    2: Edit("each takes the device of its local rank", device, ORDINAL),
    3: Edit("DistributedDataParallel averages the gradients", wrapped, "attribute 'module'"),
    4: Edit("each rank trains on its own samples", sampled("train")),
    5: Edit("each validates on its own", sampled("validation"), SHORTER),
    6: Edit("each tests on its own", sampled("test")),
    7: Edit("the batch is divided over the ranks", loaders, EXCLUSIVE),
    8: Edit("each epoch has another order", epochs),
    9: Edit("the train loss is the mean over all ranks", printed.judge_train),
    10: Edit("validation and test losses are", printed.judge_test),
    11: Edit("one rank prints", one_rank.prints),
    LOADS: Edit("one rank saves, and the others wait for it", saving.judge, saving.KEYS),
}
ON_FEWER = (1, 4, 5, 7, 9, 10)
"""Edits that tell, in the first epoch on fewer ranks, of a number of ranks in the program."""
