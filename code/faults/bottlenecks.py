"""Bottlenecks for the lesson on profiling: `--planted-bottleneck 1`, and `3` in every second step.

If you want to find them in a trace, stop reading here."""

from __future__ import annotations

import time
from typing import Any

SLOW_DISK_S = 0.2


def plant_in(training: Any, kind: str) -> None:
    """Simulate a slow disk on one rank; the wait uses no processor time."""
    if training.layout.rank != training.layout.everyone.size // 2:
        return
    every, read = 1 if kind == "1" else 2, training.loaders["train"].batch

    def read_slowly(consumed_samples: int, micro_batches: int) -> Any:
        if consumed_samples // training.args.global_batch_size % every == 0:
            time.sleep(SLOW_DISK_S)
        return read(consumed_samples, micro_batches)

    training.loaders["train"].batch = read_slowly
