"""A linear layer that is shared by the ranks, step by step: its slices, forward, backward.

What is cut differs (column.py, row.py); when what is held against the serial layer does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor

from trials.drawn import draw
from trials.group import TrialRanks
from trials.layers.keeping import AGAIN, CHANGED, GradientsAsTheyCame, change
from trials.layers.traffic import sent

INPUTS, OUTPUTS, ROWS = 24, 12, (2, 5)
Cut = Callable[[Tensor, int, int], Tensor]
"""Of a whole tensor, with the number of ranks and this rank: what comes to it."""


@dataclass(frozen=True)
class LinearTrial:
    """`slices`, `forward` and `backward` judge what the learner's layer has by then."""

    x_of_rank: Cut
    dy_of_rank: Cut
    slices: Callable[[Any, Tensor, Tensor, int, int], dict[str, Any]]
    forward: Callable[[Any, Tensor, Tensor, Tensor, int, int], dict[str, Any]]
    backward: Callable[[Any, Tensor, tuple[Tensor, ...], int, int], dict[str, Any]]

    def attempt(self, made: Any, size: int, seed: int, group: TrialRanks) -> None:
        weight, bias = draw(seed, (OUTPUTS, INPUTS), (OUTPUTS,))
        group.calls.begin(size, "the slices")
        own = made(weight.clone(), bias.clone())
        group.kept.append(own)
        if not group.agrees(self.slices(own, weight, bias, size, dist.get_rank())):
            return
        if self.step(own, (weight, bias), "", seed + 1, group):
            change(own, ("weight", "bias"))
            self.step(own, (CHANGED * weight, CHANGED * bias), AGAIN, seed + 2, group)

    def step(
        self, own: Any, held: tuple[Tensor, Tensor], when: str, seed: int, group: TrialRanks
    ) -> bool:
        size, rank, calls = dist.get_world_size(), dist.get_rank(), group.calls
        x, dy = draw(seed, (*ROWS, INPUTS), (*ROWS, OUTPUTS))
        calls.begin(size, "forward" + when)
        calls.phase = "forward"
        mine = self.x_of_rank(x, size, rank).clone().requires_grad_()
        y = own(mine)
        found = self.forward(y, x, *held, size, rank)
        if not group.agrees(found | {"sent": sent(calls, dy.numel())}):
            return False
        calls.begin(size, "backward" + when)
        calls.phase = "backward"
        given = self.dy_of_rank(dy, size, rank).clone()
        came = GradientsAsTheyCame(y, given)
        y.backward(given)
        calls.phase = ""
        found = self.backward(own, mine, (x, *held, dy), size, rank)
        if found["ok"] and came.have_changed():
            found = {"ok": False, "part": "the gradient that came", "slip": "in place"}
        return group.agrees(found | {"sent": sent(calls, x.numel())})


def whole(tensor: Tensor, size: int, rank: int) -> Tensor:
    return tensor


def last_dimension(tensor: Tensor, size: int, rank: int) -> Tensor:
    return tensor.chunk(size, -1)[rank]
