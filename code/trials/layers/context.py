"""`ContextAttention(wq, wk, wv)`: every rank has some positions of a sequence, and all weights.

own = ContextAttention(wq, wk, wv)     whole on every rank
y = own(x, positions)                  x: the rows of these positions, y: theirs too
y.backward(dy)
own.finish()                           the gradients of the weights are those of the sequence
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trials.drawn import draw
from trials.group import TrialRanks
from trials.layers.attention import LENGTH, WIDTH, by_outputs, forward, of_x, positions_of
from trials.layers.keeping import AGAIN, CHANGED, change
from trials.layers.parts import LayerPart, first_wrong, gradient, times
from trials.layers.traffic import sent

NAME = "ContextAttention"
WEIGHTS = ("wq", "wk", "wv")


def attempt(made: Any, size: int, seed: int, group: TrialRanks) -> None:
    weights = draw(seed, *[(WIDTH, WIDTH)] * 3)
    own = made(*(weight.clone() for weight in weights))
    group.kept.append(own)
    if step(own, weights, "", seed + 1, group):
        change(own, WEIGHTS)
        step(own, [CHANGED * weight for weight in weights], AGAIN, seed + 2, group)


def step(own: Any, weights: list[Tensor], when: str, seed: int, group: TrialRanks) -> bool:
    """Forward, the gradient of x, then those of the weights."""
    size, rank, calls = dist.get_world_size(), dist.get_rank(), group.calls
    x, dy = draw(seed, (LENGTH, WIDTH), (LENGTH, WIDTH))
    places = positions_of(rank, size)
    calls.begin(size, "forward" + when)
    calls.phase = "forward"
    mine = x[places].clone().requires_grad_()
    y = own(mine, places.clone())
    found = forward(y, x, weights, places)
    if not group.agrees(found | {"sent": sent(calls, x.numel())}):
        return False
    calls.begin(size, "backward" + when)
    calls.phase = "backward"
    y.backward(dy[places].clone())
    by_rank = by_outputs((x, *weights), dy, size)
    if not group.agrees(of_x(mine.grad, (x, *weights), dy, by_rank)):
        return False
    calls.begin(size, "after finish" + when)
    calls.phase = "finish"
    came = [gradient(own, name) for name in WEIGHTS]  # held: an address that is free is taken again
    for name, one in zip(WEIGHTS, came, strict=True):
        if one is not None:
            calls.know(one, name)
    alone = [None if one is None else one.clone() for one in came]
    own.finish()
    calls.phase = ""
    return group.agrees(after_finish(own, alone, weights, by_rank))


def after_finish(
    own: Any,
    alone: list[Tensor | None],
    weights: list[Tensor],
    by_rank: Sequence[tuple[Tensor, ...]],
) -> dict[str, Any]:
    parts = []
    for place, (name, before, given) in enumerate(zip(WEIGHTS, alone, weights, strict=True), 1):
        held = LayerPart(f"the weight {name}", getattr(own, name, None), given).judged()
        if not held["ok"]:
            return held | {"slip": "changed"}
        summands = [one[place] for one in by_rank]
        whole = torch.stack(summands).sum(0)
        mistakes = {"own": before, **times(whole, len(by_rank))}
        found = gradient(own, name)
        parts.append(
            LayerPart(f"the gradient of {name}", found, whole, mistakes, summands=summands)
        )
    return first_wrong(*parts)
