"""`ring_all_reduce(tensor)`: the sum over all ranks, in place, with sends and receives alone."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from trials.calls import MESSAGES, Calls
from trials.drawn import draw
from trials.group import TrialRanks
from trials.seen.below import Below
from trials.shares import close, right_digits, shares

NAME = "ring_all_reduce"
BYTES = 8
"""Of a number in float64."""
CASES = {
    "a vector of 24 numbers": (24,),
    "a vector of 29 numbers, which no number of ranks divides": (29,),
    "a matrix of 6 × 10": (6, 10),
    "a vector of 2 numbers, fewer than there may be ranks": (2,),
    "a vector of 2400 numbers": (2400,),
}


def attempt(function: Any, size: int, seed: int, group: TrialRanks) -> None:
    rank = dist.get_rank()
    for number, (name, shape) in enumerate(CASES.items()):
        group.calls.begin(size, name)
        inputs = draw(seed + number, *[shape] * size)
        tensor = inputs[rank].clone()
        with Below(group.calls):
            answer = function(tensor)
        result = answer if isinstance(answer, torch.Tensor) else tensor
        found = judged(result, inputs, rank)
        if not group.agrees(found | {"travelled": travelled(group.calls, shape)}):
            return


def judged(result: torch.Tensor, inputs: list[torch.Tensor], rank: int) -> dict[str, Any]:
    wanted = torch.stack(inputs).sum(0)
    if result.shape != wanted.shape:
        told = {"has": list(result.shape), "wanted": list(wanted.shape)}
        return {"ok": False, "slip": "shape", **told}
    if result.dtype != wanted.dtype:
        return {"ok": False, "slip": "dtype", "has": str(result.dtype)}
    if close(result, wanted):
        return {"ok": True}
    if len(inputs) > 1 and bool(torch.equal(result, inputs[rank])):
        return {"ok": False, "slip": "unchanged"}
    pieces = [one.reshape(-1).tensor_split(len(inputs)) for one in (result, *inputs)]
    held = [shares(piece, list(of_ranks)) for piece, *of_ranks in zip(*pieces, strict=True)]
    found = {"shares": held, "digits": right_digits(result, wanted)}
    found["numbers"] = wanted.numel()
    return {"ok": False, "slip": "values", **found, **still_own(result, wanted, inputs[rank])}


def still_own(result: torch.Tensor, wanted: torch.Tensor, own: torch.Tensor) -> dict[str, Any]:
    """The places of wrong numbers, if all of them are this rank's own."""
    result, wanted, own = (one.reshape(-1) for one in (result, wanted, own))
    places = [n for n in range(len(own)) if not close(result[n], wanted[n])]
    return {"rest": places} if all(result[n] == own[n] for n in places) else {}


def travelled(calls: Calls, shape: tuple[int, ...]) -> dict[str, Any]:
    """What this rank has sent, in units of the tensor; and which collectives did the work."""
    sent = calls.bytes["send"] + calls.bytes["isend"]
    messages = calls.times["send"] + calls.times["isend"]
    used = sorted(name for name in calls.times if name not in MESSAGES)
    whole = BYTES * torch.Size(shape).numel()
    return {"sent": sent / whole, "messages": messages, "collectives": used}
