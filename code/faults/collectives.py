"""Ranks that call different collectives: hangs and mismatches."""

from __future__ import annotations

import queue
from typing import Any

import torch
import torch.distributed as dist

from faults.fault import Fault


class Stuck(Fault):
    """Fault: the reader thread of one rank has ended, and the rank waits for it."""

    def before_step(self, training: Any, progress: Any) -> None:
        if self.due(progress):
            wait_for_batch(queue.Queue())


def wait_for_batch(from_reader: queue.Queue[Any]) -> Any:
    return from_reader.get()


class Skipped(Fault):
    """Fault: one rank skips a batch, like `continue` in a loop, and with it a collective. Its next
    sum pairs with the current sum of the other ranks. The error shows only in the last step."""

    def before_step(self, training: Any, progress: Any) -> None:
        if self.due(progress):
            progress.iteration += 1
            progress.consumed_samples += training.args.global_batch_size


class Shape(Fault):
    """Fault: one rank sums fewer gradients than the others, as if a layer were frozen there."""

    def before_step(self, training: Any, progress: Any) -> None:
        if self.due(progress):
            gradients = training.holder.gradients
            dist.all_reduce(
                gradients[: gradients.numel() // 2], group=training.layout.data_context.handle
            )


class Extra(Fault):
    """Fault: only one rank calls a collective, as in `if rank == 0: log(mean(loss))`."""

    def before_step(self, training: Any, progress: Any) -> None:
        if self.due(progress):
            group = training.layout.data_context.handle
            mean_over_ranks(torch.ones(1, device=training.device), group)


def mean_over_ranks(value: torch.Tensor, group: Any) -> float:
    gathered = [torch.empty_like(value) for _ in range(dist.get_world_size(group))]
    dist.all_gather(gathered, value, group=group)
    return torch.stack(gathered).mean().item()
