"""`Zero1(parameters, make_optimizer)`: every rank keeps the optimizer's state of its shard alone.

own = Zero1(model.parameters(), make_optimizer)    make_optimizer([tensor, …]).step() uses .grad
loss_of(model(x), y).backward()
own.step()                                         the parameters are the new ones, on every rank
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from trials.counted_adam import Means, Optimizers, gradient_of_first
from trials.drawn import draw_samples
from trials.group import TrialRanks
from trials.shares import EQUAL, right_digits, shares

NAME = "Zero1"
STEPS = 3
WIDTHS = {  # inputs and outputs of two layers
    "a model of 84 numbers": (5, 4, 12),
    "a model of 47 numbers, which no number of ranks divides": (4, 6, 2),
    "a model of 3 numbers, fewer than there may be ranks": (2, 1),
}
EXTRA = {"a model of 47 numbers, which no number of ranks divides": 3}
"""Numbers of one more parameter."""


class TanhLayers(nn.Module):
    def __init__(self, widths: tuple[int, ...], extra: int, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.ModuleList(
            nn.Linear(a, b, dtype=torch.float64) for a, b in pairwise(widths)
        )
        offset = torch.randn(extra, dtype=torch.float64)
        self.offset = nn.Parameter(offset) if extra else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x if self.offset is None else x + self.offset.prod()


def attempt(made: Any, size: int, seed: int, group: TrialRanks) -> None:
    for number, case in enumerate(WIDTHS):
        if not one_model(made, case, seed + 10 * number, group, size):
            return


def one_model(made: Any, case: str, seed: int, group: TrialRanks, size: int) -> bool:
    widths, extra = WIDTHS[case], EXTRA.get(case, 0)
    serial, model = TanhLayers(widths, extra, seed), TanhLayers(widths, extra, seed)
    group.calls.begin(size, f"{case}, before the first step")
    optimizers = Optimizers(group.calls)
    own = made(model.parameters(), optimizers.make)
    group.kept.append(own)
    means, before = Means(flat(serial)), torch.zeros(0)
    for step in range(1, STEPS + 1):
        group.calls.begin(size, f"{case}, step {step}")
        optimizers.begin()
        x, y = draw_samples(size, widths[0], widths[-1], seed + step)
        rank = dist.get_rank()
        by_rank = [slope(serial, x[other::size], y[other::size]) for other in range(size)]
        backward(model, x[rank::size], y[rank::size])
        own.step()
        found = judged(flat(model), flat(serial), means, by_rank, before)
        if not group.agrees(found | counted(optimizers, model)):
            return False
        before = torch.stack(by_rank).mean(0)
        load(serial, flat(serial) - means.of(before))
    return True


def backward(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    model.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()


def slope(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """All gradients of these samples, in one row."""
    backward(model, x, y)
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def load(model: nn.Module, numbers: torch.Tensor) -> None:
    parameters = list(model.parameters())
    with torch.no_grad():
        for p, part in zip(parameters, numbers.split([p.numel() for p in parameters]), strict=True):
            p.copy_(part.view_as(p))


def judged(
    found: torch.Tensor, old: torch.Tensor, means: Means, by_rank: list[torch.Tensor],
    before: torch.Tensor,
) -> dict[str, Any]:  # fmt: skip
    """For each number, which gradient (and which state) would have led there."""
    mean = torch.stack(by_rank).mean(0)
    right = old - means.copy().of(mean)
    if equal(found, right).all():
        return {"ok": True}
    ways = {
        "right": right,
        "old": old,
        "sum": old - means.copy().of(mean * len(by_rank)),
        "twice divided": old - means.copy().of(mean / len(by_rank)),
        "new state": old - Means(old).of(mean),
    }
    if len(before):
        ways["added up"] = old - means.copy().of(mean + before)
    for other, gradient in enumerate(by_rank):
        ways[f"rank {other}"] = old - means.copy().of(gradient)
        ways[f"share of rank {other}"] = old - means.copy().of(gradient / len(by_rank))
    places = {name: equal(found, way).nonzero().flatten().tolist() for name, way in ways.items()}
    moved = sum(bool(equal(right, number).any()) for number in found)
    told = {
        "ok": False, "slip": "parameters", "elsewhere": moved,
        "ways": {name: some for name, some in places.items() if some},
    }  # fmt: skip
    if means.steps == 0:  # then the way tells the gradient
        told["digits"] = right_digits(found - old, right - old)
        told["shares"] = shares(gradient_of_first(old - found), by_rank)
    return told


def equal(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one - other).abs() <= EQUAL * torch.clamp(other.abs(), min=1.0)


def counted(optimizers: Optimizers, model: nn.Module) -> dict[str, Any]:
    """Of how many numbers this rank has optimizer state, and in what rows they lie; and what the
    optimizer did in this step."""
    parameters = list(model.parameters())
    known = {p.untyped_storage()._cdata for p in parameters}
    rows = [(t, t.untyped_storage()) for t in optimizers.tensors]
    return {
        "numbers": sum(p.numel() for p in parameters),
        "state": sum(tensor.numel() for tensor in optimizers.tensors),
        "steps": optimizers.steps,
        "moved": optimizers.moved,
        "views": sum(
            row.nbytes() > tensor.itemsize * tensor.numel() and row._cdata not in known
            for tensor, row in rows
        ),
    }
