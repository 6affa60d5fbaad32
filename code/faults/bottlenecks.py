"""Bottlenecks for the lesson on profiling: `--planted-bottleneck 1`, and `3` in every second step.

If you want to find them in a trace, stop reading here."""

from __future__ import annotations

import time
from typing import Any

from faults.fault import Fault

SLOW_DISK_S = 0.2


class SlowDisk(Fault):
    """Fault: one rank reads from a slow disk in every n-th step; the wait uses no processor
    time."""

    def built(self, training: Any) -> None:
        if not self.mine:
            return
        read = training.loaders["train"].batch

        def read_slowly(consumed_samples: int, micro_batches: int) -> Any:
            if consumed_samples // training.args.global_batch_size % self.iteration == 0:
                time.sleep(SLOW_DISK_S)
            return read(consumed_samples, micro_batches)

        training.loaders["train"].batch = read_slowly
