"""Test 13b.3: `ring_attention(queries, keys, values, positions)`, by messages round a ring.

y = ring_attention(q, k, v, positions)   rows of these positions: an early and a late piece
y.backward(dy)                           leaves this rank's rows of the serial gradients

In step 2 all scores of a query are larger or smaller by the same number, about 1000. A softmax does
not change with it, but exp() of such scores is infinite or zero."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trials.layers.context import LENGTH, WIDTH, attend, only, positions_of
from trials.layers.linear import gradients, sum_of
from trials.memory import held_numbers, ignore_what_is_there
from trials.ranks import Ranks

PARTS = ("queries", "keys", "values")
LARGE = 50.0
# Limit between forward and backward, in pieces: y, and copies of y, queries, keys and values.
KEEPS = 5.4


def test(ring_attention: Any, ranks: Ranks) -> None:
    ignore_what_is_there()
    for scores in ("", " of large scores"):
        *whole, dy = ranks.draw(*[(LENGTH, WIDTH)] * 4)
        if scores:
            whole[0][:, -1], whole[1][:, -1] = LARGE * whole[0][:, -1].sign(), LARGE
        step(ring_attention, whole, dy, scores, ranks)


def step(ring_attention: Any, whole: list[Tensor], dy: Tensor, scores: str, ranks: Ranks) -> None:
    places, *others = (positions_of((ranks.rank + n) % ranks.size, ranks.size)
                       for n in range(ranks.size))  # fmt: skip
    q, k, v = whole
    mine = [one[places].clone().requires_grad_() for one in whole]
    before = held_numbers(float("inf"))
    y = ranks.run("forward" + scores, ring_attention, *mine, places.clone())
    ranks.only_messages()
    there = torch.cat([places, *others])
    stayed = attend(q[places], k[there], v[there], places, places.repeat(ranks.size))
    ranks.same("y" + scores, y, attend(q[places], k, v, places), mistakes={
        "own keys": attend(q[places], k[places], v[places], places, places),
        "positions stayed": stayed,
    })  # fmt: skip
    # On 3 ranks no shape of a piece, or of pieces together, has as many rows as the sequence.
    ranks.holds("piece by piece", ranks.size != 3 or LENGTH not in ranks.calls.dimensions)
    kept = (held_numbers(before + KEEPS * len(places) * WIDTH) - before) / (len(places) * WIDTH)
    ranks.holds("held", kept <= KEEPS, kept=kept)
    ranks.run("backward" + scores, y.backward, dy[places].clone())
    ranks.only_messages()
    by_rank = [gradients(serial, whole, only(rank, dy, ranks.size)) for rank in range(ranks.size)]
    for number, part in enumerate(PARTS):
        summands = [one[number][places] for one in by_rank]
        ranks.same(f"the gradient of the {part}", mine[number].grad, sum_of(summands),
                   summands=summands)  # fmt: skip


def serial(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attend(q, k, v, torch.arange(LENGTH))
