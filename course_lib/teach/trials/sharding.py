"""What went wrong in a trial of sharding: ZeRO-1's parameters, FSDP's shards and gradients."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.teach.trials import verdict
from course_lib.teach.trials.verdict import Event, Trial

NEAR = 1e-3
KINDS = ("", "share of ")
"""A rank's gradients alone, as they are or divided by the number of ranks."""


def why_zero1(trial: Trial, rank: int, event: Event) -> str:
    size, numbers, ways = event["size"], event["numbers"], event["ways"]
    if verdict.right_on(trial, event) == [0]:
        return "only rank 0 has the new parameters. All ranks need them for the next step."
    for name, told in EVERYWHERE.items():
        if len(ways.get(name, [])) == numbers:
            return told.format(size=size)
    if any(len(ways.get(f"{kind}rank {rank}", [])) == numbers for kind in KINDS):
        return "every rank made the step with its own gradients: nothing was exchanged."
    if told := _in_places(event):
        return told
    called = {call["call"] for calls in trial.at(size, event["case"], "call") for call in calls}
    if not any("gather" in name or name == "broadcast" for name in called):
        return "they are no result of the step, and no all-gather was called."
    return (
        "the parameters are none of what the mean, the sum or a rank's own gradients lead to. Does "
        "rank r keep, update and hand on piece r of the row?"
    )


def _in_places(event: Event) -> str:
    """Where some numbers went another way than others."""
    size, numbers, ways = event["size"], event["numbers"], event["ways"]
    right, old = set(ways.get("right", [])), set(ways.get("old", []))
    wrong = set(range(numbers)) - right
    if _are_the_last(wrong, numbers, size):
        return _why_tail(wrong, numbers, size)
    if right and right | old == set(range(numbers)):
        return (
            f"only numbers {min(right)} to {max(right)} of {numbers} are new; the others are those "
            "before the step. Every rank has updated its shard: the all-gather that brings the "
            "shards of the others is missing, or its result is not written back."
        )
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


EVERYWHERE = {
    "sum": "the step used the sum of the gradients, not the mean: divide by the number of ranks. "
    "(Adam nearly hides that, since it divides by the size of the gradient.)",
    "twice divided": "the gradients were divided by {size} twice: once is the mean.",
    "added up": "the gradient of the step before is still in it: `shard.grad = …`, not +=.",
    "new state": "this step began with empty state, as if it were the first. Make the optimizer "
    "once, in __init__, and keep it.",
    "old": "the parameters have not changed. Did the optimizer make its step? It changes the shard "
    "alone; the gathered row has to be copied back into the parameters.",
}


def _are_the_last(places: set[int], numbers: int, size: int) -> bool:
    return 0 < len(places) < size and min(places) == numbers - len(places)


def _why_tail(places: set[int], numbers: int, size: int) -> str:
    some = f"the last {len(places)}" if len(places) > 1 else "the last one"
    return (
        f"only {some} of {numbers} numbers went wrong: {size} ranks do not divide {numbers}. Fill "
        "the row up with zeros to a multiple (round up, not down), and leave them out afterwards."
    )


def why_fsdp(trial: Trial, rank: int, event: Event) -> str:
    layer, slip = f"layer {event.get('layer', '')}".strip(), event["slip"]
    if slip == "gathered":
        return _why_gathered(event, rank)
    if slip == "freed":
        return _why_freed(event)
    if slip in ("no shard", "shard size", "shard freed", "view", "shard"):
        return f"{layer}: {_why_shard(event, rank)}"
    if slip == "gradients":
        return f"{layer}: {_why_gradients(trial, event, rank)}"
    return {
        "answer": "the parameters were right, but what forward returns is not the layer's result.",
        "no gradient": f"{layer}: shard.grad is None after backward. The hook of each parameter "
        "runs when its gradient is there; with the last of them all can go.",
        "gradient shape": f"{layer}: shard.grad has shape {event.get('has')}, unlike the shard.",
    }[slip]


def _why_shard(event: Event, rank: int) -> str:
    size, numbers, has = event["size"], event["numbers"], event.get("has")
    if event["slip"] == "no shard":
        return "FSDP(layer) needs an attribute `shard`, this rank's piece of the layer's numbers."
    if event["slip"] == "shard size":
        if has == [numbers]:
            return f"the shard has all {numbers} numbers: nothing is cut. It is one of {size}."
        return (
            f"the shard has shape {has} and is to have {event['wanted']} numbers, on every rank: "
            f"{numbers} / {size}, rounded up. The row is filled up with zeros to a multiple."
        )
    if event["slip"] in ("view", "shard freed"):
        return (
            "the shard is a view into the whole row: it keeps the room of all others' numbers, or "
            "loses its own with them when the row is freed. A copy by .clone() stands alone."
        )
    if event["whose"]:
        return f"this is the piece of rank {event['whose'][0]}; rank {rank} keeps piece {rank}."
    return (
        "the shard is no piece of the layer's numbers: all parameters flattened in the order of "
        "layer.parameters(), in one row."
    )


def _why_freed(event: Event) -> str:
    if event["phase"] == "forward":
        return (
            f"layer {event['layer']} has to compute while its parameters have no room: not "
            "gathered, or freed too early. Gather before self.layer(x), free after it."
        )
    return (
        f"the backward pass has come to layer {event['layer']}, whose parameters are freed. It "
        "needs them once more: a hook on the layer's output runs just before, and can gather."
    )


def _why_gathered(event: Event, rank: int) -> str:
    size, numbers, wrong = event["size"], event["numbers"], set(event["places"])
    where = f"layer {event['layer']}, {event['phase']}"
    each = -(-numbers // size)
    own = set(range(rank * each, min((rank + 1) * each, numbers)))
    if event["stale"]:
        return (
            f"{where}: it computes with the parameters of the step before. The optimizer has "
            "changed the shards since; gather before every use."
        )
    if _are_the_last(wrong, numbers, size):
        return f"{where}: {_why_tail(wrong, numbers, size)}"
    if event["elsewhere"] >= 0.9 * len(wrong):
        return f"{where}: the right numbers, in other places. Piece r is rank r's shard."
    if own and not wrong & own:
        return f"{where}: only this rank's own numbers are right; those of the others are missing."
    return (
        f"{where}: {len(wrong)} of {numbers} numbers are not the layer's. Taking the room back "
        "(resize_) brings no numbers; the all-gather does, before each use."
    )


def _why_gradients(trial: Trial, event: Event, rank: int) -> str:
    size, shares = event["size"], event["shares"]
    if verdict.right_on(trial, event) == [0]:
        return "only rank 0 has the right gradients. Each rank needs the mean for its own shard."
    if not shares:
        return (
            "the gradients are no weighted sum of the ranks' gradients for this shard. Are they "
            "in the order of the shards, and is piece r the one of rank r?"
        )
    if all((abs(share) > NEAR) == (r == rank) for r, share in enumerate(shares)):
        return "the gradients are still this rank's own: nothing was exchanged."
    return _why_times(shares, size)


def _why_times(shares: Sequence[float], size: int) -> str:
    if max(shares) - min(shares) > NEAR:
        table = ", ".join(f"{share + 0:g} × rank {r}" for r, share in enumerate(shares))
        return f"they hold {table}; the mean holds {1 / size:g} of each."
    if abs(shares[0] - 1) < NEAR:
        return "this is the sum over the ranks, not the mean: divide by the number of ranks."
    if abs(shares[0] - 1 / size**2) < NEAR:
        return f"they were divided by {size} twice: once is the mean."
    return f"they are {shares[0] * size:g} times the mean."
