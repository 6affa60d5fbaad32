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


def steps(argv: list[str], count: int) -> dict[str, Any]:
    """In float64: gradients of the first step, losses of some, and how the model is judged."""
    from train_vit import build, judge, train_step
    from weather.configuration import parse

    torch.set_default_dtype(torch.float64)
    try:
        learning = build(parse(argv, dist.get_world_size()), torch.device("cpu"))
        losses, gradients = [], {}
        for _, batch in zip(range(count), learning.train(1), strict=False):
            loss = train_step(learning, (batch[0].double(), batch[1].double(), batch[2]))
            dist.all_reduce(loss)
            losses.append(loss.item() / dist.get_world_size())
            gradients = gradients or {
                name: p.grad.numpy().copy() for name, p in learning.plain.named_parameters()
            }
        learning.plain.float()
        judged = judge(learning, 1)
    finally:
        torch.set_default_dtype(torch.float32)
    scores = (judged.loss, judged.wind_rmse, judged.persistence_rmse)
    return {"losses": losses, "gradients": gradients, "scores": scores}
