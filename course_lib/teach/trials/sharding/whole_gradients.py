"""Whether whole gradients came to a rank that needed its own part of the sum alone.

The values are proven by then, so a collective of any kind is welcome which leaves a rank no more
than its part. Calls that are not known (those of torch.distributed._functional_collectives) are
not held against anybody.
"""

from __future__ import annotations

from collections import Counter

from course_lib.teach.trials.sharding.parts_of_ranks import GATHERS
from course_lib.teach.trials.verdict import Event, Trial

MUCH = 0.5
"""Of all numbers; a norm, or a loss to print, is one number."""
SPARE = 1.5


def left_whole(trial: Trial, phase: str) -> str:
    """In this phase of any step; "" where none were."""
    size = max(event["size"] for _, event in trial.all("result"))
    first = trial.cases[0][1].replace(",", ":").split(":")[0]  # which every number of ranks divides
    for at, case in trial.cases:
        if at != size or not case.startswith(first):
            continue
        results = trial.at(size, case, "result")
        numbers = max((one.get("numbers", 0) for lines in results for one in lines), default=0)
        for calls in trial.at(size, case, "call"):
            made = [call for call in calls if call["phase"] == phase]
            if told := _why(made, numbers, size) if numbers and "step" in case else "":
                return told
    return ""


def _why(made: list[Event], numbers: int, size: int) -> str:
    """Backward of FSDP also gathers the parameters once more; ZeRO-1 gathers after the step."""
    sums: Counter[str] = Counter()
    for call in made:
        times = size if call["call"] == "all_gather" else 1  # its list has one for each rank
        sums[call["call"]] += times * call.get("numbers", 0)
    brought = sum(sums[name] for name in GATHERS)
    needed = numbers if made and made[0]["phase"] == "backward" else 0
    if (reduced := sums["all_reduce"]) >= MUCH * numbers:
        return (
            f"An all_reduce of {reduced} numbers leaves whole gradients on every rank, where a "
            "shard would do, and sends twice as much as reduce_scatter."
        )
    if sums["reduce"] > SPARE * numbers:
        return (
            f"reduce was called for {sums['reduce']} numbers, and there are {numbers}: several "
            "ranks get the sum of what belongs to others. Each needs its own part."
        )
    is_handed_on = brought >= needed + MUCH * numbers and sums["reduce"] >= MUCH * numbers
    if is_handed_on or brought >= (size if needed else MUCH) * numbers:
        names = ", ".join(sorted(name for name in GATHERS if sums[name]))
        return (
            f"By {names} every rank gets {brought - needed} numbers of gradients, where its own "
            f"part has {numbers // size}. reduce_scatter adds up and deals out at once."
        )
    received = sums["recv"] + sums["irecv"]
    if received >= (SPARE * numbers + needed) * (size - 1) / size:
        return (
            f"Each rank receives {received - needed * (size - 1) // size} numbers of gradients. "
            "After the first round of a ring it has its part of the sum, and can stop."
        )
    return ""
