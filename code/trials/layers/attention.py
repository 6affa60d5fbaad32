"""What the trial of context parallelism holds a learner's attention against (context.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trials.layers.parts import LayerPart, first_wrong, gradients, times

LENGTH, WIDTH = 24, 6


def positions_of(rank: int, size: int) -> Tensor:
    """One early piece and one late one, so that all ranks have the same to do."""
    pieces = torch.arange(LENGTH).chunk(2 * size)
    return torch.cat([pieces[rank], pieces[2 * size - 1 - rank]])


def attention(x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor) -> Tensor:
    every = torch.arange(len(x))
    return attend(x @ wq, x @ wk, x @ wv, later(every, every))


def attend(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor) -> Tensor:
    scores = (q @ k.T / WIDTH**0.5).masked_fill(hidden, float("-inf"))
    return scores.softmax(-1) @ v


def later(of_q: Tensor, of_k: Tensor) -> Tensor:
    """Each query sees the keys of its own position and before; these it does not."""
    return of_k[None, :] > of_q[:, None]


def forward(y: Any, x: Tensor, weights: list[Tensor], places: Tensor) -> dict[str, Any]:
    wq, wk, wv = weights
    every, here, size = torch.arange(LENGTH), x[places], LENGTH // len(places)
    q, k, v = here @ wq, x @ wk, x @ wv
    hidden = later(places, every)
    by_rank = torch.cat([positions_of(rank, size) for rank in range(size)])
    from_0, n = torch.arange(len(places)), len(places)
    in_list = from_0 + dist.get_rank() * n
    mistakes = {
        "own keys": attend(q, here @ wk, here @ wv, later(places, places)),
        "no mask": attend(q, k, v, torch.zeros_like(hidden)),
        "inverted mask": attend(q, k, v, every[None, :] < places[:, None]),
        "rank order": attend(q, k[by_rank], v[by_rank], hidden),
        "keys in order": attend(q, k, v[by_rank], hidden),
        "place in the list": attend(q, k[by_rank], v[by_rank], later(in_list, every)),
        "queries from 0": attend(q, k, v, later(from_0, every)),
        "queries and keys from 0": attend(q, k[by_rank], v[by_rank], later(from_0, every)),
        "swapped": attend(q, v, k, hidden),
    }
    return first_wrong(LayerPart("y", y, attend(q, k, v, hidden), mistakes))


def by_outputs(given: tuple[Tensor, ...], dy: Tensor, size: int) -> list[tuple[Tensor, ...]]:
    """The gradients that each rank's outputs give, of all positions and of the weights."""
    found = []
    for rank in range(size):
        here, places = torch.zeros_like(dy), positions_of(rank, size)
        here[places] = dy[places]
        found.append(gradients(attention, given, here))
    return found


def of_x(
    found: Any, given: tuple[Tensor, ...], dy: Tensor, by_rank: Sequence[tuple[Tensor, ...]]
) -> dict[str, Any]:
    """By mistake: that of this rank's outputs alone; or of its queries, keys cut off."""
    x, wq, wk, wv = given
    size, every = len(by_rank), torch.arange(LENGTH)
    places = positions_of(dist.get_rank(), size)
    whole = sum((one[0] for one in by_rank), torch.zeros_like(x))[places]

    def queries_only(rows: Tensor) -> Tensor:
        return attend(rows @ wq, x @ wk, x @ wv, later(every, every))

    no_keys = gradients(queries_only, (x,), dy)[0][places]
    by_keys = whole - no_keys
    mistakes = {
        "own": by_rank[dist.get_rank()][0][places],
        "no keys": no_keys,
        "mean of keys": no_keys + by_keys / size,
        "keys twice": no_keys + size * by_keys,
        **times(whole, size),
    }
    return first_wrong(LayerPart("the gradient of x", found, whole, mistakes))
