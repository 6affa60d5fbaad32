"""Test 11.3: `clip(sharded, replicated, max_norm)` clips gradients of which a rank has only a part.

norm = clip(sharded, replicated, max_norm)

Both are lists of parameters with gradients: shards, which differ between ranks, and whole ones,
equal on all ranks. The norm is that of the whole model, which has replicated gradients once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from trials.ranks import Ranks

SHARDED, REPLICATED = [(35,), (3,)], [(5,), (2, 3)]
# The limit over the norm, and a number that takes the place of one of the last rank's gradients.
CASES: dict[str, tuple[float, float | None]] = {
    "a norm above the limit": (0.4, None),
    "a norm below the limit": (2.5, None),
    "an infinite gradient on the last rank": (0.4, torch.inf),
    "a gradient on the last rank that is not a number": (0.4, torch.nan),
}


def test(clip: Any, ranks: Ranks) -> None:
    for case, (limit, spoilt) in CASES.items():
        whole, replicated = ranks.draw(*SHARDED), ranks.draw(*REPLICATED)
        by_rank = [[one.tensor_split(ranks.size)[r] for one in whole] for r in range(ranks.size)]
        shards = torch.stack([squares(one) for one in by_rank])  # of each rank
        total, once = shards.sum(), squares(replicated)
        right = (total + once).sqrt()
        if spoilt is not None:
            by_rank[-1][0][0] = spoilt
        own = [parameter(one) for one in (*by_rank[ranks.rank], *replicated)]
        before, cut = row(own), len(SHARDED)
        norm = ranks.run(case, clip, own[:cut], own[cut:], limit * float(right))
        norm = norm if norm is None else torch.as_tensor(norm, dtype=torch.float64)
        exchanged = [one["numbers"] for one in ranks.calls.made]
        if spoilt is None:
            ranks.same("the norm", norm, right, shards=float(total), once=float(once), mistakes={
                "own": (shards[ranks.rank] + once).sqrt(), "clipped": limit * right,
                "once for each rank": (total + ranks.size * once).sqrt(),
            })  # fmt: skip
            ranks.same("the gradients", row(own), min(1.0, limit) * before,
                       mistakes={"unchanged": before})  # fmt: skip
        else:
            ranks.holds("no finite norm", norm is not None and not bool(norm.isfinite()))
            ranks.holds("not finite", torch.allclose(row(own), before, equal_nan=True))
        few = len(exchanged) <= 1 and sum(exchanged) <= 2 * ranks.size
        ranks.holds("exchanged", few, count=len(exchanged), numbers=sum(exchanged))


def parameter(gradient: Tensor) -> nn.Parameter:
    made = nn.Parameter(torch.zeros_like(gradient))
    made.grad = gradient.clone()
    return made


def row(parameters: Sequence[nn.Parameter]) -> Tensor:
    return torch.cat([one.grad.flatten() for one in parameters if one.grad is not None]).clone()


def squares(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack([one.square().sum() for one in tensors]).sum()
