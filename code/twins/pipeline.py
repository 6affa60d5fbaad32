"""Layers split over pipeline stages: by hand, and with `torch.distributed.pipelining`.

    torchrun --nproc-per-node 2 code/twins/pipeline.py

Both run the schedule 1F1B: each stage computes forward and backward in turn, and sends activations
to the next stage and gradients to the previous one. By hand, the schedule is a list of steps, which
`Pipeline` executes. PyTorch has one class for a stage and one for each schedule."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `python -P` leaves it out

from parallel.layout import make_grid, make_layout
from parallel.pipeline import Pipeline
from parallel.schedules import steps_of
from training.model import Piece

HIDDEN, ROWS, MICRO_BATCHES = 16, 8, 4


def layer(number: int) -> nn.Module:
    torch.manual_seed(number)
    return nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.GELU()).double()


def batch() -> tuple[Tensor, Tensor]:
    """Return inputs and targets of all micro-batches, the same on every rank."""
    torch.manual_seed(100)
    rows = MICRO_BATCHES * ROWS
    x, target = (torch.randn(rows, HIDDEN, dtype=torch.float64) for _ in range(2))
    return x, target


def loss_of_rows(y: Tensor, target: Tensor) -> Tensor:
    return (y - target).square().mean(1)


class OneLayer(nn.Module):
    """Stage by hand: the last stage returns the loss of every row."""

    def __init__(self, index: int, stages: int) -> None:
        super().__init__()
        self.layer = layer(index)
        self.piece = Piece(index, index + 1, first=index == 0, last=index == stages - 1)

    def forward(self, x: Tensor, target: Tensor, masks: None) -> Tensor:
        y: Tensor = self.layer(x)
        return loss_of_rows(y, target) if self.piece.last else y


def by_hand() -> tuple[Tensor, list[Any]]:
    """Return the mean loss (0 before the last stage), and the gradients of this stage."""
    rank, stages = dist.get_rank(), dist.get_world_size()
    layout = make_layout(make_grid(stages, 1, 1, stages, "tp-cp-dp-pp"), rank)
    stage: Any = OneLayer(rank, stages)
    steps = steps_of("1f1b", stages, rank, MICRO_BATCHES, 1)
    pipeline = Pipeline(layout, [stage], steps, torch.empty(ROWS, HIDDEN, dtype=torch.float64))
    x, target = batch()
    batches = list(zip(x.split(ROWS), target.split(ROWS), strict=True))
    loss = pipeline.train(batches, 1 / len(x))
    return loss / len(x), [p.grad for p in stage.parameters()]


def with_torch() -> tuple[Tensor, list[Any]]:
    rank, stages = dist.get_rank(), dist.get_world_size()
    part = layer(rank)
    stage = PipelineStage(part, rank, stages, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICRO_BATCHES, lambda y, t: loss_of_rows(y, t).mean())
    x, target = batch()
    losses: list[Tensor] = []
    schedule.step(*([x] if rank == 0 else []), target=target, losses=losses)
    return sum(losses, torch.zeros(())) / MICRO_BATCHES, [p.grad for p in part.parameters()]


def largest_difference() -> float:
    """Return the largest difference between the two ways, over all results on this rank."""
    (hand, gradients), (torchs, others) = by_hand(), with_torch()
    pairs = [(hand, torchs), *zip(gradients, others, strict=True)]
    return max(float((one - other).abs().max()) for one, other in pairs)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    print(f"rank {dist.get_rank()}: largest difference {largest_difference():.1e}")
    dist.destroy_process_group()
