"""`ContextAttention(wq, wk, wv)`: every rank has some positions of a sequence, and all weights.

own = ContextAttention(wq, wk, wv)     whole on every rank
y = own(x, positions)                  x: the rows of these positions, y: theirs too
y.backward(dy)
own.finish()                           the gradients of the weights are those of the sequence
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trials.group import TrialRanks
from trials.layers.parts import LayerPart, draw, first_wrong, gradient, gradients, times

NAME = "ContextAttention"
LENGTH, WIDTH = 24, 6
WEIGHTS = ("wq", "wk", "wv")


def attempt(made: Any, size: int, seed: int, group: TrialRanks) -> None:
    """Forward, the gradient of x, then those of the weights."""
    rank, calls = dist.get_rank(), group.calls
    x, dy, *weights = draw(seed, (LENGTH, WIDTH), (LENGTH, WIDTH), *[(WIDTH, WIDTH)] * 3)
    places = positions_of(rank, size)
    own = made(*(weight.clone() for weight in weights))
    group.kept.append(own)
    calls.begin(size, "forward")
    calls.phase = "forward"
    mine = x[places].clone().requires_grad_()
    y = own(mine, places.clone())
    if not group.agrees(forward(y, x, weights, places)):
        return
    calls.begin(size, "backward")
    calls.phase = "backward"
    y.backward(dy[places].clone())
    serial = gradients(attention, (x, *weights), dy)
    if not group.agrees(of_x(mine.grad, serial[0], (x, *weights), dy, places)):
        return
    calls.begin(size, "after finish")
    calls.phase = "finish"
    alone = [gradient(own, name) for name in WEIGHTS]
    alone = [None if one is None else one.clone() for one in alone]
    own.finish()
    calls.phase = ""
    parts = [
        LayerPart(f"the gradient of {name}", gradient(own, name), whole,
             {"own": before, **times(whole, size)})
        for name, whole, before in zip(WEIGHTS, serial[1:], alone, strict=True)
    ]  # fmt: skip
    group.agrees(first_wrong(*parts))


def positions_of(rank: int, size: int) -> Tensor:
    """One early piece and one late one, so that all ranks have the same to do."""
    pieces = torch.arange(LENGTH).chunk(2 * size)
    return torch.cat([pieces[rank], pieces[2 * size - 1 - rank]])


def attention(x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor) -> Tensor:
    return attend(x @ wq, x @ wk, x @ wv, torch.arange(len(x)), torch.arange(len(x)))


def attend(q: Tensor, k: Tensor, v: Tensor, of_q: Tensor, of_k: Tensor) -> Tensor:
    """Each query sees the keys of its own position and before."""
    hidden = of_k[None, :] > of_q[:, None]
    scores = (q @ k.T / WIDTH**0.5).masked_fill(hidden, float("-inf"))
    return scores.softmax(-1) @ v


def forward(y: Any, x: Tensor, weights: list[Tensor], places: Tensor) -> dict[str, Any]:
    wq, wk, wv = weights
    every, here = torch.arange(LENGTH), x[places]
    q, k, v = here @ wq, x @ wk, x @ wv
    size, last = LENGTH // len(places), torch.full_like(places, LENGTH)
    by_rank = torch.cat([positions_of(rank, size) for rank in range(size)])
    place_in_list = torch.arange(LENGTH)[dist.get_rank() * len(places) :][: len(places)]
    mistakes = {
        "own keys": attend(q, here @ wk, here @ wv, places, places),
        "no mask": attend(q, k, v, last, every),
        "rank order": attend(q, k[by_rank], v[by_rank], places, every),
        "place in the list": attend(q, k[by_rank], v[by_rank], place_in_list, every),
    }
    return first_wrong(LayerPart("y", y, attend(q, k, v, places, every), mistakes))


def of_x(
    found: Any, whole: Tensor, given: tuple[Tensor, ...], dy: Tensor, places: Tensor
) -> dict[str, Any]:
    """By mistake: that of this rank's outputs alone; or of its queries, keys cut off."""
    here = torch.zeros_like(dy)
    here[places] = dy[places]
    alone = gradients(attention, given, here)[0][places]
    x, wq, wk, wv = given

    def queries_only(rows: Tensor) -> Tensor:
        every = torch.arange(LENGTH)
        return attend(rows @ wq, x @ wk, x @ wv, every, every)

    no_keys = gradients(queries_only, (x,), here)[0][places]
    size = LENGTH // len(places)
    mistakes = {"own": alone, "no keys": no_keys, **times(whole[places], size)}
    return first_wrong(LayerPart("the gradient of x", found, whole[places], mistakes))
