"""`DDP(model)`: every rank trains on its own samples, and all hold the same model.

own = DDP(model)                    the weights of rank 0, on every rank
loss_of(own(x), y).backward()
own.finish()                        the gradients are the mean over all ranks
"""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trials.calls import Calls
from trials.drawn import draw_samples
from trials.group import TrialRanks
from trials.seen.below import Below
from trials.shares import close, right_digits, shares

NAME = "DDP"
INPUTS, WIDTH, STEPS = 6, 9, 2
PATIENCE_S = 0.5


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
    gc.freeze()  # what is there already is not looked at again in each step
    rank, calls = dist.get_rank(), group.calls
    serial, model = Serial(seed), Serial(seed + rank)
    name_gradients(model, calls)
    begun = [Serial(seed + other).state_dict() for other in range(size)]
    calls.begin(size, "weights after wrapping")
    calls.phase = "wrapping"
    with Below(calls), noticed(lambda: group.notes.write("torch's own")):
        own = made(model)
    group.kept.append(own)
    if not group.agrees(same_weights(model, serial, begun)):
        return
    before = {name: torch.zeros_like(gradient) for name, gradient in gradients(serial).items()}
    alive = math.inf
    for step in range(1, STEPS + 1):
        calls.begin(size, f"gradients of step {step}")
        model.zero_grad()
        batch = draw_samples(size, INPUTS, WIDTH, seed + step)
        found = one_step(own, model, serial, batch, calls, before)
        if not group.agrees(found):
            return
        alive = numbers_alive(alive)
        group.notes.write("alive", numbers=alive)
        before = gradients(serial)
        descend(model)
        descend(serial)
    calls.begin(size, f"weights after {STEPS} steps")
    group.agrees(same_weights(model, serial, begun))


@contextlib.contextmanager
def noticed(tell: Callable[[], object]) -> Iterator[None]:
    """Tells of a model that is given to PyTorch's own data parallelism."""
    original = DistributedDataParallel.__init__

    @functools.wraps(original)
    def init(*args: Any, **named: Any) -> None:
        tell()
        original(*args, **named)

    DistributedDataParallel.__init__ = init  # type: ignore[method-assign]
    try:
        yield
    finally:
        DistributedDataParallel.__init__ = original  # type: ignore[method-assign]


def numbers_alive(most: float) -> int:
    """Of all tensors: what a list keeps from step to step is seen here. A thread of gloo may hold
    what it sent a little longer than the program does: more than `most` are counted again."""
    until_s = time.monotonic() + PATIENCE_S
    while (numbers := _numbers_alive()) > most and time.monotonic() < until_s:
        time.sleep(0.01)
    return numbers


def _numbers_alive() -> int:
    gc.collect()
    storages = {
        one.untyped_storage()._cdata: one.untyped_storage().nbytes() // one.element_size()
        for one in gc.get_objects()
        if type(one) in (torch.Tensor, nn.Parameter)
    }
    return sum(storages.values())


def descend(model: nn.Module) -> None:
    """A step of plain gradient descent. (torch.optim takes seconds to import.)"""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(0.1 * parameter.grad)


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
    calls: Calls, before: dict[str, torch.Tensor],
) -> dict[str, Any]:  # fmt: skip
    rank, size = dist.get_rank(), dist.get_world_size()
    x, y = batch
    by_rank = [alone(serial, x[other::size], y[other::size]) for other in range(size)]
    wanted = alone(serial, x, y)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    calls.weights = {value.data_ptr(): name for name, value in model.state_dict().items()}
    with Below(calls):
        calls.phase = "forward"
        answer = own(x[rank::size])
        if not isinstance(answer, torch.Tensor):
            return {"ok": False, "slip": "forward", "has": type(answer).__name__}
        loss = nn.functional.mse_loss(answer, y[rank::size])
        calls.phase = "backward"
        loss.backward()
        calls.phase = "finish"
        own.finish()
        calls.phase = ""
    found = changed(model, weights) or judged(model, wanted, by_rank, before)
    return {**found, "parameters": count(model), "came": calls.gradients}


def changed(model: nn.Module, weights: dict[str, torch.Tensor]) -> dict[str, Any]:
    """What is the optimizer's to change, or nobody's."""
    table = model.state_dict()
    moved = [name for name, value in weights.items() if not torch.equal(table[name], value)]
    if moved:
        return {"ok": False, "slip": "moved", "wrong": moved, "of": len(weights)}
    thawed = model.get_parameter("frozen").requires_grad
    return {"ok": False, "slip": "thawed", "wrong": ["frozen"], "of": 1} if thawed else {}


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
    model: nn.Module, wanted: dict[str, torch.Tensor], by_rank: list[dict[str, torch.Tensor]],
    before: dict[str, torch.Tensor],
) -> dict[str, Any]:  # fmt: skip
    found = gradients(model)
    wrong = [name for name in wanted if not close(found[name], wanted[name])]
    if not wrong:
        return {"ok": True}
    parameters = dict(model.named_parameters())
    return {
        "ok": False, "slip": "gradients", "wrong": wrong, "of": len(wanted),
        "shares": {name: shares(found[name], [one[name] for one in by_rank]) for name in wrong},
        "none": [name for name in wrong if parameters[name].grad is None],
        "digits": min(right_digits(found[name], wanted[name]) for name in wrong),
        "added up": all(close(found[n], wanted[n] + before[n]) for n in wrong),
    }  # fmt: skip


def same_weights(
    model: nn.Module, serial: nn.Module, begun: list[dict[str, torch.Tensor]]
) -> dict[str, Any]:
    """`begun`: what each rank drew."""
    table, wanted = model.state_dict(), serial.state_dict()
    wrong = [name for name in wanted if not close(table[name], wanted[name])]
    if not wrong:
        return {"ok": True}

    def are(name: str, drawn: torch.Tensor) -> bool:
        return close(table[name], drawn)

    whose = [
        rank for rank, drawn in enumerate(begun) if all(are(name, drawn[name]) for name in wrong)
    ]
    means = {name: torch.stack([drawn[name] for drawn in begun]).mean(0) for name in wrong}
    mine = begun[dist.get_rank()]
    return {
        "ok": False, "slip": "weights", "wrong": wrong, "of": len(wanted), "whose": whose,
        "own": [name for name in wrong if are(name, mine[name])],
        "buffers": [name for name, _ in model.named_buffers()],
        "mean": all(are(name, means[name]) for name in wrong),
        "digits": min(right_digits(table[name], wanted[name]) for name in wrong),
    }  # fmt: skip
