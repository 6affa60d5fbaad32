"""`GatherTokens` and `ScatterTokens`, the pair of sequence parallelism, around an MLP.

whole = GatherTokens.apply(x)            x: this rank's tokens; whole: all of them
partial = gelu(whole @ a.T) @ b.T        a, b: this rank's slices
y = ScatterTokens.apply(partial)         this rank's tokens of the sum

The learner's file has the function `split_mlp`, which is these lines.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trials.drawn import draw
from trials.group import TrialRanks
from trials.layers.keeping import AGAIN
from trials.layers.parts import LayerPart, first_wrong, gradients, times
from trials.layers.traffic import sent

NAME = "split_mlp"
TOKENS, WIDTH, INNER = 24, 6, 12
WHOLE = TOKENS * WIDTH


def attempt(function: Any, size: int, seed: int, group: TrialRanks) -> None:
    if step(function, "", seed, group):
        step(function, AGAIN, seed + 1, group)


def step(function: Any, when: str, seed: int, group: TrialRanks) -> bool:
    size, rank, calls = dist.get_world_size(), dist.get_rank(), group.calls
    x, a, b, dy = draw(seed, (TOKENS, WIDTH), (INNER, WIDTH), (WIDTH, INNER), (TOKENS, WIDTH))
    slices = [x.chunk(size)[rank], a.chunk(size)[rank], b.chunk(size, 1)[rank]]
    mine = [one.clone().requires_grad_() for one in slices]
    calls.begin(size, "forward" + when)
    calls.phase = "forward"
    y = function(*mine)
    found = forward(y, (x, a, b), size, rank)
    if not group.agrees(found | {"sent": sent(calls, WHOLE)}):
        return False
    calls.begin(size, "backward" + when)
    calls.phase = "backward"
    y.backward(dy.chunk(size)[rank].clone())
    calls.phase = ""
    found = backward(mine, (x, a, b), dy, size, rank)
    return group.agrees(found | {"sent": sent(calls, WHOLE)})


def mlp(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return nn.functional.gelu(x @ a.T) @ b.T


def forward(y: Any, whole: tuple[Tensor, ...], size: int, rank: int) -> dict[str, Any]:
    x, a, b = whole
    wanted = mlp(x, a, b)
    by_rank = zip(a.chunk(size), b.chunk(size, 1), strict=True)
    partials = [mlp(x, *slices) for slices in by_rank]
    pieces, mine_of = wanted.chunk(size), [one.chunk(size)[rank] for one in partials]
    mistakes = {
        "all tokens": wanted,
        "partial": mine_of[rank],
        "all tokens, partial": partials[rank],
        **times(pieces[rank], size),
    }
    return first_wrong(LayerPart("y", y, pieces[rank], mistakes, pieces, mine_of))


def backward(
    mine: list[Tensor], whole: tuple[Tensor, ...], dy: Tensor, size: int, rank: int
) -> dict[str, Any]:
    x, a, b = whole
    serial = gradients(mlp, whole, dy)
    slices = [(x, *two) for two in zip(a.chunk(size), b.chunk(size, 1), strict=True)]
    shares_of_x = [gradients(mlp, one, dy)[0].chunk(size)[rank] for one in slices]
    by_tokens = [gradients(mlp, slices[rank], tokens_of(dy, size, one)) for one in range(size)]
    parts = []
    for place, (name, dimension) in {1: ("a", 0), 2: ("b", 1), 0: ("x", 0)}.items():
        pieces = serial[place].chunk(size, dimension)
        mistakes = times(pieces[rank], size)
        if name == "x":
            summands, slip = shares_of_x, "own"
        else:
            summands, slip = [one[place] for one in by_tokens], "own tokens"
            mistakes |= {"added up": torch.stack(pieces).sum(0)}
        mistakes = {slip: summands[rank]} | mistakes
        found = mine[place].grad
        parts.append(
            LayerPart(f"the gradient of {name}", found, pieces[rank], mistakes, pieces, summands)
        )
    return first_wrong(*parts)


def tokens_of(dy: Tensor, size: int, rank: int) -> Tensor:
    """Zero but for the tokens of one rank."""
    here = torch.zeros_like(dy)
    here.chunk(size)[rank].copy_(dy.chunk(size)[rank])
    return here
