"""Test 02.2: `ring_all_reduce(tensor)` leaves the sum over all ranks, by sends and receives."""

from __future__ import annotations

from typing import Any

import torch

from trials.ranks import Ranks

CASES = {
    "a vector of 24 numbers": (24,),
    "a vector of 29 numbers, not a multiple of 2, 3 or 4": (29,),
    "a matrix of 6 × 10": (6, 10),
    "a vector of 2 numbers, fewer than there may be ranks": (2,),
    "a vector of 2400 numbers": (2400,),
}
# Pieces differ by one number if the ranks do not divide the tensor.
ROUNDING = 0.05


def test(ring_all_reduce: Any, ranks: Ranks) -> None:
    for case, shape in CASES.items():
        tensors = ranks.draw(*[shape] * ranks.size)
        mine = tensors[ranks.rank].clone()
        ranks.run(case, ring_all_reduce, mine)
        ranks.same("the sum", mine, sum(tensors, torch.zeros(shape, dtype=mine.dtype)),
                   summands=tensors, pieces=ranks.size)  # fmt: skip
        ranks.only_messages()
    sent, wanted = ranks.calls.sent() / mine.numel(), 2 * (ranks.size - 1) / ranks.size
    ranks.holds("sent", abs(sent - wanted) <= ROUNDING, sent=sent, wanted=wanted)
