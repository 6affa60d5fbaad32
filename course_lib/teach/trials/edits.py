"""A training program that is to become one of many devices: which edit is missing, or wrong.

Each edit is judged by what the ranks did (`code/trials/watched.py`), not by the program's text. A
judge answers with what is wrong and what came of it, "" where nothing is, and None where the
program did not come so far.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from course_lib.teach.trials import one_rank, printed
from course_lib.teach.trials.failures import GONE
from course_lib.teach.trials.verdict import Event, Trial

BATCH = 32
"""Samples of a step in the program for one device."""
PARTS = {"train": 384, "validation": 96, "test": 96}
SAME = 1e-9
NO_GROUP = r"[Dd]efault process group|init_process_group"
ORDINAL, EXCLUSIVE = "invalid device ordinal", "mutually exclusive"
Judge = Callable[["Seen"], "str | None"]


@dataclass(frozen=True)
class Seen:
    """What the ranks of a trial did."""

    trial: Trial

    @property
    def size(self) -> int:
        return len(self.trial.ranks)

    def of(self, kind: str, part: str = "") -> list[list[Event]]:
        """Events of a kind, for each rank."""
        return [
            [e for e in lines if e["event"] == kind and part in ("", e.get("part"))]
            for lines in self.trial.ranks
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
        texts = [f"{event['kind']}: {event['text']}" for _, event in self.trial.all("error")]
        return "\n".join(text for text in texts if not GONE.search(text))

    @property
    def ended(self) -> bool:
        return len(self.trial.all("end")) == self.size


@dataclass(frozen=True)
class Edit:
    does: str
    judge: Judge
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
    apart = max(weights) - min(weights) > SAME * max(weights)
    if any(seen.of("wrapped")):
        if not all(event["wrapped"] for event in found):
            return (
                "the model is in DistributedDataParallel, but what is trained is the model within: "
                "only a call of the wrapped one averages the gradients."
            )
        return "" if not apart else "the model is wrapped, and yet the ranks hold other weights."
    sent = [e for _, e in seen.trial.all("call") if e.get("numbers", 0) > 1]
    if apart or not sent:
        told = ", ".join(f"{value:.6f}" for value in weights)
        return (
            "the model is not in DistributedDataParallel. No gradient is exchanged, so each rank "
            f"trains a model of its own. (Size of all weights after epoch 1, by rank: {told}.)"
        )
    return ""


def sampled(part: str) -> Judge:
    def judge(seen: Seen) -> str | None:
        found = seen.first("epoch", part)
        if found is None:
            return None
        orders = [list(event["order"]) for event in found]
        return not_dealt(seen, part, orders) or unshuffled(part, orders)

    return judge


def not_dealt(seen: Seen, part: str, orders: Sequence[list[int]]) -> str:
    """Together the ranks see each sample once. (Padding repeats fewer than there are ranks.)"""
    sets = [set(order) for order in orders]
    if len(set.union(*sets)) == max(map(len, sets)):
        unused = UNUSED if any(seen.of("sampler", part)) else ""
        again = " in the same order" if len(set(map(tuple, orders))) == 1 else ""
        return (
            f"every rank goes through the same {len(sets[0])} samples{again}.{unused} "
            f"{IN_VAIN[part].format(size=seen.size)}"
        )
    for one, other in combinations(range(len(sets)), 2):
        if len(sets[one] & sets[other]) >= seen.size:
            return (
                f"ranks {one} and {other} saw the same samples, {len(sets[one] & sets[other])} of "
                "them. Does the sampler know rank and world size? (It takes them from the process "
                "group; a local rank is the same on each node.)"
            )
    missed = PARTS[part] - len(set.union(*sets))
    if missed > 0:
        return f"{missed} of {PARTS[part]} samples were seen by no rank."
    return ""


UNUSED = " A DistributedSampler was made for them, but the loader has another."
IN_VAIN = {
    "train": "Where all ranks have equal samples, the mean of their gradients is the gradient of "
    "one: {size} devices do the work of one.",
    "validation": "The mean comes out right, but {size} devices each do the whole work.",
    "test": "The mean comes out right, but {size} devices each do the whole work.",
}


def unshuffled(part: str, orders: Sequence[list[int]]) -> str:
    if part == "train" and all(order == sorted(order) for order in orders):
        return (
            "the samples are dealt out in the order of the data, not shuffled. The program for one "
            "device shuffles; DistributedSampler does too, unless shuffle=False."
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
    LOADS: Edit("one rank saves, and the others wait for it", one_rank.saves, one_rank.KEYS),
}
