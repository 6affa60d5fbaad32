"""Judge which samples each rank of a program reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from course_lib.teach.trials.verdict import Seen
from course_lib.words import _

PARTS = {"train": 384, "validation": 96, "test": 96}


def judge(part: str) -> Callable[[Seen], str | None]:
    def samples(seen: Seen) -> str | None:
        found = seen.first("epoch", part)
        if found is None:
            return _not_read(seen, part)
        return _not_shared(seen, part, [list(event["order"]) for event in found])

    return samples


def _not_read(seen: Seen, part: str) -> str | None:
    others = [event["part"] for events in seen.of("epoch") for event in events]
    if not others or (not seen.ended and part != "train"):
        return None
    return _(
        "no loader goes through data['{part}']. What was read: {others}.",
        part=part, others=", ".join(dict.fromkeys(others)),
    )  # fmt: skip


def _not_shared(seen: Seen, part: str, orders: Sequence[list[int]]) -> str:
    """Check that the ranks together read each sample once. Padding may repeat a few."""
    sets = [set(order) for order in orders]
    every = set.union(*sets)
    if len(every) == max(map(len, sets)):
        return _(
            "every rank goes through the same {count} samples. Is there a DistributedSampler for "
            "them, and does the loader have it?",
            count=len(sets[0]),
        )
    for one, other in combinations(range(len(sets)), 2):
        if (both := len(sets[one] & sets[other])) >= seen.size:
            return _(
                "ranks {one} and {other} saw the same samples, {both} of them. Does the sampler "
                "know the rank (not the local rank) and the world size?",
                one=one, other=other, both=both,
            )  # fmt: skip
    if missed := PARTS[part] - len(every):
        return _(
            "{missed} of {count} samples were seen by no rank.", missed=missed, count=PARTS[part]
        )
    if part == "train" and all(order == sorted(order) for order in orders):
        return _("the ranks get the samples in the order of the data, not shuffled.")
    return ""
