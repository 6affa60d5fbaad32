"""`Zero1(parameters, make_optimizer)`: every rank keeps the optimizer's state of its shard alone.

own = Zero1(model.parameters(), make_optimizer)    make_optimizer([tensor, …]).step() uses .grad
loss_of(model(x), y).backward()
own.step()                                         the parameters are the new ones, on every rank
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import nn

from trials.group import TrialRanks
from trials.shares import EQUAL

NAME = "Zero1"
SAMPLES, STEPS = 3, 3
WIDTHS = {  # inputs and outputs of two layers
    "a model of 84 numbers": (5, 4, 12),
    "a model of 47 numbers, which no number of ranks divides": (4, 6, 2),
    "a model of 3 numbers, fewer than there may be ranks": (2, 1),
}
EXTRA = {"a model of 47 numbers, which no number of ranks divides": 3}
"""Numbers of one more parameter."""
RATE, FADING, FADING_SQUARES, SMALL = 0.1, 0.9, 0.95, 0.1


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


class CountedAdam:
    """Adam on these tensors. How many numbers its state has is counted, and its small number is
    large enough for a gradient twice as long to be seen. (torch.optim takes seconds to import.)"""

    made: ClassVar[list[CountedAdam]] = []

    def __init__(self, tensors: torch.Tensor | Iterable[torch.Tensor], **_: object) -> None:
        given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        self.tensors = given
        self.state = [_Means(tensor) for tensor in given]
        self.made.append(self)

    @property
    def numbers(self) -> int:
        return sum(tensor.numel() for tensor in self.tensors)

    def step(self) -> None:
        with torch.no_grad():
            for tensor, means in zip(self.tensors, self.state, strict=True):
                if tensor.grad is not None:
                    tensor.sub_(means.of(tensor.grad))

    def zero_grad(self, **_: object) -> None:
        for tensor in self.tensors:
            tensor.grad = None


class _Means:
    def __init__(self, like: torch.Tensor) -> None:
        self.first, self.second = torch.zeros_like(like), torch.zeros_like(like)
        self.steps = 0

    def of(self, gradient: torch.Tensor) -> torch.Tensor:
        """The way that a parameter goes for this gradient."""
        self.steps += 1
        self.first = FADING * self.first + (1 - FADING) * gradient
        self.second = FADING_SQUARES * self.second + (1 - FADING_SQUARES) * gradient**2
        first = self.first / (1 - FADING**self.steps)
        second = self.second / (1 - FADING_SQUARES**self.steps)
        return RATE * first / (second.sqrt() + SMALL)

    def copy(self) -> _Means:
        other = _Means(self.first)
        other.first, other.second, other.steps = self.first, self.second, self.steps
        return other


def attempt(made: Any, size: int, seed: int, group: TrialRanks) -> None:
    for number, case in enumerate(WIDTHS):
        CountedAdam.made = []
        if not one_model(made, case, seed + 10 * number, group, size):
            return


def one_model(made: Any, case: str, seed: int, group: TrialRanks, size: int) -> bool:
    widths, extra = WIDTHS[case], EXTRA.get(case, 0)
    serial, model = TanhLayers(widths, extra, seed), TanhLayers(widths, extra, seed)
    group.calls.begin(size, f"{case}, before the first step")
    own = made(model.parameters(), CountedAdam)
    group.kept.append(own)
    means, before = _Means(flat(serial)), torch.zeros(0)
    for step in range(1, STEPS + 1):
        group.calls.begin(size, f"{case}, step {step}")
        x, y = draw(size, widths, seed + step)
        rank = dist.get_rank()
        by_rank = [slope(serial, x[other::size], y[other::size]) for other in range(size)]
        slope(model, x[rank::size], y[rank::size])
        own.step()
        found = judged(flat(model), flat(serial), means, by_rank, before)
        if not group.agrees(found | counted(group, len(by_rank[0]))):
            return False
        before = torch.stack(by_rank).mean(0)
        load(serial, flat(serial) - means.of(before))
    return True


def draw(size: int, widths: tuple[int, ...], seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The samples of all ranks: those of rank r are rows r, r + size, …"""
    generator = torch.Generator().manual_seed(seed)
    x, y = (
        torch.randn(SAMPLES * size, width, generator=generator, dtype=torch.float64)
        for width in (widths[0], widths[-1])
    )
    return x, y


def slope(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """All gradients of these samples, in one row."""
    model.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def load(model: nn.Module, numbers: torch.Tensor) -> None:
    parameters = list(model.parameters())
    with torch.no_grad():
        for p, part in zip(parameters, numbers.split([p.numel() for p in parameters]), strict=True):
            p.copy_(part.view_as(p))


def judged(
    found: torch.Tensor, old: torch.Tensor, means: _Means, by_rank: list[torch.Tensor],
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
        "new state": old - _Means(old).of(mean),
    }
    if len(before):
        ways["added up"] = old - means.copy().of(mean + before)
    for other, gradient in enumerate(by_rank):
        ways[f"rank {other}"] = old - means.copy().of(gradient)
        ways[f"share of rank {other}"] = old - means.copy().of(gradient / len(by_rank))
    told = {name: equal(found, way).nonzero().flatten().tolist() for name, way in ways.items()}
    moved = sum(bool(equal(right, number).any()) for number in found)
    return {
        "ok": False, "slip": "parameters", "elsewhere": moved,
        "ways": {name: places for name, places in told.items() if places},
    }  # fmt: skip


def equal(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one - other).abs() <= EQUAL * torch.clamp(other.abs(), min=1.0)


def counted(group: TrialRanks, numbers: int) -> dict[str, Any]:
    """How many numbers have optimizer state on this rank, and what went through all_reduce."""
    return {
        "numbers": numbers,
        "state": sum(optimizer.numbers for optimizer in CountedAdam.made),
        "reduced": group.calls.all_reduced(),
    }
