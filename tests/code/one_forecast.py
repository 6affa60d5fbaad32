"""What a rank does in the tests of the weather model."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


def program(argv: list[str], environment: dict[str, str] | None = None) -> str:
    """What the whole program prints."""
    import train_vit

    printed = io.StringIO()
    changed = {name: os.environ.get(name) for name in environment or {}}
    os.environ.update(environment or {})
    try:
        with contextlib.redirect_stdout(printed):
            assert train_vit.main(argv) == 0
    finally:
        for name, value in changed.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return printed.getvalue()


class Repeated:
    """Stands for a recorder where there is no GPU: a step is repeated by computing it once more,
    from the tensors that it had when it was recorded."""

    def __init__(self, clear: Callable[[], None]) -> None:
        self.clear, self.recordings = clear, 0

    def beside(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def record(self, step: Callable[[], torch.Tensor]) -> tuple[Callable[[], None], torch.Tensor]:
        self.recordings += 1
        result = torch.zeros(())

        def replay() -> None:
            self.clear()  # a recorded backward pass writes its gradients, and adds to none
            result.copy_(step())

        return replay, result


def repeated_steps(argv: list[str], count: int, recorded: bool) -> dict[str, Any]:
    """Losses of some steps, recorded after the first ones or all computed, and how often."""
    from train_vit import build, recorded_step, train_step
    from weather.configuration import parse

    learning = build(parse(argv, 1), torch.device("cpu"))
    recorder = Repeated(lambda: learning.optimizer.zero_grad(set_to_none=True))
    if recorded:
        learning.recorded = recorded_step(learning, recorder)
    batches = learning.train(1)
    losses = [train_step(learning, next(batches)) for _ in range(count)]
    return {"losses": [loss.item() for loss in losses], "recordings": recorder.recordings}


def in_kind(batches: Any, kind: torch.dtype) -> Any:
    """Batches of numbers of that kind; where a piece begins stays whole."""

    def of_epoch(epoch: int) -> Any:
        for now, later, corner in batches(epoch):
            yield now.to(kind), later.to(kind), corner

    return of_epoch


def steps(argv: list[str], count: int, kind: torch.dtype = torch.float64) -> dict[str, Any]:
    """Losses of some steps, how the model is judged after half of them, and the gradients of the
    first and of the last one: of each parameter the slice that this rank has."""
    from parallel.tensor_parallel import slice_of
    from train_vit import build, judge, train_step
    from weather.configuration import parse

    torch.set_default_dtype(kind)
    try:
        learning = build(parse(argv, dist.get_world_size()), torch.device("cpu"))
        learning.train, learning.valid = (
            in_kind(b, kind) for b in (learning.train, learning.valid)
        )
        losses, gradients, scores = [], {}, ()
        for number, batch in zip(range(count), learning.train(1), strict=False):
            loss = train_step(learning, batch)
            dist.all_reduce(loss)
            losses.append(loss.item() / dist.get_world_size())
            if number in (0, count - 1):
                gradients[number] = {
                    name: (slice_of(p, learning.layout.tensor), p.grad.numpy().copy())
                    for name, p in learning.plain.named_parameters()
                }
            if number == count // 2:
                judged = judge(learning, 1)
                scores = (judged.loss, judged.wind_rmse, judged.persistence_rmse)
    finally:
        torch.set_default_dtype(torch.float32)
    return {"losses": losses, "gradients": gradients, "scores": scores}


def overflowing_steps(argv: list[str]) -> list[bool]:
    """Which of two steps moved the weights: in the first a gradient of rank 1 overflows."""
    from train_vit import build, train_step
    from weather.configuration import parse

    learning = build(parse(argv, dist.get_world_size()), torch.device("cpu"))
    weight, moved = learning.plain.layers[0].mlp[0].weight, []
    if dist.get_rank() == 1:
        weight.register_hook(lambda grad: torch.full_like(grad, torch.inf) if not moved else grad)
    learning.schedule.lr_warmup_iters = 0  # a rate of 0 would move nothing
    for _, batch in zip(range(2), learning.train(1), strict=False):
        before = weight.detach().clone()
        train_step(learning, batch)
        moved.append(not torch.equal(before, weight))
    return moved


def refusal(argv: list[str]) -> str:
    from process.errors import ArgumentsError

    try:
        program(argv)
    except ArgumentsError as error:
        return str(error)
    return "it ran"
