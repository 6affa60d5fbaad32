"""Test 11.2: `FSDP(layer)` keeps a shard of the layer, which is whole only while it is used.

own = FSDP(layer)          own.shard: this rank's piece of all the layer's numbers, padded
y = own(x)                 gathers the parameters, computes, frees them
y.sum().backward()         gathers them again, frees them, leaves the mean of the gradients of
                           the shard in own.shard.grad"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from process.own_program import KEPT
from trials.memory import held_numbers, ignore_what_is_there, settled_numbers
from trials.ranks import Ranks
from trials.zero1 import row

SAMPLES, STEPS, RATE = 1, 2, 0.1
WIDTHS: dict[str, list[tuple[int, ...]]] = {  # widths of each layer's parts
    "three layers of 2112 numbers": [(32, 32, 32)] * 3,
    "layers of 30 and 29 numbers, which most numbers of ranks do not divide": [
        (4, 4, 2), (2, 3, 5),
    ],
    "layers of 4 and 2 numbers, fewer than there may be ranks": [(3, 1), (1, 1)],
}  # fmt: skip
MEASURED = next(iter(WIDTHS))
# Share of a layer's numbers that may be held in addition, such as x and y.
SPARE = 0.4


class Freed(RuntimeError):
    """Error: a layer has to compute while its parameters are freed."""


class Affine(torch.autograd.Function):
    """W x + b in forward; backward needs W again. Both fail if W is freed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        is_there(weight)
        ctx.save_for_backward(x, weight)
        return x @ weight.T + bias

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        is_there(weight)
        return slopes[0] @ weight, slopes[0].T @ x, slopes[0].sum(0)


def is_there(weight: Tensor) -> None:
    if not weight.numel() or weight.untyped_storage().nbytes() < weight.nbytes:
        raise Freed("a layer has to compute, and its parameters are freed")


class ToyLayer(nn.Module):
    """Layer W x + b, or W2 tanh(W1 x + b1) + b2, whose gradients arrive in turn."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.shapes = [(b, a) for a, b in pairwise(widths)]
        self.parts = nn.ModuleList(
            nn.Linear(a, b, dtype=torch.float64) for a, b in pairwise(widths)
        )

    def forward(self, x: Tensor) -> Tensor:
        for place, part in enumerate(self.parts):
            x = torch.tanh(x) if place else x
            x = Affine.apply(x, part.weight, part.bias)  # type: ignore[no-untyped-call]
        return x


def test(FSDP: Any, ranks: Ranks) -> None:
    ignore_what_is_there()
    for case, widths in WIDTHS.items():
        ranks.seed += 1
        torch.manual_seed(ranks.seed)
        layers = [ToyLayer(parts) for parts in widths]
        serial = [row(layer) for layer in layers]
        numbers, spare = sum(map(len, serial)), SPARE * len(serial[0])
        ranks.begin(f"{case}: cut into shards")
        before = settled_numbers() - numbers
        with ranks.phase("wrapping"):
            own = [FSDP(layer) for layer in layers]
        KEPT.append(own)
        for one, whole in zip(own, serial, strict=True):
            is_shard(getattr(one, "shard", None), whole, ranks)
        shards = sum(one.shard.numel() for one in own)
        if case == MEASURED:
            is_freed("wrapping", before + shards + spare, ranks)
        last: list[Tensor] = []
        for step in range(1, STEPS + 1):
            ranks.begin(f"{case}: step {step}")
            for one in own:
                one.shard.grad = None
            x, y = ranks.draw((SAMPLES * ranks.size, widths[0][0]),
                              (SAMPLES * ranks.size, widths[-1][-1]))  # fmt: skip
            by_rank = [plain_step(layers, serial, x[r :: ranks.size], y[r :: ranks.size])
                       for r in range(ranks.size)]  # fmt: skip
            mine, target = x[ranks.rank :: ranks.size], y[ranks.rank :: ranks.size]
            before = settled_numbers()
            with ranks.phase("forward"):
                answer = in_turn(own, mine)
            ranks.all_waited_for()
            ranks.same("the answer", answer, by_rank[ranks.rank][0])
            if case == MEASURED:
                is_freed("forward", before + spare, ranks)
            with ranks.phase("backward"):
                nn.functional.mse_loss(answer, target).backward()
            answer = None
            ranks.all_waited_for()
            same_gradients(own, [gradients for _, gradients in by_rank], last, ranks)
            if case == MEASURED:
                is_freed("after the step", before + shards + spare, ranks)
                needed = 2 * (ranks.size - 1) / ranks.size
                sent = ranks.calls.sent("backward") / numbers
                ranks.holds("sent", sent <= 1.25 * needed, sent=sent, needed=needed)
            every = zip(*(gradients for _, gradients in by_rank), strict=True)
            last = [torch.stack(of_ranks).mean(0) for of_ranks in every]
            with torch.no_grad():
                for one, whole, gradient in zip(own, serial, last, strict=True):
                    one.shard.sub_(RATE * one.shard.grad)
                    whole.sub_(RATE * gradient)


def same_gradients(
    own: list[Any], by_rank: list[list[Tensor]], last: list[Tensor], ranks: Ranks
) -> None:
    for number, one in enumerate(own):
        pieces = [piece(gradients[number], ranks) for gradients in by_rank]
        mean = torch.stack(pieces).mean(0)
        more = mean + piece(last[number], ranks) if last else None
        ranks.same("the gradient", unpadded(one.shard.grad, one.shard, len(mean)), mean,
                   summands=pieces, mistakes={"added up": more})  # fmt: skip


def is_freed(when: str, most: float, ranks: Ranks) -> None:
    held = held_numbers(most)
    ranks.holds("freed", held <= most, mistake=when, more=held - most)


def is_shard(shard: Any, numbers: Tensor, ranks: Ranks) -> None:
    """Check that the shard is the rank's own piece, in a storage of its own."""
    each, wanted = -(-len(numbers) // ranks.size), piece(numbers, ranks)
    if isinstance(shard, Tensor) and list(shard.shape) == [each]:
        ranks.holds("alone", shard.untyped_storage().nbytes() == shard.nbytes)
        shard = shard.detach()[: len(wanted)]
    else:
        ranks.holds("alone", True)
        wanted = torch.zeros(each, dtype=numbers.dtype)
    ranks.same("the shard", shard, wanted)


def piece(numbers: Tensor, ranks: Ranks) -> Tensor:
    """Return the rank's shard without padding."""
    each = -(-len(numbers) // ranks.size)
    return numbers[ranks.rank * each : (ranks.rank + 1) * each]


def unpadded(gradient: Any, shard: Tensor, length: int) -> Any:
    is_like = isinstance(gradient, Tensor) and gradient.shape == shard.shape
    return gradient[:length] if is_like else gradient


def in_turn(layers: list[Any], x: Tensor) -> Any:
    """Apply the layers in order, with a tanh between them."""
    for place, layer in enumerate(layers):
        x = layer(torch.tanh(x) if place else x)
    return x


def plain_step(
    layers: list[ToyLayer], rows: list[Tensor], x: Tensor, y: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """Return the serial model's answer, and the gradients of each layer as one vector."""
    numbers = [one.clone().requires_grad_() for one in rows]
    for place, (layer, own) in enumerate(zip(layers, numbers, strict=True)):
        parts = own.split([count for b, a in layer.shapes for count in (b * a, b)])
        for number, shape in enumerate(layer.shapes):
            x = torch.tanh(x) if place or number else x
            x = nn.functional.linear(x, parts[2 * number].view(shape), parts[2 * number + 1])
    gradients = torch.autograd.grad(nn.functional.mse_loss(x, y), numbers)
    return x.detach(), list(gradients)
