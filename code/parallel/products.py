"""Matmul Y = X Wᵀ + b, with a backward in two halves.

Backward has two matmuls: dX = dY W, which the previous layer needs, and dW = dYᵀ X, which is needed
only in the optimizer step. `WeightWork` decides what happens to the second:

    at once     the matmul itself adds dW to the gradient buffer (no copy, no extra sum)
    deferred    a queue keeps it, and a zero-bubble schedule computes it in idle time
    returned    autograd gets it as usual (FSDP2 and torch.compile need that)

X is [rows, inputs], a row per token; Y and dY are [rows, outputs]; W and dW [outputs, inputs]."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

# Parameter with attributes that PyTorch's types do not know: `main_grad`, the sum of its gradients
# (data_parallel.py), `cuts` and `partial` (tensor_parallel.py).
Weight = Any


class WeightWork:
    """Weight half of backward, for one piece of the model."""

    def __init__(self, returned: bool = False) -> None:
        self.returned = returned
        self.deferring = False
        # dY and X stay alive until their matmul runs: this is the schedule's cost in memory.
        self.queue: deque[Callable[[], object]] = deque()

    def add(self, weight: Weight, grad: Tensor, x: Tensor) -> Tensor | None:
        """Compute, add or queue dW = dYᵀ X."""
        if self.returned:  # [out, rows] @ [rows, in] → the shape of the weight
            return grad.t() @ x
        self.add_to(weight.main_grad, grad, x)
        return None

    def add_result(self, weight: Weight, product: Callable[[], Tensor]) -> Tensor | None:
        """Compute, add or queue dW, as another function computes it."""
        if self.returned:
            return product()
        self.do(lambda: weight.main_grad.add_(product()))
        return None

    def add_to(self, total: Tensor, grad: Tensor, x: Tensor) -> None:
        """Add dYᵀ X to `total`, now or when the schedule has time."""
        self.do(partial(add_product, total, grad, x))

    def do(self, work: Callable[[], object]) -> None:
        if self.deferring:
            self.queue.append(work)
        else:
            work()

    def add_bias(self, bias: Weight | None, grad: Tensor) -> Tensor | None:
        if bias is None or self.returned:
            return None if bias is None else grad.sum(0)
        bias.main_grad.add_(grad.sum(0))
        return None

    @torch.no_grad()
    def run(self, count: int) -> None:
        for _ in range(count):
            self.queue.popleft()()


def add_product(total: Tensor, grad: Tensor, x: Tensor) -> None:
    """Compute total += gradᵀ x, in one kernel if the types agree."""
    if total.dtype == grad.dtype:
        torch.addmm(total, grad.t(), x, out=total)
    else:
        total.add_(grad.t() @ x)


class _Product(Function):
    """Y = X Wᵀ + b; backward returns dX, and gives dW to `WeightWork`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, work: WeightWork
    ) -> Tensor:
        ctx.save_for_backward(x)
        ctx.weight, ctx.bias, ctx.work = weight, bias, work
        return x @ weight.t() if bias is None else torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # None tells autograd that there is no gradient to add: main_grad has it, now or later.
        (x,) = ctx.saved_tensors
        grad_weight = ctx.work.add(ctx.weight, grad, x)
        return grad @ ctx.weight, grad_weight, ctx.work.add_bias(ctx.bias, grad), None


def product(x: Tensor, weight: Tensor, bias: Tensor | None, work: WeightWork) -> Tensor:
    if work.returned:
        return torch.nn.functional.linear(x, weight, bias)
    return _Product.apply(x, weight, bias, work)
