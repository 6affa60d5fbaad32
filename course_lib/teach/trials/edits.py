"""Find missing or wrong edits in a program that is changed from one device to many.

Each edit is judged by what the ranks did (`code/trials/program/watched.py`), not by the program's
text. A judge returns the mistake and its effect, "" if there is none, and None if the program did
not get that far.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from course_lib.teach.answers import close
from course_lib.teach.trials import losses, samples, saving
from course_lib.teach.trials.verdict import Event, Seen, called, ranks_of
from course_lib.words import N_, _

# Samples per step and learning rate of the program for one device.
BATCH, RATE = 32, 2e-3
SAME, NEAR = 1e-9, 0.02
NO_GROUP = r"[Dd]efault process group|init_process_group"
ORDINAL, EXCLUSIVE = "invalid device ordinal", "mutually exclusive"


@dataclass(frozen=True)
class Edit:
    does: str
    judge: Callable[[Seen], str | None]
    # Pattern of errors that occur if this edit is missing.
    causes: str = "(?!)"


def group(seen: Seen) -> str | None:
    found = seen.first("group")
    began = any(seen.of("epoch"))
    if found is None and not began and seen.error and not re.search(NO_GROUP, seen.error):
        return None
    if found is None:
        return _("init_process_group was not called on all ranks, so each process is alone.")
    if {event["world"] for event in found} != {seen.size}:
        return _(
            "the group has {found} ranks, and {size} processes run.",
            found=found[0]["world"],
            size=seen.size,
        )
    if re.search(NO_GROUP, seen.error):
        return _(
            "the group is used before init_process_group or after destroy_process_group. {error}",
            error=seen.error.splitlines()[0],
        )
    return ""


def device(seen: Seen) -> str | None:
    if ORDINAL in seen.error:
        return _(
            '{error}. Devices are counted on each node: os.environ["LOCAL_RANK"].',
            error=seen.error.splitlines()[0],
        )
    found, places = seen.first("device"), seen.first("place")
    if found is None or places is None:
        return None
    for number, (asked, place) in enumerate(zip(found, places, strict=True)):
        if int(asked["number"]) != int(place["local_rank"]):
            return _(
                "rank {number} computes on device {asked} of {node}, but its local rank is "
                "{local}. So two ranks share a device, and a different device is idle.",
                number=number, asked=asked["number"], node=place["node"], local=place["local_rank"],
            )  # fmt: skip
    return ""


def wrapped(seen: Seen) -> str | None:
    found = seen.first("epoch", "train")
    if found is None:
        return None
    weights = [event["weights"] for event in found]
    if None in weights:
        return _("no optimizer took a step while the training samples were read.")
    return _not_wrapped(seen, found, weights) or _not_averaged(seen)


def _not_wrapped(seen: Seen, found: Sequence[Event], weights: Sequence[float]) -> str:
    apart = max(weights) - min(weights) > SAME * max(weights)
    if any(seen.of("wrapped")):
        if not all(event["wrapped"] for event in found):
            return _(
                "you call the model inside DistributedDataParallel. Call the wrapped model, "
                "because only this call averages the gradients."
            )
        return "" if not apart else _("the model is wrapped, but the ranks hold different weights.")
    sent = [e for calls in seen.of("call") for e in calls if e.get("numbers", 0) > 1]
    if apart or not sent:
        return _(
            "the model is not in DistributedDataParallel. No gradient is exchanged, so each rank "
            "trains its own model."
        )
    return ""


def _not_averaged(seen: Seen) -> str:
    """Judge whether the first step averaged the gradients. Unrecorded gradients pass."""
    found = seen.first("gradients")
    if found is None or not all(event["own"] for event in found):
        return ""
    mean = [fmean(values) for values in zip(*(event["own"] for event in found), strict=True)]
    for rank, event in enumerate(found):
        factor = _factor(event["used"], mean)
        if any(abs(factor * times - 1) < NEAR for times in (seen.size, 1 / seen.size)):
            return _(
                "rank {rank}'s gradients are {factor:.2g} times the mean over {size} ranks. "
                "DistributedDataParallel takes the mean already: do not sum or divide again.",
                rank=rank, factor=factor, size=seen.size,
            )  # fmt: skip
    return ""


def _factor(used: Sequence[float], mean: Sequence[float]) -> float:
    """Return the factor between used and mean gradients. Clipping may produce any factor."""
    square = sum(value * value for value in mean)
    return sum(a * b for a, b in zip(used, mean, strict=True)) / square if square else 1.0


def loaders(seen: Seen) -> str | None:
    """Judge batch size and learning rate. The batch sizes of the other loaders change no mean."""
    if EXCLUSIVE in seen.error:
        return _("A loader takes a sampler or shuffle=True, not both. The sampler shuffles.")
    found = seen.first("loader", "train")
    read = seen.first("epoch", "train")
    if found is None or read is None:
        return None
    steps = len(read[0]["losses"])
    batch = found[0]["batch"] or round(len(read[0]["order"]) / max(steps, 1))
    if batch * seen.size == BATCH:
        return _other_rate(seen)
    return _(
        "each rank takes {batch} samples, so a step sees {all}. The program for one device took "
        "{wanted}: divide this batch by the world size.",
        batch=batch, all=batch * seen.size, wanted=BATCH,
    )  # fmt: skip


def _other_rate(seen: Seen) -> str:
    events = [event for epochs in seen.of("epoch", "train") for event in epochs]
    rates = [event.get("rate") for event in events]  # recorded trials may lack the rate
    other = next((rate for rate in rates if rate and not close(rate, RATE, NEAR)), None)
    if other is None:
        return ""
    return _(
        "the learning rate was {rate:g} and is now {other:g}. The global batch has not changed, so "
        "the rate must stay the same too.",
        other=other, rate=RATE,
    )  # fmt: skip


def epochs(seen: Seen) -> str | None:
    found = seen.of("epoch", "train")
    if min(map(len, found)) < 2:
        return None
    same = [rank for rank, (one, two, *_unused) in enumerate(found) if one["order"] == two["order"]]
    if same:
        return _(
            "rank {same} got its {found} samples in epoch 2 in the order of epoch 1. Call "
            "set_epoch(epoch) of the sampler at the beginning of each epoch.",
            same=same[0],
            found=len(found[0][0]["order"]),
        )
    return ""


def waits_alone(seen: Seen) -> str:
    """Report a collective that only some ranks call. (Gloo may then also end the process.)"""
    calls = seen.of("call")
    counts = [len(made) for made in calls]
    other_error = seen.error and not re.search("gloo|preamble", seen.error)
    if seen.ended or other_error or max(counts) == min(counts):
        return ""
    ahead = [rank for rank, count in enumerate(counts) if count == max(counts)]
    return _(
        "{ranks} called {call} as call {most}, but other ranks made only {least} calls. All ranks "
        "must call each collective. Look below `if rank == 0:`, and at decisions that use a rank's "
        "own losses.",
        ranks=ranks_of(ahead), call=called(calls[ahead[0]][-1]), most=max(counts),
        least=min(counts),
    )  # fmt: skip


LOADS = 12
# Error of a sampler over 384 samples in a loader over 96.
SHORTER = r"out of (?:bounds|range).*size 96"
EDITS: dict[int, Edit] = {
    1: Edit(N_("all processes join one group"), group, NO_GROUP),
    2: Edit(N_("each rank uses the device of its local rank"), device, ORDINAL),
    3: Edit(N_("DistributedDataParallel averages the gradients"), wrapped, "attribute 'module'"),
    4: Edit(N_("each rank trains on its own samples"), samples.judge("train")),
    5: Edit(N_("each rank validates on its own samples"), samples.judge("validation"), SHORTER),
    6: Edit(N_("each rank tests on its own samples"), samples.judge("test")),
    7: Edit(N_("the batch is divided over the ranks"), loaders, EXCLUSIVE),
    8: Edit(N_("each epoch has a different order"), epochs),
    9: Edit(N_("the train loss is the mean over all ranks"), losses.judge_train),
    10: Edit(N_("validation and test losses are means over all ranks"), losses.judge_test),
    11: Edit(N_("one rank prints"), losses.judge_printing),
    LOADS: Edit(N_("one rank saves, and the others wait for it"), saving.judge, saving.KEYS),
}
# Edits for which the first epoch on fewer ranks reveals a fixed number of ranks.
ON_FEWER = (1, 4, 5, 7, 9, 10)
