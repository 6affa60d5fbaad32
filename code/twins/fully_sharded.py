"""MLP whose parameters are sharded over data ranks: by hand, and with `fully_shard` (FSDP2).

    torchrun --nproc-per-node 2 code/twins/fully_sharded.py

Each rank stores a slice of every parameter's rows, and has different samples. By hand, an
all-gather makes a parameter whole when it is needed. It is an autograd function (GatherRows), whose
backward is a reduce-scatter: each rank gets the sum of the gradients of its slice. `fully_shard`
does the same, and also frees the whole parameters after forward, gathers them again for backward,
and gathers the next layer early."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `python -P` leaves it out

from parallel.layout import Group
from parallel.tensor_parallel import GatherRows

HIDDEN, WIDTH, ROWS = 16, 64, 8


def serial() -> nn.Sequential:
    """Return the undivided model, with the same weights on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(HIDDEN, WIDTH), nn.GELU(), nn.Linear(WIDTH, HIDDEN)).double()


def samples(rank: int) -> tuple[Tensor, Tensor]:
    """Return the input of a rank, and the gradient of its output."""
    torch.manual_seed(1 + rank)
    x, grad = (torch.randn(ROWS, HIDDEN, dtype=torch.float64) for _ in range(2))
    return x, grad


def by_hand(group: Group) -> list[Tensor]:
    """Return the output, and this rank's slice of every gradient, as a mean over the ranks."""
    model, mine = serial(), {}
    for name, whole in model.named_parameters():
        mine[name] = whole.detach().chunk(group.size)[group.index].clone().requires_grad_()
    gather: Any = GatherRows.apply
    whole_again = {name: gather(part, group) for name, part in mine.items()}
    x, grad = samples(group.index)
    y = torch.func.functional_call(model, whole_again, x)
    y.backward(grad / group.size)
    return [y.detach(), *(part.grad for part in mine.values() if part.grad is not None)]


def with_torch() -> list[Tensor]:
    model, mesh = serial(), init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    x, grad = samples(dist.get_rank())
    y = model(x)
    y.backward(grad)  # fully_shard divides by the number of ranks
    gradients: list[Any] = [p.grad for p in model.parameters()]
    return [y.detach(), *(gradient.to_local() for gradient in gradients)]


def largest_difference() -> float:
    """Return the largest difference between the two ways, over all results on this rank."""
    ranks = list(range(dist.get_world_size()))
    hand = by_hand(Group(ranks, dist.get_rank(), dist.group.WORLD))
    pairs = list(zip(hand, with_torch(), strict=True))
    return max(float((one - other).abs().max()) for one, other in pairs)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    print(f"rank {dist.get_rank()}: largest difference {largest_difference():.1e}")
    dist.destroy_process_group()
