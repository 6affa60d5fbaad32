"""Tests 02.3 and 02.4: `DDP(model)` trains on each rank's own samples, and all models stay
equal.

    own = DDP(model)                    the weights of rank 0, on every rank
    loss_of(own(x), y).backward()
    own.finish()                        the gradients are the mean over all ranks

With buckets, they are summed during backward."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from trials.memory import held_numbers, ignore_what_is_there
from trials.ranks import Ranks

INPUTS, WIDTH, SAMPLES, STEPS = 6, 9, 3, 2
RATE = 0.1
# Factors on the number of gradients; they leave room to sum a loss or a norm too.
TWICE, KEEPS = 1.5, 0.5


class Serial(nn.Module):
    """Small model with the elements of real ones: a buffer, a frozen and a vector parameter."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Linear(INPUTS, WIDTH, dtype=torch.float64)
        self.second = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        self.last = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        frozen = torch.randn(WIDTH, dtype=torch.float64)
        self.frozen = nn.Parameter(frozen, requires_grad=False)
        self.offset: Tensor
        self.register_buffer("offset", torch.randn(WIDTH, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        middle = torch.tanh(self.second(torch.tanh(self.first(x))) * self.frozen)
        answer: Tensor = self.last(middle + self.offset)
        return answer


def test(DDP: Any, ranks: Ranks) -> None:
    """Run two steps of the learner's model and of the serial model, and compare after each part."""
    ignore_what_is_there()
    serial, model = Serial(ranks.seed), Serial(ranks.seed + ranks.rank)
    drawn = [Serial(ranks.seed + rank).state_dict() for rank in range(ranks.size)]
    count_gradients(model, ranks)
    own = ranks.run("weights after wrapping", DDP, model)
    ranks.same("the weights", model.state_dict(), serial.state_dict(), summands=drawn)
    ranks.holds("frozen", not model.frozen.requires_grad)
    last = {name: torch.zeros_like(p) for name, p in model.named_parameters() if p.requires_grad}
    held = float("inf")
    for step in range(1, STEPS + 1):
        ranks.begin(f"gradients of step {step}")
        model.zero_grad()
        x, y = ranks.draw((SAMPLES * ranks.size, INPUTS), (SAMPLES * ranks.size, WIDTH))
        by_rank = [gradients_of(serial, x[r :: ranks.size], y[r :: ranks.size])
                   for r in range(ranks.size)]  # fmt: skip
        wanted = gradients_of(serial, x, y)
        added_up = {name: one + last[name] for name, one in wanted.items()}
        weights = {name: one.clone() for name, one in model.state_dict().items()}
        with ranks.phase("forward"):
            answer = own(x[ranks.rank :: ranks.size])
        ranks.holds("forward", isinstance(answer, Tensor), has=type(answer).__name__)
        with ranks.phase("backward"):
            nn.functional.mse_loss(answer, y[ranks.rank :: ranks.size]).backward()
        with ranks.phase("finish"):
            own.finish()
        ranks.all_waited_for()
        table = model.state_dict()
        moved = [name for name, one in weights.items() if not torch.equal(table[name], one)]
        ranks.holds("weights unchanged", not moved, part=moved[:1])
        ranks.same("the gradients", gradients(model), wanted, summands=by_rank,
                   mistakes={"added up": added_up})  # fmt: skip
        ranks.holds("frozen", model.frozen.grad is None)
        count = sum(one.numel() for one in wanted.values())
        summed = sum(one["numbers"] for one in ranks.calls.made if one["call"] == "all_reduce")
        ranks.holds("sent once", summed <= TWICE * count, summed=summed, numbers=count)
        most = held + KEEPS * count
        held = held_numbers(most)
        ranks.holds("nothing kept", held <= most, more=held - most + KEEPS * count)
        last = wanted
        descend(model)
        descend(serial)
    ranks.same("the weights at the end", model.state_dict(), serial.state_dict())


def test_buckets(DDP: Any, ranks: Ranks) -> None:
    """Run the same test, and check which sums of the last step ran during backward."""
    test(DDP, ranks)
    calls, parameters = ranks.calls, sum(p.requires_grad for p in Serial(0).parameters())
    during = [one for one in calls.made if is_during(one, parameters)]
    ranks.holds("early", bool(during), parameters=parameters, calls=len(calls.made))
    ranks.holds("one thread", not any(one.get("thread") for one in during))
    blocked = [one["after"] for one in calls.waits if is_during(one, parameters)]
    ranks.holds("overlap", not blocked, after=blocked[:1], parameters=parameters)
    times = max(Counter(one["call"] for one in calls.made if one["numbers"]).values())
    ranks.holds("buckets", 1 < times < parameters, calls=times, parameters=parameters)


def is_during(one: dict[str, Any], parameters: int) -> bool:
    return one["phase"] == "backward" and bool(one["after"] < parameters)


def count_gradients(model: nn.Module, ranks: Ranks) -> None:
    def come(_: Tensor) -> None:
        ranks.calls.gradients += 1

    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(come)


def gradients(model: nn.Module) -> dict[str, Any]:
    return {name: p.grad for name, p in model.named_parameters() if p.requires_grad}


def gradients_of(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    return {name: one.clone() for name, one in gradients(model).items()}


def descend(model: nn.Module) -> None:
    """Do a step of plain gradient descent. (torch.optim takes seconds to import.)"""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(RATE * parameter.grad)
