"""A trial of data parallelism: which mistake made weights or gradients wrong."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.teach.trials import verdict
from course_lib.teach.trials.ends import called, never_waited_for
from course_lib.teach.trials.exchange.overlap import FROM_THREADS
from course_lib.teach.trials.sharding.parts_of_ranks import rounded
from course_lib.teach.trials.verdict import Event, Trial

NEAR = 1e-3
SHOWN = 4
TO_ONE_RANK = ("reduce", "gather", "send", "isend")


def why_ddp(trial: Trial, rank: int, event: Event) -> str:
    slip, size = event["slip"], event["size"]
    if told := never_waited_for(trial, size, event["case"]):
        return told
    if slip == "forward":
        return f"own(x) gave no tensor but {event['has']}: does forward end with `return …`?"
    if slip == "moved":
        return (
            f"{_names(event)} changed between forward and the end of finish(). Weights are the "
            "optimizer's to change, in the trial as in training; finish() changes gradients."
        )
    if slip == "thawed":
        return "the frozen parameter got requires_grad=True. It is to stay frozen."
    calls = trial.at(size, event["case"], "call")
    if any(call.get("thread") for of_rank in calls for call in of_rank):
        return FROM_THREADS
    return _why_weights(event, rank, calls) if slip == "weights" else (
        _why_gradients(trial, event, rank, calls)
    )  # fmt: skip


def _names(event: Event) -> str:
    return ", ".join(event["wrong"][:SHOWN]) + (" …" if len(event["wrong"]) > SHOWN else "")


def _why_weights(event: Event, rank: int, calls: Sequence[Sequence[Event]]) -> str:
    names = _names(event)
    if event["case"] != "weights after wrapping":
        return f"{names} differ from the serial model's. Were they changed beside the optimizer?"
    if len(event["own"]) == event["of"]:
        return _why_own_weights(rank, calls)
    if set(event["own"]) <= set(event["buffers"]) and event["own"]:
        return (
            f"{names} still this rank's own, others are rank 0's. model.parameters() does not hold "
            "what a layer keeps beside them (buffers); model.state_dict() holds all."
        )
    if event["own"]:
        return (
            f"{names} still this rank's own, others are rank 0's: the broadcast leaves them out. "
            "model.state_dict() holds all."
        )
    return rounded(event) or _whose_weights(event, names)


def _whose_weights(event: Event, names: str) -> str:
    if event["mean"]:
        return f"{names} are the mean over the ranks. Everybody is to take what rank 0 has."
    if event["whose"]:
        return f"{names} are those of rank {event['whose'][0]}. Everybody is to take rank 0's."
    return f"{names} are neither rank 0's nor this rank's own."


def _why_own_weights(rank: int, calls: Sequence[Sequence[Event]]) -> str:
    if made := [call for call in calls[rank] if call.get("numbers")]:
        return (
            f"the weights are still this rank's own, though {called(made[0])} was called: what "
            "came is in other tensors. Those of model.state_dict() are the model's, copies are not."
        )
    if any(calls):
        return (
            "the weights are still this rank's own: others send, and this rank receives nothing. A "
            "broadcast is called by all ranks."
        )
    return (
        "the weights are still this rank's own: the broadcast is missing. Ranks that begin "
        "with different weights train different models, however well gradients are averaged."
    )


def _why_gradients(
    trial: Trial, event: Event, rank: int, calls: Sequence[Sequence[Event]]
) -> str:  # fmt: skip
    if event["none"]:
        return _why_none(event)
    if told := rounded(event):
        return told
    if event["added up"]:
        return (
            "this is the mean of this step and of the step before: something was kept, and not set "
            "to zero."
        )
    told = _of_gradients(event, rank, calls)
    if right := verdict.right_on(trial, event):
        some = "rank 0 has" if right == [0] else f"ranks {verdict.listed(set(right))} have"
        if any(call["call"] in TO_ONE_RANK for made in calls for call in made):
            told = "what is reduced or gathered to one rank is on that rank alone; all need it."
        return f"only {some} the right gradients. Here: {told}"
    if len(event["wrong"]) < event["of"]:
        return f"only {', '.join(event['wrong'])} of {event['of']} parameters: {told}"
    return told


def _why_none(event: Event) -> str:
    if not event["came"]:
        return (
            "all gradients are None: backward never came to the parameters of the model that was "
            "given. Is it a copy that computes?"
        )
    return (
        f"the gradients of {', '.join(event['none'][:SHOWN])} were there after backward, and are "
        "None after finish()."
    )


def _of_gradients(event: Event, rank: int, calls: Sequence[Sequence[Event]]) -> str:
    size, called_here = event["size"], calls[rank]
    found = [shares for shares in event["shares"].values() if shares]
    if not found:
        return _why_no_sum(called_here)
    shares = found[0]
    alone = _of_one_rank(shares)
    if size > 1 and alone is not None:
        return _why_one_rank(event, *alone, rank, called_here)
    if max(shares) - min(shares) < NEAR:
        return _why_times(event, shares[0], called_here)
    table = ", ".join(f"{share + 0:g} × rank {r}" for r, share in enumerate(shares))
    return f"they hold {table}; the mean holds {1 / size:g} of each."


def _why_no_sum(called_here: Sequence[Event]) -> str:
    in_forward = [c for c in called_here if c["phase"] == "forward" and c.get("numbers")]
    if in_forward:
        return (
            f"in forward {called(in_forward[0])} was called, and the gradients are no weighted sum "
            "of the ranks' gradients. Each rank computes from its own samples alone."
        )
    return "the gradients are no weighted sum of the ranks' gradients: were some mixed up?"


def _of_one_rank(shares: Sequence[float]) -> tuple[int, float] | None:
    """The one rank whose gradients these are, and how many times."""
    there = [(r, share) for r, share in enumerate(shares) if abs(share) > NEAR]
    return there[0] if len(there) == 1 else None


def _why_one_rank(
    event: Event, whose: int, times: float, rank: int, called_here: Sequence[Event]
) -> str:
    size, numbers = event["size"], sum(event["parameters"].values())
    made = [c for c in called_here if c.get("numbers") and c["phase"] in ("backward", "finish")]
    if whose != rank:
        return f"the gradients are {times:g} × rank {whose}'s alone; the mean holds all ranks'."
    if {call["call"] for call in made} == {"broadcast"}:
        return (
            "the gradients are still this rank's own. broadcast hands on the numbers of one rank; "
            "all_reduce sums those of all."
        )
    divided = f", divided by {size}" if abs(times - 1 / size) < NEAR else ""
    if not made:
        return f"the gradients are still this rank's own{divided}: nothing was exchanged."
    summed = sum(call["numbers"] for call in made if call["call"] == "all_reduce")
    if 0 < summed < numbers and len(event["wrong"]) < event["of"]:
        return (
            f"the gradients are still this rank's own{divided}: {summed} numbers were summed, and "
            f"there are {numbers} gradients."
        )
    if all(call.get("weights") for call in made):
        return (
            f"the gradients are still this rank's own{divided}: {called(made[0])} was called, "
            "and that is a weight. It is the gradients that are averaged."
        )
    return (
        f"the gradients are still this rank's own{divided}, though {called(made[0])} was called. "
        "The sum is in the tensor that was sent. That is not parameter.grad: copy it back."
    )


def _why_times(event: Event, share: float, called_here: Sequence[Event]) -> str:
    size = event["size"]
    if abs(share) < NEAR:
        return "the gradients are zero after finish()."
    if abs(share - 1) < NEAR and size > 1:
        return _why_sum(event, size, called_here)
    if abs(share - 1 / size**2) < NEAR:
        return f"they were divided by {size} twice: once is the mean."
    return f"they are {share * size:g} times the mean."


def _why_sum(event: Event, size: int, called_here: Sequence[Event]) -> str:
    sent = sum(call.get("numbers", 0) for call in called_here if call["call"] == "all_reduce")
    if sent >= 2 * sum(event["parameters"].values()):
        return (
            "the gradients are summed twice: two all_reduce calls for each. The second one sums "
            f"{size} equal numbers."
        )
    return (
        "this is the sum over the ranks, not the mean: it is not divided by the number of ranks. "
        "Each loss is a mean over its rank's samples, and the whole is to be a mean over all."
    )
