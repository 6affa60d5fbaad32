"""Test 13b.2: `ContextAttention(wq, wk, wv)` has some positions of a sequence, and all weights.

own = ContextAttention(wq, wk, wv)     whole on every rank
y = own(x, positions)                  x: the rows of these positions, y: theirs too
y.backward(dy)
own.finish()                           the gradients of the weights are the sequence's"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trials.layers.linear import AGAIN, changed, gradient, gradients, sum_of
from trials.ranks import Ranks

WEIGHTS = ("wq", "wk", "wv")
LENGTH, WIDTH = 24, 6
# Limit in gathers of x's size: keys and values are two; positions are far less than one.
WITH_QUERIES = 2.95


def test(ContextAttention: Any, ranks: Ranks) -> None:
    weights = ranks.draw(*[(WIDTH, WIDTH)] * 3)
    own = ranks.run("wrapping", ContextAttention, *(weight.clone() for weight in weights))
    for when in ("", AGAIN):
        step(own, weights, when, ranks)
        weights = changed(own, WEIGHTS, weights)


def step(own: Any, weights: list[Tensor], when: str, ranks: Ranks) -> None:
    """Check forward, the gradient of x, then the gradients of the weights."""
    rank, size = ranks.rank, ranks.size
    x, dy = ranks.draw((LENGTH, WIDTH), (LENGTH, WIDTH))
    places = positions_of(rank, size)
    mine = x[places].clone().requires_grad_()
    y = ranks.run("forward" + when, own, mine, places.clone())
    q, k, v = (x @ weight for weight in weights)
    ranks.same("y", y, attention(x, *weights)[places], mistakes={
        "own keys": attend(q[places], k[places], v[places], places, places)
    })  # fmt: skip
    sent = ranks.calls.sent() / x.numel()
    ranks.holds("sent", sent <= WITH_QUERIES * (size - 1) / size, sent=sent)
    ranks.run("backward" + when, y.backward, dy[places].clone())
    # Contribution of each rank's outputs to the gradients of all positions, and of the weights.
    by_rank = [gradients(attention, (x, *weights), only(r, dy, size)) for r in range(size)]
    summands = [one[0][places] for one in by_rank]
    ranks.same("the gradient of x", mine.grad, sum_of(summands), summands=summands)
    ranks.run("after finish" + when, own.finish)
    unchanged = [
        torch.equal(getattr(own, name), one) for name, one in zip(WEIGHTS, weights, strict=True)
    ]
    ranks.holds("weights unchanged", all(unchanged))
    for place, name in enumerate(WEIGHTS, 1):
        summands = [one[place] for one in by_rank]
        ranks.same(f"the gradient of {name}", gradient(own, name), sum_of(summands),
                   summands=summands)  # fmt: skip


def positions_of(rank: int, size: int) -> Tensor:
    """Return an early and a late piece, so that all ranks have equal work."""
    pieces = torch.arange(LENGTH).chunk(2 * size)
    return torch.cat([pieces[rank], pieces[2 * size - 1 - rank]])


def attention(x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor) -> Tensor:
    return attend(x @ wq, x @ wk, x @ wv, torch.arange(len(x)))


def attend(q: Tensor, k: Tensor, v: Tensor, of_q: Tensor, of_k: Tensor | None = None) -> Tensor:
    """Compute attention: each query sees the keys of its own position and before."""
    of_k = torch.arange(len(k)) if of_k is None else of_k
    hidden = of_k[None, :] > of_q[:, None]
    return (q @ k.T / WIDTH**0.5).masked_fill(hidden, float("-inf")).softmax(-1) @ v


def only(rank: int, dy: Tensor, size: int) -> Tensor:
    """Return dy, set to zero except for the outputs of one rank."""
    here, places = torch.zeros_like(dy), positions_of(rank, size)
    here[places] = dy[places]
    return here
