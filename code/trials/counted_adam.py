"""An Adam of which is known what it was given, and whether it made its step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from trials.calls import Calls

RATE, FADING, FADING_SQUARES, SMALL = 0.1, 0.9, 0.95, 0.1


class Optimizers:
    """`make` is what a learner's code makes its optimizer with."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.made: list[CountedAdam] = []
        self.begin()

    def begin(self) -> None:
        """Of a step; the optimizers stay."""
        self.steps = self.moved = 0
        self.calls.phase = "before"

    def make(self, tensors: Any, **_: object) -> CountedAdam:
        self.made.append(CountedAdam(tensors_of(tensors), self))
        return self.made[-1]

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [tensor for optimizer in self.made for tensor in optimizer.tensors]


def tensors_of(given: Any) -> list[torch.Tensor]:
    """What torch.optim.Adam takes, and its words for what it does not take. (To import torch.optim
    takes seconds.)"""
    if isinstance(given, torch.Tensor):
        raise TypeError(
            "params argument given to the optimizer should be an iterable of Tensors or dicts, "
            f"but got {torch.typename(given)}"
        )
    tensors: list[Any] = []
    for one in given:
        found: Any = one["params"] if isinstance(one, dict) else one
        tensors += [found] if isinstance(found, torch.Tensor) or found is ... else list(found)
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            kind = torch.typename(tensor)
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {kind}")
        if not tensor.is_leaf:
            raise ValueError("can't optimize a non-leaf Tensor")
    return tensors


class CountedAdam:
    """How many numbers its state has is counted, and its small number is large enough for a
    gradient twice as long to be seen."""

    def __init__(self, tensors: Iterable[torch.Tensor], among: Optimizers) -> None:
        self.tensors, self.among = list(tensors), among
        self.state = [Means(tensor) for tensor in self.tensors]

    def step(self) -> None:
        self.among.steps += 1
        with torch.no_grad():
            for tensor, means in zip(self.tensors, self.state, strict=True):
                if tensor.grad is not None:
                    self.among.moved += bool(tensor.grad.any())
                    tensor.sub_(means.of(tensor.grad))
        self.among.calls.phase = "after"

    def zero_grad(self, **_: object) -> None:
        for tensor in self.tensors:
            tensor.grad = None


class Means:
    def __init__(self, like: torch.Tensor) -> None:
        self.first, self.second = torch.zeros_like(like), torch.zeros_like(like)
        self.steps = 0

    def of(self, gradient: torch.Tensor) -> torch.Tensor:
        """The way that a parameter goes for this gradient."""
        self.steps += 1
        self.first = FADING * self.first + (1 - FADING) * gradient
        self.second = FADING_SQUARES * self.second + (1 - FADING_SQUARES) * gradient**2
        first = self.first / (1 - FADING**self.steps)
        second = self.second / (1 - FADING_SQUARES**self.steps)
        return RATE * first / (second.sqrt() + SMALL)

    def copy(self) -> Means:
        other = Means(self.first)
        other.first, other.second, other.steps = self.first, self.second, self.steps
        return other


def gradient_of_first(way: torch.Tensor) -> torch.Tensor:
    """With which gradient the first step goes this way."""
    size = way.abs()
    return way.sign() * SMALL * size / (RATE - size)
