"""MLP split over the tensor ranks: by hand, and with `parallelize_module` and DTensor.

    torchrun --nproc-per-node 2 code/twins/tensor_parallel.py

By hand, each layer has this rank's slice of the matrix and calls the necessary collective. With
DTensor, the model is written for one device. A plan says for each layer how its matrix is split,
and PyTorch derives the communication. The plan for an MLP has two entries."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `python -P` leaves it out

from parallel.layout import Group
from parallel.products import WeightWork
from parallel.tensor_parallel import ColumnParallel, RowParallel, Slicing, slice_of

HIDDEN, WIDTH, ROWS = 16, 64, 8
PLAN: dict[str, ParallelStyle] = {"up": ColwiseParallel(), "down": RowwiseParallel()}


class MLP(nn.Module):
    """MLP: [rows, hidden] → the same shape; `up` and `down` may be whole or slices."""

    def __init__(self, up: nn.Module, down: nn.Module) -> None:
        super().__init__()
        self.up, self.down = up, down

    def forward(self, x: Tensor) -> Tensor:
        inner: Tensor = nn.functional.gelu(self.up(x))
        out: Tensor = self.down(inner)
        return out


def serial() -> MLP:
    """Return the undivided model, with the same weights on every rank."""
    torch.manual_seed(0)
    layers = nn.Linear(HIDDEN, WIDTH), nn.Linear(WIDTH, HIDDEN)
    return MLP(*layers).double()


def by_hand(group: Group) -> MLP:
    slicing = Slicing(group, by_rows=False, work=WeightWork(returned=True))
    mlp = MLP(ColumnParallel(HIDDEN, WIDTH, slicing), RowParallel(WIDTH, HIDDEN, slicing)).double()
    whole = dict(serial().named_parameters())
    with torch.no_grad():
        for name, parameter in mlp.named_parameters():
            parameter.copy_(whole[name][slice_of(parameter)])
    return mlp


def with_dtensor() -> MLP:
    mlp = serial()
    parallelize_module(mlp, init_device_mesh("cpu", (dist.get_world_size(),)), PLAN)
    return mlp


def compute(mlp: MLP) -> list[Tensor]:
    """Return the output, and gradients of the input and of this rank's parameter slices."""
    torch.manual_seed(1)
    x = torch.randn(ROWS, HIDDEN, dtype=torch.float64, requires_grad=True)
    y = mlp(x)
    y.backward(torch.randn(ROWS, HIDDEN, dtype=torch.float64))
    gradients = [x.grad, *(parameter.grad for parameter in mlp.parameters())]
    local = [g.to_local() if hasattr(g, "to_local") else g for g in gradients if g is not None]
    return [y.detach(), *local]


def largest_difference() -> float:
    """Return the largest difference between the two ways, over all results on this rank."""
    ranks = list(range(dist.get_world_size()))
    hand = compute(by_hand(Group(ranks, dist.get_rank(), dist.group.WORLD)))
    pairs = zip(hand, compute(with_dtensor()), strict=True)
    return max((one - other).abs().max().item() for one, other in pairs)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    print(f"rank {dist.get_rank()}: largest difference {largest_difference():.1e}")
    dist.destroy_process_group()
