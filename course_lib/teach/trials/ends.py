"""Calls and their other ends: messages that no rank takes, and works that nobody waits for."""

from __future__ import annotations

from course_lib.teach.trials.verdict import Event, Trial

SENDS, RECEIVES = ("send", "isend"), ("recv", "irecv")
MESSAGES = (*SENDS, *RECEIVES)
WORKS = ("isend", "irecv")
"""Calls that return a work whatever they are told."""


def called(call: Event) -> str:
    """`all_reduce(gradient of last.bias)`, `send(6 numbers, to 1)`."""
    what = f"gradient of {call['of']}" if call.get("of") else ""
    what = what or call.get("weights", "")
    if not what and "numbers" in call:
        what = f"{call['numbers']} numbers"
    if "peer" in call:
        what += f", {'to' if call['call'] in SENDS else 'from'} {call['peer']}"
    return f"{call['call']}({what})"


def with_root(call: Event) -> str:
    """`reduce(42 numbers, dst 1)`; a rank at the other end stands in it already."""
    told = called(call)
    if call.get("root") is None:
        return told
    word = "dst" if call["call"] in ("reduce", "gather") else "src"
    return f"{told[:-1]}, {word} {call['root']})"


def why_not_met(trial: Trial, size: int, case: str) -> str:
    """What was seen of messages that cannot arrive, on so many ranks."""
    return _no_such_peer(trial, size, case) or _unequal_ends(trial, size, case)


def never_waited_for(trial: Trial, size: int, case: str) -> str:
    """A call that was started, and not finished when its numbers were needed. A rank that is still
    on its way may come to it."""
    through = trial.at(size, case, "result")
    for rank, calls in enumerate(trial.at(size, case, "call")):
        if any(through) and not through[rank]:
            continue
        waited = trial.at(size, case, "waited")[rank]
        finished = {one["number"] for one in waited}
        for number, call in enumerate(calls):
            if (call.get("async") or call["call"] in WORKS) and number not in finished:
                return _unfinished(call)
    return ""


def _unfinished(call: Event) -> str:
    if call["call"] in WORKS:
        return (
            f"nobody waited for {called(call)}. It returns a work at once; the message has gone, "
            "or come, when work.wait() has returned."
        )
    return (
        f"nobody waited for {called(call)}. With async_op=True a collective returns a work at "
        "once; its numbers are there when work.wait() has returned."
    )


def thrown_away(trial: Trial, size: int) -> str:
    """A work that its rank let go may take its message with it, also in a case before."""
    for rank, event in trial.all("dropped"):
        if event["size"] == size:
            made = trial.at(size, event["case"], "call")[rank]
            if event["number"] < len(made):
                return f"Rank {rank}: {_unfinished(made[event['number']])}"
    return ""


def _no_such_peer(trial: Trial, size: int, case: str) -> str:
    for rank, calls in enumerate(trial.at(size, case, "call")):
        for call in calls[-2:]:
            peer = call.get("peer")
            if peer == rank:
                return _to_itself(rank, size, call)
            if peer is not None and not 0 <= peer < size:
                return _beyond(peer, size)
    return ""


def _beyond(peer: int, size: int) -> str:
    if peer < 0:
        return (
            f"There is no rank {peer} among {size} (dist.get_world_size()). The rank before rank 0 "
            "is the last one: (rank - 1) % size."
        )
    return (
        f"There is no rank {peer} among {size} (dist.get_world_size()). The rank after the last "
        "one is rank 0: (rank + 1) % size."
    )


def _to_itself(rank: int, size: int, call: Event) -> str:
    if size == 1:
        return (
            f"{called(call)} is a message to itself: on one rank there is nobody to send to, and "
            "no step to make. A round over n ranks has n − 1 steps."
        )
    return (
        f"Rank {rank} calls {called(call)}: that is itself. Do dist.get_rank() and "
        "dist.get_world_size() say who it is, and who comes after it? (LOCAL_RANK counts anew on "
        "each node.)"
    )


def _unequal_ends(trial: Trial, size: int, case: str) -> str:
    calls = trial.at(size, case, "call")
    for source in range(size):
        for target in range(size):
            sent = _between(calls[source], SENDS, target)
            taken = _between(calls[target], RECEIVES, source)
            tags = [{call.get("tag", 0) for call in calls} for calls in (sent, taken)]
            if sent and taken and not tags[0] & tags[1]:
                return (
                    f"Rank {source} sends with tag {min(tags[0])}, and rank {target} waits for one "
                    f"with tag {min(tags[1])}. Both ends of a message name the same."
                )
            for one, other in zip(sent, taken, strict=False):
                if one["bytes"] != other["bytes"]:
                    return _why_unequal(source, one, target, other)
    return ""


def _between(calls: list[Event], kinds: tuple[str, ...], peer: int) -> list[Event]:
    return [
        call for call in calls
        if call["call"] in kinds and call.get("peer") == peer and "bytes" in call
    ]  # fmt: skip


def _why_unequal(source: int, sent: Event, target: int, taken: Event) -> str:
    if sent["numbers"] == taken["numbers"]:
        each = [call["bytes"] // call["numbers"] for call in (sent, taken)]
        return (
            f"Rank {source} sends {sent['numbers']} numbers of {each[0]} bytes each, and rank "
            f"{target} receives into numbers of {each[1]}. A buffer has the type of what comes: "
            "torch.empty_like(…), or dtype=…."
        )
    return (
        f"Rank {source} sends {sent['numbers']} numbers, and rank {target} receives into "
        f"{taken['numbers']}: what comes has to be the very piece that the other one sends."
    )
