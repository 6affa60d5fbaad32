"""AdamW on lists of tensors, by PyTorch's fused kernel: one pass over memory for all of them.

torch.optim.AdamW makes the same call, with bitwise equal results. But its class imports PyTorch's
compiler to exclude itself from compilation: a second on every rank at every start. This program
starts often and trains for seconds."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim.adamw import adamw
from torch.profiler import record_function


@dataclass
class Moments:
    """Adam's state for a parameter: number of steps, mean and mean square of its gradients."""

    steps: Tensor
    mean: Tensor
    square: Tensor

    @staticmethod
    def none_yet(parameter: Tensor) -> Moments:
        steps = torch.zeros((), dtype=torch.float32, device=parameter.device)
        return Moments(steps, torch.zeros_like(parameter), torch.zeros_like(parameter))


@dataclass(frozen=True)
class ParameterGroup:
    parameters: list[Tensor]
    weight_decay: float


class AdamW:
    def __init__(
        self, groups: list[ParameterGroup], betas: tuple[float, float], eps: float
    ) -> None:
        self.groups, self.betas, self.eps = groups, betas, eps
        self.moments: dict[Tensor, Moments] = {}  # created by the first step
        self.rate = 0.0  # learning rate of the last step

    def step(self, rate: float) -> None:
        self.rate = rate
        with record_function("Optimizer.step#AdamW.step"):  # the name that torch.optim uses
            for group in self.groups:
                self._step(group)

    def _step(self, group: ParameterGroup) -> None:
        parameters = [p for p in group.parameters if p.grad is not None]
        for parameter in parameters:
            if parameter not in self.moments:
                self.moments[parameter] = Moments.none_yet(parameter)
        kept = [self.moments[parameter] for parameter in parameters]
        adamw(
            parameters,
            [p.grad for p in parameters if p.grad is not None],
            [of.mean for of in kept],
            [of.square for of in kept],
            [],
            [of.steps for of in kept],
            fused=True,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=self.rate,
            weight_decay=group.weight_decay,
            eps=self.eps,
            maximize=False,
        )

    def forget_gradients(self) -> None:
        for group in self.groups:
            for parameter in group.parameters:
                parameter.grad = None
