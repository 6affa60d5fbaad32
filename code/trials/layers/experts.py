"""Test 13c.2: `Mixture(router, up, down)` has a share of the experts, and every rank its own rows.

own = Mixture(router, up, down)        all of them whole; the rank keeps its experts
y = own(x)                             x: the rows of this rank, y: their results
y.backward(dy)
own.finish()                           the router's gradient is that of all rows"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trials.layers.linear import AGAIN, changed, gradient, gradients, sum_of
from trials.ranks import Ranks

EXPERTS, CHOSEN, WIDTH, INNER = 12, 2, 6, 5
# Rows of the ranks: the same number on each in the first step, then different ones.
ROWS = {"": (7, 7, 7, 7), AGAIN: (5, 9, 1, 6)}
# Most that may travel; if every rank got all rows, it would be twice as much on four ranks.
MOST = 1.5


def test(Mixture: Any, ranks: Ranks) -> None:
    weights = ranks.draw((EXPERTS, WIDTH), (EXPERTS, WIDTH, INNER), (EXPERTS, INNER, WIDTH))
    own = ranks.run("wrapping", Mixture, *(weight.clone() for weight in weights))
    for name, weight in zip(("up", "down"), weights[1:], strict=True):
        slices = weight.chunk(ranks.size)
        ranks.same(f"the experts' {name}", getattr(own, name), slices[ranks.rank], summands=slices)
    for when, rows in ROWS.items():
        step(own, weights, rows[: ranks.size], when, ranks)
        weights = changed(own, ("router", "up", "down"), weights)


def step(own: Any, weights: list[Tensor], rows: Sequence[int], when: str, ranks: Ranks) -> None:
    """Check forward, the gradient of x, then the gradients of router and experts."""
    rank, size = ranks.rank, ranks.size
    drawn = ranks.draw((sum(rows), WIDTH), (sum(rows), WIDTH))
    pairs = list(zip(*(one.split(list(rows)) for one in drawn), strict=True))  # x and dy by rank
    x, dy = pairs[rank]
    mine = x.clone().requires_grad_()
    y = ranks.run("forward" + when, own, mine)
    ranks.same("y", y, mixture(x, *weights), mistakes=wrong_results(y, x, weights))
    # The copies for the experts travel, and their results. Numbers of rows are few.
    _, chosen = chosen_by(drawn[0], weights[0])
    here = (chosen * size // EXPERTS == rank).sum().item()
    needed = (here + CHOSEN * len(x)) * WIDTH * (size - 1) / size
    sent = ranks.calls.sent()
    ranks.holds("sent", sent <= MOST * needed + EXPERTS * size, sent=sent, needed=needed)
    ranks.run("backward" + when, y.backward, dy.clone())
    by_rank = [gradients(mixture, (own_x, *weights), own_dy) for own_x, own_dy in pairs]
    ranks.same("the gradient of x", mine.grad, by_rank[rank][0])
    ranks.run("after finish" + when, own.finish)
    summands = [one[1] for one in by_rank]
    ranks.same("the gradient of the router", gradient(own, "router"), sum_of(summands),
               summands=summands)  # fmt: skip
    for place, name in ((2, "up"), (3, "down")):
        slices = sum_of([one[place] for one in by_rank]).chunk(size)
        mistakes = {"summed over ranks": sum_of(slices)} if size > 1 else {}
        ranks.same(f"the gradient of {name}", gradient(own, name), slices[rank],
                   mistakes=mistakes)  # fmt: skip


def mixture(x: Tensor, router: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Compute every expert for every row, and keep the chosen ones."""
    weights, chosen = chosen_by(x, router)
    results = each_expert(x, up, down)[torch.arange(len(x))[:, None], chosen]
    return (weights[:, :, None] * results).sum(1)


def chosen_by(x: Tensor, router: Tensor) -> tuple[Tensor, Tensor]:
    weights, chosen = (x @ router.T).softmax(1).topk(CHOSEN, 1)
    return weights / weights.sum(1, keepdim=True), chosen


def each_expert(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Map [rows, width] to [rows, experts, width]."""
    return torch.einsum("rei,eiw->rew", torch.einsum("rw,ewi->rei", x, up).relu(), down)


def wrong_results(y: Any, x: Tensor, weights: list[Tensor]) -> dict[str, Tensor]:
    """Return the results of likely mistakes: copies in the order in which they were sent or sorted
    once more, and the nearest sums of the right copies with any weights."""
    shares, chosen = chosen_by(x, weights[0])
    right = each_expert(x, *weights[1:])[torch.arange(len(x))[:, None], chosen]
    order = chosen.flatten().argsort(stable=True)
    in_order = right.flatten(0, 1)[order].view_as(right)
    again = in_order.flatten(0, 1)[order].view_as(right)
    found = {
        "not restored": (shares[:, :, None] * in_order).sum(1),
        "restored twice": (shares[:, :, None] * again).sum(1),
    }
    if isinstance(y, Tensor) and y.shape == x.shape and y.dtype == x.dtype:
        columns = right.mT
        of_any = torch.linalg.lstsq(columns, y.detach()[:, :, None], driver="gelsd").solution
        found["weights"] = (columns @ of_any)[:, :, 0]
    return found
