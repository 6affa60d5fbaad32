"""Test 11.1: `Zero1(parameters, make_optimizer)` keeps only the optimizer state of a rank's
shard.

    own = Zero1(model.parameters(), make_optimizer)    make_optimizer([tensor, …]).step() uses .grad
    loss_of(model(x), y).backward()
    own.step()                                         the parameters are updated on every rank"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from trials.ranks import Ranks

SAMPLES, STEPS, RATE, MOMENTUM = 3, 3, 0.1, 0.9
CASES = {  # inputs and outputs of the layers, and the numbers of one more parameter
    "a model of 84 numbers": ((5, 4, 12), 0),
    "a model of 47 numbers, not a multiple of 2, 3 or 4": ((4, 6, 2), 3),
    "a model of 3 numbers, fewer than there may be ranks": ((2, 1), 0),
}
# Tolerance for a vector slightly longer than the shard, or for a summed norm.
SPARE = 1.4


class Model(nn.Module):
    def __init__(self, widths: tuple[int, ...], extra: int, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.ModuleList(
            nn.Linear(a, b, dtype=torch.float64) for a, b in pairwise(widths)
        )
        offset = torch.randn(extra, dtype=torch.float64)
        self.offset = nn.Parameter(offset) if extra else None

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x if self.offset is None else x + self.offset.prod()


class Momentum:
    """Gradient descent with momentum, with one number of state per parameter. (torch.optim takes
    seconds to import.)"""

    def __init__(self, tensors: Any) -> None:
        groups = [one["params"] if isinstance(one, dict) else [one] for one in tensors]
        self.tensors: list[Tensor] = [tensor for group in groups for tensor in group]
        self.means = [torch.zeros_like(tensor) for tensor in self.tensors]
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        with torch.no_grad():
            for tensor, mean in zip(self.tensors, self.means, strict=True):
                if tensor.grad is not None:
                    tensor.sub_(RATE * mean.mul_(MOMENTUM).add_(tensor.grad))

    def zero_grad(self, **_: object) -> None:
        for tensor in self.tensors:
            tensor.grad = None


def test(Zero1: Any, ranks: Ranks) -> None:
    for case, (widths, extra) in CASES.items():
        made: list[Momentum] = []

        def make(tensors: Any, *, made: list[Momentum] = made, **_: object) -> Momentum:
            made.append(Momentum(tensors))
            return made[-1]

        ranks.seed += 1
        model, serial = Model(widths, extra, ranks.seed), Model(widths, extra, ranks.seed)
        own = ranks.run(f"{case}: before the first step", Zero1, model.parameters(), make)
        state = last = torch.zeros_like(row(serial))
        for step in range(1, STEPS + 1):
            ranks.begin(f"{case}: step {step}")
            x, y = ranks.draw((SAMPLES * ranks.size, widths[0]), (SAMPLES * ranks.size, widths[-1]))
            by_rank = [gradient_of(serial, x[r :: ranks.size], y[r :: ranks.size])
                       for r in range(ranks.size)]  # fmt: skip
            gradient, before = torch.stack(by_rank).mean(0), row(model)
            with ranks.phase("step"):
                gradient_of(model, x[ranks.rank :: ranks.size], y[ranks.rank :: ranks.size])
                own.step()
            ranks.all_waited_for()
            ranks.holds("stepped", sum(one.steps for one in made) >= step)
            ranks.agree()  # otherwise it would show first on a rank that did step
            # Change of each parameter in units of the rate: the sum of its causes.
            way = (before - row(model)) / RATE
            summands = [*by_rank, state] if step > 1 else by_rank
            mistakes = {"new state": gradient, "added up": state + gradient + last}
            ranks.same("the step", way, state + gradient, summands=summands, pieces=ranks.size,
                       mistakes=mistakes if step > 1 else {})  # fmt: skip
            new = before - RATE * (state + gradient)
            nn.utils.vector_to_parameters(new, serial.parameters())
            state, last = MOMENTUM * (state + gradient), gradient
        if case == next(iter(CASES)):
            is_cut(made, model, ranks)


def is_cut(made: list[Momentum], model: nn.Module, ranks: Ranks) -> None:
    """Check that a rank has one shard's state, and sends a reduce-scatter and a gather."""
    tensors = [tensor for optimizer in made for tensor in optimizer.tensors]
    state, numbers = sum(tensor.numel() for tensor in tensors), len(row(model))
    ranks.holds("state", 0 < state <= SPARE * numbers / ranks.size, state=state, numbers=numbers)
    views = [t for t in tensors if t.untyped_storage().nbytes() > t.itemsize * t.numel()]
    ranks.holds("alone", not views or ranks.size == 1)
    needed = 2 * (ranks.size - 1) / ranks.size
    sent = ranks.calls.sent() / numbers
    ranks.holds("sent", sent <= needed + 0.5 * needed / 2, sent=sent, needed=needed)


def gradient_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return all gradients as one vector; a hook of the learner's may have removed some."""
    model.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None] or [x])


def row(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach()
