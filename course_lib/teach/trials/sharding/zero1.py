"""What went wrong in a trial of ZeRO-1: whose gradients and shards led to the parameters."""

from __future__ import annotations

from course_lib.teach.trials import verdict
from course_lib.teach.trials.ends import never_waited_for
from course_lib.teach.trials.one_rank import ranks_of
from course_lib.teach.trials.sharding.parts_of_ranks import (
    NEAR,
    are_the_last,
    rounded,
    why_tail,
    why_times,
)
from course_lib.teach.trials.verdict import Event, Trial

KINDS = ("", "share of ")
"""A rank's gradients alone, as they are or divided by the number of ranks."""


def why_zero1(trial: Trial, rank: int, event: Event) -> str:
    told = (
        never_waited_for(trial, event["size"], event["case"])
        or _everywhere(trial, event)
        or rounded(event)
        or _by_one_rank(trial, rank, event)
        or _in_places(trial, event)
    )
    if told:
        return told
    shares = event.get("shares")
    if shares and max(shares) - min(shares) < NEAR:
        return f"the gradients that made the step: {why_times(shares, event['size'])}"
    called = {c["call"] for made in trial.at(event["size"], event["case"], "call") for c in made}
    if not any("gather" in name or name == "broadcast" for name in called):
        return "they are no result of the step, and no all-gather was called."
    if event["size"] == 1:
        return (
            "the parameters are none of what the mean or the sum of the gradients leads to. On one "
            "rank nothing is exchanged: look at the row, the step, and the way back."
        )
    return (
        "the parameters are none of what the mean, the sum or a rank's own gradients lead to. Does "
        "rank r keep, update and hand on piece r of the row?"
    )


def _everywhere(trial: Trial, event: Event) -> str:
    """Where all numbers went the same wrong way."""
    if verdict.right_on(trial, event) == [0]:
        return "only rank 0 has the new parameters. All ranks need them for the next step."
    alike = [name for name, places in event["ways"].items() if len(places) == event["numbers"]]
    told = next((told for name, told in EVERYWHERE.items() if name in alike), "")
    if not told and "old" in alike:
        return _why_old(event)
    return told.format(size=event["size"])


def _why_old(event: Event) -> str:
    if not event["steps"]:
        return "the parameters have not changed: the optimizer's step() was never called."
    if not event["moved"]:
        return (
            "the parameters have not changed: step() was called, but no tensor of the optimizer "
            "had a gradient other than 0. Is self.shard, whose .grad is set, the very tensor that "
            "make_optimizer was given?"
        )
    return (
        "the parameters have not changed. The optimizer has moved its shard, and that alone: after "
        "the step the shards are gathered, and the row is copied back into the parameters."
    )


def _by_one_rank(trial: Trial, rank: int, event: Event) -> str:
    """All ranks made the step with the gradients of one: their own, or those of another."""
    size, numbers = event["size"], event["numbers"]
    used = [
        {r for r in range(size) for kind in KINDS
         if results and len(results[-1].get("ways", {}).get(f"{kind}rank {r}", [])) == numbers}
        for results in trial.at(size, event["case"], "result")
    ]  # fmt: skip
    if size == 1 or not used[rank]:
        return ""
    alike = set.intersection(*used)
    if alike:
        return (
            f"all ranks made the step with the gradients of rank {min(alike)}. A broadcast hands "
            "on what one rank has; the mean needs the sum over all: reduce_scatter."
        )
    return "every rank made the step with its own gradients: nothing was exchanged."


def _in_places(trial: Trial, event: Event) -> str:
    """Where some numbers went another way than others."""
    size, numbers, ways = event["size"], event["numbers"], event["ways"]
    right, old = set(ways.get("right", [])), set(ways.get("old", []))
    wrong = set(range(numbers)) - right
    if are_the_last(wrong, numbers, size):
        return why_tail(wrong, numbers, size)
    if right and right | old == set(range(numbers)):
        return _why_some_are_old(trial, event, right)
    each = -(-numbers // size)
    if any(
        all(n in ways.get(f"{kind}rank {n // each}", []) for n in range(numbers)) for kind in KINDS
    ):
        return (
            "every rank has updated its shard by its own gradients alone. A shard needs the mean "
            "of all ranks' gradients for it: reduce_scatter."
        )
    if event["elsewhere"] >= 0.9 * numbers:
        return (
            "the new numbers are right, but in other places. Are gradients, shards and parameters "
            "in one order, and does rank r have piece r?"
        )
    return ""


def _why_some_are_old(trial: Trial, event: Event, right: set[int]) -> str:
    size, numbers = event["size"], event["numbers"]
    first, last = min(right), max(right)
    if size == 1:
        return (
            f"only numbers {first} to {last} of {numbers} are new; the others are those before the "
            "step. Is the row copied back into all parameters?"
        )
    results = [lines[-1] for lines in trial.at(size, event["case"], "result") if lines]
    alike = [set(one.get("ways", {}).get("right", [])) == right for one in results]
    each = -(-numbers // size)
    missing = [r for r in range(size) if not right & set(range(r * each, (r + 1) * each))]
    if len(alike) == size and all(alike) and missing:
        return (
            f"only numbers {first} to {last} of {numbers} are new, and that on every rank: nothing "
            f"new came from {ranks_of(missing)}. Each rank makes the step for its own shard, and "
            "all shards are gathered."
        )
    return (
        f"only numbers {first} to {last} of {numbers} are new; the others are those before the "
        "step. Every rank has updated its shard: the all-gather that brings the shards of the "
        "others is missing, or its result is not written back."
    )


EVERYWHERE = {
    "sum": "the step used the sum of the gradients, not the mean: divide by the number of ranks. "
    "(Adam nearly hides that, since it divides by the size of the gradient.)",
    "twice divided": "the gradients were divided by {size} twice: once is the mean.",
    "added up": "the gradient of the step before is still in it: `shard.grad = …`, not +=.",
    "new state": "this step began with empty state, as if it were the first. Make the optimizer "
    "once, in __init__, and keep it.",
}
