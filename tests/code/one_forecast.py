"""Work of one rank in the tests of the weather model."""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

import torch
import torch.distributed as dist


def program(argv: list[str], environment: dict[str, str] | None = None) -> str:
    """Run the whole program, and return its output."""
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


def in_kind(batches: Any, kind: torch.dtype) -> Any:
    """Convert batches to this number type; the starts of pieces stay integers."""

    def of_epoch(epoch: int) -> Any:
        for now, later, corner in batches(epoch):
            yield now.to(kind), later.to(kind), corner

    return of_epoch


def steps(argv: list[str], count: int, kind: torch.dtype = torch.float64) -> dict[str, Any]:
    """Return the losses of some steps, the scores after half of them, and this rank's slice of each
    gradient in the first and the last step."""
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
                    name: (slice_of(p), p.grad.numpy().copy())
                    for name, p in learning.plain.named_parameters()
                }
            if number == count // 2:
                judged = judge(learning, 1)
                scores = (judged.loss, judged.wind_rmse, judged.persistence_rmse)
    finally:
        torch.set_default_dtype(torch.float32)
    return {"losses": losses, "gradients": gradients, "scores": scores}


def overflowing_steps(argv: list[str]) -> list[bool]:
    """Tell which of two steps moved the weights; in the first, a gradient of rank 1 overflows."""
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
