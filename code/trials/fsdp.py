"""`FSDP(layer)`: every rank keeps a shard of the layer, which is whole only while it is used.

own = FSDP(layer)          own.shard: this rank's piece of all the layer's numbers, padded
y = own(x)                 gathers the parameters, computes, frees them
y.sum().backward()         gathers them again, frees them, leaves the mean of the gradients of the
                           shard in own.shard.grad
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from trials.group import TrialRanks
from trials.shares import close
from trials.two_layers import Freed, WatchedLayer, draw, judged_gradient, plain_step, whole

NAME = "FSDP"
STEPS, RATE = 2, 0.1
WIDTHS = {  # of two layers with biases: 24 and 60 numbers; 30 and 35; 4 and 2
    "layers of 24 and 60 numbers": (5, 4, 12),
    "layers of 30 and 35 numbers, which most numbers of ranks do not divide": (4, 6, 5),
    "layers of 4 and 2 numbers, fewer than there may be ranks": (3, 1, 1),
}


def attempt(made: Any, size: int, seed: int, group: TrialRanks) -> None:
    for number, case in enumerate(WIDTHS):
        if not two_layers(made, case, seed + 10 * number, group, size):
            return


def two_layers(made: Any, case: str, seed: int, group: TrialRanks, size: int) -> bool:
    widths = WIDTHS[case]
    torch.manual_seed(seed)
    layers = [WatchedLayer(n, *widths[n : n + 2]) for n in range(2)]
    serial = [whole(layer) for layer in layers]
    group.calls.begin(size, f"{case}: cut into shards")
    own = [made(layer) for layer in layers]
    group.kept.extend(own)
    if not group.agrees(judged_shards(own, serial)):
        return False
    for step in range(1, STEPS + 1):
        for layer, numbers in zip(layers, serial, strict=True):
            layer.begin(numbers, layers)
        group.calls.begin(size, f"{case}: step {step}")
        for one in own:
            one.shard.grad = None
        x, y = draw(size, widths, seed + step)
        if not group.agrees(one_step(own, layers, serial, (x, y), group)):
            return False
        descend(own, layers, serial, (x, y))
    return True


def judged_shards(own: list[Any], serial: list[torch.Tensor]) -> dict[str, Any]:
    """Each shard is the rank's own piece, and holds on to no more than that."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for number, (one, numbers) in enumerate(zip(own, serial, strict=True), 1):
        told: dict[str, Any] = {"ok": False, "layer": number, "numbers": len(numbers)}
        shard = getattr(one, "shard", None)
        if not isinstance(shard, torch.Tensor):
            return told | {"slip": "no shard", "has": type(shard).__name__}
        each = -(-len(numbers) // size)
        told |= {"has": list(shard.shape), "wanted": each}
        if list(shard.shape) != [each]:
            return told | {"slip": "shard size"}
        held = shard.untyped_storage().nbytes() // shard.element_size()
        if held < each:
            return told | {"slip": "shard freed"}
        if held > each:
            return told | {"slip": "view", "held": held}
        whose = [other for other in range(size) if is_piece(shard, numbers, other, size)]
        if rank not in whose:
            return told | {"slip": "shard", "whose": whose}
    return {"ok": True}


def is_piece(shard: torch.Tensor, numbers: torch.Tensor, rank: int, size: int) -> bool:
    wanted = piece(numbers, rank, size)
    return close(shard.detach()[: len(wanted)], wanted)


def piece(numbers: torch.Tensor, rank: int, size: int) -> torch.Tensor:
    """What the rank's shard holds before its padding."""
    each = -(-len(numbers) // size)
    return numbers[rank * each : (rank + 1) * each]


def one_step(
    own: list[Any], layers: list[WatchedLayer], serial: list[torch.Tensor],
    batch: tuple[torch.Tensor, torch.Tensor], group: TrialRanks,
) -> dict[str, Any]:  # fmt: skip
    rank, size, calls = dist.get_rank(), dist.get_world_size(), group.calls
    x, y = batch
    calls.phase = "forward"
    try:
        answer = own[1](torch.tanh(own[0](x[rank::size])))
        expected, _ = plain_step(layers, serial, x[rank::size], y[rank::size])
        if found := wrongly_gathered(layers):
            return found
        if not isinstance(answer, torch.Tensor) or not close(answer.detach(), expected):
            return {"ok": False, "slip": "answer"}
        calls.phase = "backward"
        nn.functional.mse_loss(answer, y[rank::size]).backward()
    except Freed as early:
        return {"ok": False, "slip": "freed", "layer": early.layer, "phase": calls.phase}
    finally:
        calls.phase = ""
    if found := wrongly_gathered(layers):
        return found
    by_rank = [plain_step(layers, serial, x[r::size], y[r::size])[1] for r in range(size)]
    found = judged(own, by_rank)
    return found | {"held": held(layers), "reduced": calls.all_reduced()} if found["ok"] else found


def wrongly_gathered(layers: list[WatchedLayer]) -> dict[str, Any]:
    wrong = [layer.wrong for layer in layers if layer.wrong]
    return {"ok": False, "slip": "gathered", **wrong[0]} if wrong else {}


def judged(own: list[Any], by_rank: list[list[torch.Tensor]]) -> dict[str, Any]:
    rank, size = dist.get_rank(), dist.get_world_size()
    for number, one in enumerate(own):
        pieces = [piece(gradients[number], rank, size) for gradients in by_rank]
        found = judged_gradient(one.shard, pieces)
        if not found["ok"]:
            return found | {"layer": number + 1}
    return {"ok": True}


def held(layers: list[WatchedLayer]) -> dict[str, Any]:
    """What had room when nothing needed it."""
    return {
        "forward": layers[1].other_is_whole.get("forward", False),
        "backward": layers[0].other_is_whole.get("backward", False),
        "after": [layer.number + 1 for layer in layers if layer.is_whole()],
        "gradients": [layer.number + 1 for layer in layers if layer.keeps_gradients()],
    }


def descend(
    own: list[Any], layers: list[WatchedLayer], serial: list[torch.Tensor],
    batch: tuple[torch.Tensor, torch.Tensor],
) -> None:  # fmt: skip
    """A step of plain gradient descent: each rank on its shards, and the serial model."""
    _, gradients = plain_step(layers, serial, *batch)
    with torch.no_grad():
        for one, numbers, gradient in zip(own, serial, gradients, strict=True):
            one.shard.sub_(RATE * one.shard.grad)
            numbers.sub_(RATE * gradient)
