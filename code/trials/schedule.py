"""Test 13.5: `one_f_one_b(stages, stage, micro_batches)`, an order of steps, run on real ranks.

Each rank is a stage of one layer. Sends do not block, receives do: if the order needs an input too
early, it never arrives, and the watchdog ends the run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trials.layers.linear import gradients
from trials.ranks import Ranks

NAME = "one_f_one_b"
ROWS, WIDTH = 3, 4
MICRO_BATCHES = (1, 6)


def test(one_f_one_b: Any, ranks: Ranks) -> None:
    """Test with fewer micro-batches than stages, and with more."""
    for count in MICRO_BATCHES:
        ranks.begin(f"{count} micro-batch{'es' * (count > 1)}")
        inputs, dy, *weights = ranks.draw(
            (count, ROWS, WIDTH), (count, ROWS, WIDTH), *[(WIDTH, WIDTH)] * ranks.size
        )
        wanted = gradients(whole, (inputs, *weights), dy)[1 + ranks.rank]
        mine = weights[ranks.rank].clone().requires_grad_()
        with ranks.phase("pipeline"):
            steps = called(one_f_one_b, stages=ranks.size, stage=ranks.rank, micro_batches=count)
            carry_out(steps, mine, inputs, dy)
        ranks.same("the gradient of the weight", mine.grad, wanted)


def called(function: Callable[..., Any], **given: int) -> Any:
    """Call by position, or by name if the parameters have these names in any order."""
    try:
        names = set(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some builtins have no signature
        names = set()
    return function(**given) if names == set(given) else function(*given.values())


def whole(x: Tensor, *weights: Tensor) -> Tensor:
    for weight in weights:
        x = torch.tanh(x @ weight)
    return x


def carry_out(steps: Iterable[tuple[str, int]], weight: Tensor, inputs: Tensor, dy: Tensor) -> None:
    stage, stages = dist.get_rank(), dist.get_world_size()
    held: dict[int, tuple[Tensor, Tensor]] = {}
    sent: list[tuple[Any, Tensor]] = []
    for phase, number in steps:
        m, forward = int(number), phase == "forward"
        come = (inputs if forward else dy)[m].clone()
        source, target = (stage - 1, stage + 1) if forward else (stage + 1, stage - 1)
        if 0 <= source < stages:
            dist.recv(come, source)
        if forward:
            held[m] = come.requires_grad_(), torch.tanh(come @ weight)
            result = held[m][1].detach()
        else:
            x, y = held.pop(m)
            y.backward(come)
            assert x.grad is not None
            result = x.grad
        if 0 <= target < stages:
            sent.append((dist.isend(result, target), result))
    for work, _ in sent:
        work.wait()
