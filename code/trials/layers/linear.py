"""A linear layer that is shared by the ranks, step by step: its slices, forward, backward.

What is cut differs (column.py, row.py); when what is held against the serial layer does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor

from trials.group import TrialRanks
from trials.layers.parts import draw

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
        rank, calls = dist.get_rank(), group.calls
        x, weight, bias, dy = draw(seed, (*ROWS, INPUTS), (OUTPUTS, INPUTS), (OUTPUTS,),
                                   (*ROWS, OUTPUTS))  # fmt: skip
        calls.begin(size, "the slices")
        own = made(weight.clone(), bias.clone())
        group.kept.append(own)
        if not group.agrees(self.slices(own, weight, bias, size, rank)):
            return
        calls.begin(size, "forward")
        calls.phase = "forward"
        mine = self.x_of_rank(x, size, rank).clone().requires_grad_()
        y = own(mine)
        if not group.agrees(self.forward(y, x, weight, bias, size, rank)):
            return
        calls.begin(size, "backward")
        calls.phase = "backward"
        y.backward(self.dy_of_rank(dy, size, rank).clone())
        calls.phase = ""
        group.agrees(self.backward(own, mine, (x, weight, bias, dy), size, rank))


def whole(tensor: Tensor, size: int, rank: int) -> Tensor:
    return tensor


def last_dimension(tensor: Tensor, size: int, rank: int) -> Tensor:
    return tensor.chunk(size, -1)[rank]
