"""What a rank does in the tests of the weather model."""

from __future__ import annotations

import contextlib
import io
import os
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
