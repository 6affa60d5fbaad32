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

from trials.drawn import draw_samples
from trials.group import TrialRanks
from trials.room import Room
from trials.shares import close, right_digits, shares
from trials.watched_layers import Freed, WatchedLayer, in_turn, plain_step, whole

NAME = "FSDP"
STEPS, RATE = 2, 0.1
WIDTHS: dict[str, list[tuple[int, ...]]] = {  # of each layer's parts
    "layers of 24, 60 and 36 numbers": [(5, 2, 4), (4, 4, 8), (8, 2, 6)],
    "layers of 30 and 29 numbers, which most numbers of ranks do not divide": [
        (4, 4, 2), (2, 3, 5),
    ],
    "layers of 4 and 2 numbers, fewer than there may be ranks": [(3, 1), (1, 1)],
}  # fmt: skip


def attempt(made: Any, size: int, seed: int, group: TrialRanks) -> None:
    for number, case in enumerate(WIDTHS):
        if not one_model(made, case, seed + 10 * number, group, size):
            return


def one_model(made: Any, case: str, seed: int, group: TrialRanks, size: int) -> bool:
    widths = WIDTHS[case]
    torch.manual_seed(seed)
    layers = [WatchedLayer(number, parts) for number, parts in enumerate(widths)]
    serial = [whole(layer) for layer in layers]
    group.calls.begin(size, f"{case}: cut into shards")
    own = [made(layer) for layer in layers]
    group.kept.extend(own)
    if not group.agrees(judged_shards(own, serial)):
        return False
    before: list[torch.Tensor] = []
    for step in range(1, STEPS + 1):
        room = Room(own, layers)
        for layer, numbers in zip(layers, serial, strict=True):
            layer.begin(numbers, room.look)
        group.calls.begin(size, f"{case}: step {step}")
        for one in own:
            one.shard.grad = None
        batch = draw_samples(size, widths[0][0], widths[-1][-1], seed + step)
        found = one_step(own, layers, serial, batch, group) or judged(
            own, layers, gradients_by_rank(layers, serial, batch), before
        )
        if found["ok"]:
            found |= {"held": room.at_last(), "numbers": sum(layer.numbers for layer in layers)}
        if not group.agrees(found):
            return False
        before = descend(own, layers, serial, batch)
    return True


def judged_shards(own: list[Any], serial: list[torch.Tensor]) -> dict[str, Any]:
    """Each shard is the rank's own piece, and holds on to no more than that."""
    for number, (one, numbers) in enumerate(zip(own, serial, strict=True), 1):
        told = {"ok": False, "layer": number, "numbers": len(numbers)}
        shard = getattr(one, "shard", None)
        if not isinstance(shard, torch.Tensor):
            return told | {"slip": "no shard", "has": type(shard).__name__}
        if found := wrong_shard(shard, numbers):
            return told | found
    return {"ok": True}


def wrong_shard(shard: torch.Tensor, numbers: torch.Tensor) -> dict[str, Any]:
    rank, size = dist.get_rank(), dist.get_world_size()
    each = -(-len(numbers) // size)
    if list(shard.shape) != [each]:
        return {"slip": "shard size", "has": list(shard.shape), "wanted": each}
    if shard.dtype != numbers.dtype:
        return {"slip": "dtype", "has": str(shard.dtype)}
    held = shard.untyped_storage().nbytes() // shard.element_size()
    if held != each:
        return {"slip": "shard freed" if held < each else "view"}
    whose = [other for other in range(size) if is_piece(shard, numbers, other, size)]
    return {} if rank in whose else {"slip": "shard", "whose": whose}


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
    """Forward and backward; what went wrong on the way, if anything."""
    rank, size, calls = dist.get_rank(), dist.get_world_size(), group.calls
    x, y = (all_ranks[rank::size] for all_ranks in batch)
    calls.phase = "forward"
    try:
        answer = in_turn(own, x)
        expected, _ = plain_step(layers, serial, x, y)
        if found := wrongly_gathered(layers):
            return found
        if not isinstance(answer, torch.Tensor) or not close(answer.detach(), expected):
            return {"ok": False, "slip": "answer"}
        calls.phase = "backward"
        nn.functional.mse_loss(answer, y).backward()
    except Freed as early:
        return {"ok": False, "slip": "freed", "layer": early.layer, "phase": calls.phase}
    finally:
        calls.phase = ""
    return wrongly_gathered(layers)


def wrongly_gathered(layers: list[WatchedLayer]) -> dict[str, Any]:
    wrong = [layer.wrong for layer in layers if layer.wrong]
    return {"ok": False, "slip": "gathered", **wrong[0]} if wrong else {}


def gradients_by_rank(
    layers: list[WatchedLayer], serial: list[torch.Tensor], batch: tuple[torch.Tensor, torch.Tensor]
) -> list[list[torch.Tensor]]:
    """What each rank's samples alone would give, layer by layer."""
    x, y = batch
    size = dist.get_world_size()
    return [plain_step(layers, serial, x[r::size], y[r::size])[1] for r in range(size)]


def judged(
    own: list[Any], layers: list[WatchedLayer], by_rank: list[list[torch.Tensor]],
    before: list[torch.Tensor],
) -> dict[str, Any]:  # fmt: skip
    rank, size = dist.get_rank(), dist.get_world_size()
    for number, one in enumerate(own):
        pieces = [piece(gradients[number], rank, size) for gradients in by_rank]
        last = piece(before[number], rank, size) if before else None
        found = judged_gradient(one.shard, pieces, last)
        if not found["ok"]:
            cut_off = not layers[number].was_in_backward
            return found | {"layer": number + 1, "cut off": cut_off}
    return {"ok": True}


def judged_gradient(
    shard: torch.Tensor, by_rank: list[torch.Tensor], before: torch.Tensor | None
) -> dict[str, Any]:
    """Of one shard, beside what each rank's samples alone would give; padding does not count."""
    found, wanted = shard.grad, torch.stack(by_rank).mean(0)
    if found is None:
        return {"ok": False, "slip": "no gradient"}
    if found.shape != shard.shape:
        return {"ok": False, "slip": "gradient shape", "has": list(found.shape)}
    found = found.detach()[: len(wanted)]
    if close(found, wanted):
        return {"ok": True}
    return {
        "ok": False, "slip": "gradients", "shares": shares(found, by_rank),
        "added up": before is not None and close(found, wanted + before),
        "digits": right_digits(found, wanted),
    }  # fmt: skip


def descend(
    own: list[Any], layers: list[WatchedLayer], serial: list[torch.Tensor],
    batch: tuple[torch.Tensor, torch.Tensor],
) -> list[torch.Tensor]:  # fmt: skip
    """A step of plain gradient descent: each rank on its shards, and the serial model, whose
    gradients it returns."""
    _, gradients = plain_step(layers, serial, *batch)
    with torch.no_grad():
        for one, numbers, gradient in zip(own, serial, gradients, strict=True):
            one.shard.sub_(RATE * one.shard.grad)
            numbers.sub_(RATE * gradient)
    return gradients
