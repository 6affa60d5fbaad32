"""`DDP(model)`: every rank trains on its own samples, and all hold the same model.

own = DDP(model)                    the weights of rank 0, on every rank
loss_of(own(x), y).backward()
own.finish()                        the gradients are the mean over all ranks
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from trials.calls import Calls
from trials.group import TrialRanks
from trials.shares import close, shares

NAME = "DDP"
SAMPLES, INPUTS, WIDTH, STEPS = 3, 6, 9, 2


class Serial(nn.Module):
    """Small, with what real models have: a buffer, a frozen parameter, a parameter of one row."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Linear(INPUTS, WIDTH, dtype=torch.float64)
        self.second = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        self.last = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        frozen = torch.randn(WIDTH, dtype=torch.float64)
        self.frozen = nn.Parameter(frozen, requires_grad=False)
        self.offset: torch.Tensor
        self.register_buffer("offset", torch.randn(WIDTH, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        middle = torch.tanh(self.second(torch.tanh(self.first(x))) * self.frozen)
        answer: torch.Tensor = self.last(middle + self.offset)
        return answer


def attempt(made: Any, size: int, seed: int, group: TrialRanks) -> None:
    """Two steps of the learner's model and of the serial one, compared after each part."""
    rank, calls = dist.get_rank(), group.calls
    serial, model = Serial(seed), Serial(seed + rank)
    name_gradients(model, calls)
    begun = {name: value.clone() for name, value in model.state_dict().items()}
    calls.begin(size, "weights after wrapping")
    calls.phase = "wrapping"
    own = made(model)
    group.kept.append(own)
    if not group.agrees(same_weights(model, serial, begun)):
        return
    for step in range(1, STEPS + 1):
        calls.begin(size, f"gradients of step {step}")
        model.zero_grad()
        if not group.agrees(one_step(own, model, serial, draw(size, seed + step), calls)):
            return
        descend(model)
        descend(serial)
    calls.begin(size, f"weights after {STEPS} steps")
    group.agrees(same_weights(model, serial, begun))


def descend(model: nn.Module) -> None:
    """A step of plain gradient descent. (torch.optim takes seconds to import.)"""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(0.1 * parameter.grad)


def draw(size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The samples of all ranks: those of rank r are rows r, r + size, …"""
    generator = torch.Generator().manual_seed(seed)
    x, y = (
        torch.randn(SAMPLES * size, width, generator=generator, dtype=torch.float64)
        for width in (INPUTS, WIDTH)
    )
    return x, y


def gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.detach().clone()
        for name, p in model.named_parameters()
        if p.requires_grad
    }


def alone(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    """The serial model's gradients of these samples."""
    model.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    return gradients(model)


def one_step(
    own: Any, model: nn.Module, serial: nn.Module, batch: tuple[torch.Tensor, torch.Tensor],
    calls: Calls,
) -> dict[str, Any]:  # fmt: skip
    rank, size = dist.get_rank(), dist.get_world_size()
    x, y = batch
    by_rank = [alone(serial, x[other::size], y[other::size]) for other in range(size)]
    wanted = alone(serial, x, y)
    calls.phase = "forward"
    loss = nn.functional.mse_loss(own(x[rank::size]), y[rank::size])
    calls.phase = "backward"
    loss.backward()
    calls.phase = "finish"
    own.finish()
    calls.phase = ""
    return {**judged(gradients(model), wanted, by_rank), "parameters": count(model)}


def name_gradients(model: nn.Module, calls: Calls) -> None:
    """So that the list of calls says whose gradient was sent; before the learner's own hooks."""
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(
                lambda p, name=name: calls.know(p.grad, name)  # type: ignore[misc]
            )


def count(model: nn.Module) -> dict[str, int]:
    return {name: p.numel() for name, p in model.named_parameters() if p.requires_grad}


def judged(
    found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor],
    by_rank: list[dict[str, torch.Tensor]],
) -> dict[str, Any]:  # fmt: skip
    wrong = [name for name in wanted if not close(found[name], wanted[name])]
    if not wrong:
        return {"ok": True}
    held = {name: shares(found[name], [one[name] for one in by_rank]) for name in wrong}
    return {"ok": False, "slip": "gradients", "wrong": wrong, "of": len(wanted), "shares": held}


def same_weights(
    model: nn.Module, serial: nn.Module, begun: dict[str, torch.Tensor]
) -> dict[str, Any]:
    table, wanted = model.state_dict(), serial.state_dict()
    wrong = [name for name in wanted if not close(table[name], wanted[name])]
    if not wrong:
        return {"ok": True}
    still = [name for name in wrong if bool(torch.equal(table[name], begun[name]))]
    return {"ok": False, "slip": "weights", "wrong": wrong, "own": still, "of": len(wanted)}
