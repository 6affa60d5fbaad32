"""Which samples each rank of a trial went through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_lib.teach.trials.edits import Seen

PARTS = {"train": 384, "validation": 96, "test": 96}


def sampled(part: str) -> Callable[[Seen], str | None]:
    def judge(seen: Seen) -> str | None:
        found = seen.first("epoch", part)
        if found is None:
            return _not_read(seen, part)
        orders = [list(event["order"]) for event in found]
        return not_dealt(seen, part, orders) or unshuffled(part, orders)

    return judge


def _not_read(seen: Seen, part: str) -> str | None:
    others = [event["part"] for events in seen.of("epoch") for event in events]
    if not others or (not seen.ended and part != "train"):
        return None
    return (
        f"no loader goes through data[{part!r}]. What was read: {', '.join(dict.fromkeys(others))}."
    )


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
