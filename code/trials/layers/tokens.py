"""`GatherTokens` and `ScatterTokens`, the pair of sequence parallelism, around an MLP.

whole = GatherTokens.apply(x)            x: this rank's tokens; whole: all of them
partial = gelu(whole @ a.T) @ b.T        a, b: this rank's slices
y = ScatterTokens.apply(partial)         this rank's tokens of the sum

The learner's file has the function `split_mlp`, which is these lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trials.calls import Calls
from trials.group import TrialRanks
from trials.layers.parts import LayerPart, draw, first_wrong, gradients, times

NAME = "split_mlp"
TOKENS, WIDTH, INNER = 24, 6, 12
WHOLE = TOKENS * WIDTH


def attempt(function: Any, size: int, seed: int, group: TrialRanks) -> None:
    rank, calls = dist.get_rank(), group.calls
    x, a, b, dy = draw(seed, (TOKENS, WIDTH), (INNER, WIDTH), (WIDTH, INNER), (TOKENS, WIDTH))
    slices = [x.chunk(size)[rank], a.chunk(size)[rank], b.chunk(size, 1)[rank]]
    mine = [one.clone().requires_grad_() for one in slices]
    calls.begin(size, "forward")
    calls.phase = "forward"
    y = function(*mine)
    found = forward(y, (x, a, b), size, rank) | {"sent": sent(calls, size)}
    if not group.agrees(found):
        return
    calls.begin(size, "backward")
    calls.phase = "backward"
    y.backward(dy.chunk(size)[rank].clone())
    calls.phase = ""
    group.agrees(backward(mine, (x, a, b), dy, size, rank) | {"sent": sent(calls, size)})


def mlp(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return nn.functional.gelu(x @ a.T) @ b.T


def forward(y: Any, whole: tuple[Tensor, ...], size: int, rank: int) -> dict[str, Any]:
    x, a, b = whole
    a_here, b_here = a.chunk(size)[rank], b.chunk(size, 1)[rank]
    wanted, partial = mlp(x, a, b), mlp(x, a_here, b_here)
    mine = wanted.chunk(size)[rank]
    mistakes = {
        "all tokens": wanted,
        "partial": partial.chunk(size)[rank],
        "all tokens, partial": partial,
        "another rank's": wanted.chunk(size)[0],
        **times(mine, size),
    }
    return first_wrong(LayerPart("y", y, mine, mistakes))


def backward(
    mine: list[Tensor], whole: tuple[Tensor, ...], dy: Tensor, size: int, rank: int
) -> dict[str, Any]:
    x, a, b = whole
    serial = gradients(mlp, whole, dy)
    sliced = (x, a.chunk(size)[rank], b.chunk(size, 1)[rank])
    alone, here = gradients(mlp, sliced, dy), torch.zeros_like(dy)
    rows = slice(rank * TOKENS // size, (rank + 1) * TOKENS // size)
    here[rows] = dy[rows]
    here_only = gradients(mlp, sliced, here)
    parts = []
    for place, (name, dimension) in {1: ("a", 0), 2: ("b", 1), 0: ("x", 0)}.items():
        wanted = serial[place].chunk(size, dimension)[rank]
        slip = ("own", alone[0][rows]) if name == "x" else ("own tokens", here_only[place])
        mistakes = dict([slip]) | times(wanted, size)
        parts.append(LayerPart(f"the gradient of {name}", mine[place].grad, wanted, mistakes))
    return first_wrong(*parts)


FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather_into_tensor": lambda n: (n - 1) / n,  # noted is the first tensor, what comes out
    "all_gather_single": lambda n: (n - 1) / n,
    "reduce_scatter_tensor": lambda n: n - 1,
    "reduce_scatter_single": lambda n: n - 1,
    "all_gather": lambda n: n - 1,
    "reduce_scatter": lambda n: n - 1,
    "all_to_all_single": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1,
}


def sent(calls: Calls, size: int) -> float:
    """By each rank, in units of all tokens, if every collective is a ring."""
    return float(
        sum(
            FACTORS.get(made["call"], FACTORS["broadcast"])(size) * made.get("numbers", 0)
            for made in calls.made
        )
        / WHOLE
    )
