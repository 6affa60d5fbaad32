"""Two bottlenecks for the lesson on profiling: `--planted-bottleneck 1` and `2`. Number 3 is the
first one in every second step only.

If you want to find them in a trace, stop reading here."""

from __future__ import annotations

import math
import time
from typing import Any

SLOW_DISK_S = 0.2
ROW = 1024


def plant_in(training: Any, kind: str) -> None:
    """Wrap the reading of batches (1 and 3), or forward and backward (2), of one training."""
    if kind == "2":
        training.pipeline.train = _with_checked_rows(training)
    elif training.layout.rank == training.layout.everyone.size // 2:
        training.loaders["train"].batch = _from_slow_disk(training, 1 if kind == "1" else 2)


def _from_slow_disk(training: Any, every: int) -> Any:
    """Simulate a slow disk on one rank; the wait uses no processor time."""
    read = training.loaders["train"].batch

    def read_slowly(consumed_samples: int, micro_batches: int) -> Any:
        if consumed_samples // training.args.global_batch_size % every == 0:
            time.sleep(SLOW_DISK_S)
        return read(consumed_samples, micro_batches)

    return read_slowly


def _with_checked_rows(training: Any) -> Any:
    """Add a check for broken gradients, row by row. Each row takes a few tiny operators, and
    `.item()` waits for their result before the next row starts."""
    train = training.pipeline.train

    def train_and_check(*given: Any) -> Any:
        loss = train(*given)
        for gradients in training.holder.tensors()["gradients"][:1]:
            for row in gradients.flatten().split(ROW):
                if not math.isfinite(row.sum().item()):
                    print("a row of the gradients is not finite", flush=True)
        return loss

    return train_and_check
