"""What went wrong in a trial of FSDP: shards, parameters that were not whole, gradients."""

from __future__ import annotations

from course_lib.teach.trials import verdict
from course_lib.teach.trials.ends import never_waited_for
from course_lib.teach.trials.sharding.parts_of_ranks import (
    GATHERS,
    NEAR,
    are_the_last,
    rounded,
    why_tail,
    why_times,
)
from course_lib.teach.trials.verdict import Event, Trial

VIEW = (
    "the shard is a view into the whole row: it keeps the room of all others' numbers, or loses "
    "its own with them when the row is freed. A copy by .clone() stands alone."
)
SHARD = ("no shard", "shard size", "dtype", "shard freed", "view", "shard")
"""What may be wrong with one before the first step."""
CLEAR_THEM = (
    "the parameters still had their gradients of the step before, to which backward adds. "
    "p.grad = None takes them away, once the shard has its own."
)


def why_fsdp(trial: Trial, rank: int, event: Event) -> str:
    layer, slip = f"layer {event.get('layer', '')}".strip(), event["slip"]
    if slip in SHARD:
        return f"{layer}: {_why_shard(event, rank)}"
    if told := never_waited_for(trial, event["size"], event["case"]):
        return told
    if slip in ("freed", "gradients") and _kept_gradients(trial, event):
        return f"{layer}: {CLEAR_THEM}"
    if slip == "gradients":
        return f"{layer}: {_why_gradients(trial, event, rank)}"
    if slip == "gathered":
        return _why_gathered(event, rank)
    return _why_freed(event) if slip == "freed" else _why_none(event, layer)


def _why_none(event: Event, layer: str) -> str:
    slip = event["slip"]
    if slip == "no gradient" and event["cut off"]:
        return (
            f"{layer}: shard.grad is None, and backward never came to this layer. Nothing leads "
            "from the next layer's result back to its x: was x detached?"
        )
    return {
        "answer": "the parameters were right, but what forward returns is not the layer's result.",
        "no gradient": f"{layer}: shard.grad is None after backward. The hook of each parameter "
        "runs when its gradient is there; with the last of them all can go.",
        "gradient shape": f"{layer}: shard.grad has shape {event.get('has')}, unlike the shard.",
    }[slip]


def _kept_gradients(trial: Trial, event: Event) -> bool:
    """Some parameter had a gradient when the step before was over."""
    case, _, step = event["case"].rpartition(": step ")
    last = trial.at(event["size"], f"{case}: step {int(step) - 1}", "result")
    return any(one.get("held", {}).get("gradients") for lines in last for one in lines)


def _why_shard(event: Event, rank: int) -> str:
    size, numbers, has = event["size"], event["numbers"], event.get("has")
    if event["slip"] == "shard size":
        if has == [numbers]:
            return f"the shard has all {numbers} numbers: nothing is cut. It is one of {size}."
        return (
            f"the shard has shape {has} and is to have {event['wanted']} numbers, on every rank: "
            f"{numbers} / {size}, rounded up. The row has all parameters, and as few zeros as make "
            "it a multiple."
        )
    if event.get("whose"):
        return f"this is the piece of rank {event['whose'][0]}; rank {rank} keeps piece {rank}."
    return {
        "no shard": "FSDP(layer) needs an attribute `shard`, this rank's piece of the layer's "
        "numbers.",
        "dtype": f"the shard is {has}; the parameters are float64, and it is a copy of its piece.",
        "view": VIEW,
        "shard freed": VIEW,
        "shard": "the shard is no piece of the layer's numbers: all parameters flattened in the "
        "order of layer.parameters(), in one row.",
    }[event["slip"]]


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
    first, end = event["looked at"]
    where = f"layer {event['layer']}, {event['phase']}"
    each = -(-numbers // size)
    own = set(range(max(first, rank * each), min((rank + 1) * each, end)))
    if event["stale"]:
        return (
            f"{where}: it computes with the parameters of the step before. The optimizer has "
            "changed the shards since; gather before every use."
        )
    if told := rounded(event):
        return f"{where}: {told}"
    if are_the_last(wrong, numbers, size):
        return f"{where}: {why_tail(wrong, numbers, size)}"
    if event["elsewhere"] >= 0.9 * len(wrong):
        return f"{where}: the right numbers, in other places. Piece r is rank r's shard."
    if own and not wrong & own:
        return f"{where}: only this rank's own numbers are right; those of the others are missing."
    return (
        f"{where}: {len(wrong)} of {end - first} numbers are not the layer's. Taking the room back "
        "(resize_) brings no numbers; the all-gather does, before each use."
    )


def _why_gradients(trial: Trial, event: Event, rank: int) -> str:
    if verdict.right_on(trial, event) == [0]:
        return "only rank 0 has the right gradients. Each rank needs the mean for its own shard."
    if event["added up"]:
        return "the gradient of the step before is still in it."
    if told := _why_not_reduced(trial, event, rank) or rounded(event):
        return told
    if not event["shares"]:
        return (
            "the gradients are no weighted sum of the ranks' gradients for this shard. Are they "
            "in the order of the shards, and is piece r the one of rank r?"
        )
    return _why_alone(trial, event, rank) or why_times(event["shares"], event["size"])


def _why_alone(trial: Trial, event: Event, rank: int) -> str:
    if event["size"] == 1 or (whose := _of_one_rank(event["shares"])) is None:
        return ""
    if whose == rank and not _also_elsewhere(trial, event, rank):
        return "the gradients are still this rank's own: nothing was exchanged."
    return (
        f"the gradients are those of rank {whose} alone. A broadcast hands on what one rank "
        "has; the mean needs the sum over all: reduce_scatter."
    )


def _of_one_rank(shares: list[float]) -> int | None:
    there = [rank for rank, share in enumerate(shares) if abs(share) > NEAR]
    return there[0] if len(there) == 1 else None


def _also_elsewhere(trial: Trial, event: Event, rank: int) -> bool:
    """Another rank has this one's gradients as well."""
    others = trial.at(event["size"], event["case"], "result")
    shares = [lines[-1].get("shares") for r, lines in enumerate(others) if lines and r != rank]
    return any(_of_one_rank(one) == rank for one in shares if one)


def _why_not_reduced(trial: Trial, event: Event, rank: int) -> str:
    """Of ranks whose calls are known: one that gathers by them, and reduces by none."""
    made = [
        call["call"]
        for call in trial.at(event["size"], event["case"], "call")[rank]
        if call["phase"] == "backward"
    ]
    if not made or any(name not in GATHERS for name in made):
        return ""
    if event["shares"] and any(abs(share) > NEAR for share in event["shares"]):
        return ""
    return (
        "no reduce_scatter was called in backward. Where nothing was written into shard.grad, it "
        "holds what empty_like found in memory."
    )


def is_gathered_again(trial: Trial) -> bool:
    """Whether what was gathered by calls in forward was so in backward; where no call is known,
    nothing can be said."""
    size = max(event["size"] for _, event in trial.all("result"))
    calls = [
        call for _, call in trial.all("call")
        if call["size"] == size and not call["call"].startswith("reduce")
    ]  # fmt: skip
    phases = {call["phase"] for call in calls}
    return "forward" not in phases or "backward" in phases
