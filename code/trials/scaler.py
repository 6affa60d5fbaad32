"""Test 08.1: `Scaler(optimizer, scale, window, hysteresis)` searches for the loss scale.

own.scaled(loss)     the loss for the backward pass
own.step()           divides the gradients, makes or skips the step, and changes own.scale

Ranks have different weights, and a hook rounds their gradients to float16. In each step, one rank
has the largest gradient, 1, which overflows from a scale of 2^16 on. Once, it is NaN on the last
rank. Each parameter has a group of its own, and one never has a gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from trials.ranks import Ranks

START, WINDOW, HYSTERESIS, STEPS, NAN_AT = 2.0**17, 3, 2, 20, 10
NUMBERS, SMALL = 6, 2.0**-5
MISTAKES = ("alone", "nan", "zeros")


def test(Scaler: Any, ranks: Ranks) -> None:
    start, *drawn = ranks.draw((ranks.size, NUMBERS), *STEPS * [(ranks.size, NUMBERS)])
    steps = [planted(one, number) for number, one in enumerate(drawn)]
    right = list(search(steps, start, ranks.rank))
    wrong = {name: list(search(steps, start, ranks.rank, name)) for name in MISTAKES}
    weights: list[Tensor] = [nn.Parameter(one.clone()) for one in start[ranks.rank].split([4, 2])]
    for one in weights:
        one.register_hook(lambda gradient: gradient.half().double())
    optimizer = sgd([*weights, nn.Parameter(torch.zeros(1))])
    own = ranks.run("the search", Scaler, optimizer, START, WINDOW, HYSTERESIS)
    scales: list[float] = []
    for number, gradient in enumerate(steps):
        optimizer.zero_grad()
        loss = (torch.cat(weights) * gradient[ranks.rank]).sum()
        with ranks.phase("step"):
            own.scaled(loss).backward()
            own.step()
        scales.append(float(getattr(own, "scale", math.nan)))
        like = (name for name, one in wrong.items() if [s for s, *_ in one[: number + 1]] == scales)
        wanted, good, patience, weight = right[number]
        ok = scales[-1] == wanted
        ranks.holds("the scale", ok, mistake="" if ok else next(like, "values"), step=number + 1,
                    has=scales[-1], wanted=wanted, good=good, patience=patience)  # fmt: skip
        of_mistakes = {name: one[number][-1] for name, one in wrong.items()}
        ranks.same("the weights", torch.cat(weights), weight, mistakes=of_mistakes)


def planted(drawn: Tensor, step: int) -> Tensor:
    """Make the gradients of one rank large, and the gradients of the other ranks small."""
    gradients = SMALL * drawn / drawn.abs().amax(1, keepdim=True)
    gradients[step % len(drawn)] /= SMALL
    if step == NAN_AT:
        gradients[-1, 0] = math.nan
    return gradients


def search(
    steps: list[Tensor], start: Tensor, rank: int, mistake: str = ""
) -> Iterator[tuple[float, int, int, Tensor]]:
    """Search with the weights of all ranks. For each step, give the scale, the good steps, the
    remaining hysteresis and the rank's weights."""
    weight = nn.Parameter(start.clone())
    optimizer = sgd([weight])
    scale, good, patience = START, 0, HYSTERESIS
    for gradient in steps:
        before, rounded = scale, (gradient * scale).half().double()
        seen = rounded[rank] if mistake == "alone" else rounded
        overflows = bool((seen.isinf() if mistake == "nan" else ~seen.isfinite()).any())
        if overflows:
            good, patience = 0, max(patience - 1, 0)
            scale /= 2 if patience == 0 else 1
        else:
            good += 1
            if good == WINDOW:
                scale, good, patience = scale * 2, 0, HYSTERESIS
        weight.grad = 0 * weight.detach() if overflows else rounded / before
        if not overflows or mistake == "zeros":
            optimizer.step()
        yield scale, good, patience, weight.detach()[rank].clone()


def sgd(parameters: list[Tensor]) -> torch.optim.Optimizer:
    groups = [{"params": [one]} for one in parameters]
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9)
