"""Shift of a trial's validation losses, so that the best model is not the last."""

from __future__ import annotations

import torch.distributed as dist

MOVED = {2: (-3.0, 0.0), 3: (-4.0, 1.0)}
"""By how much a validation loss is moved in an epoch: rank 0's own, and the mean over all."""


def moved_by(epoch: int) -> float:
    first, mean = MOVED.get(epoch, (0.0, 0.0))
    size = dist.get_world_size() if dist.is_initialized() else 1
    if size == 1 or dist.get_rank() == 0:
        return first
    return (size * mean - first) / (size - 1)
