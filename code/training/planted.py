"""Two bottlenecks for the lesson on profiling, planted by `--planted-bottleneck 1` and `2`.

Whoever means to find them in a trace should do that before reading on.
"""

from __future__ import annotations

import argparse
import math
import time

from parallel.data_parallel import Replicated
from parallel.fully_sharded import FullySharded
from parallel.layout import Layout

SLOW_DISK_S = 0.2
ROW = 1024


def before_reading(args: argparse.Namespace, layout: Layout) -> None:
    """1: the disk of one rank is slow. Waiting for it takes no processor."""
    if args.planted_bottleneck == "1" and layout.rank == layout.everyone.size // 2:
        time.sleep(SLOW_DISK_S)


def after_backward(args: argparse.Namespace, holder: Replicated | FullySharded) -> None:
    """2: a check for broken gradients looks at them row by row. Each row is a few tiny operators,
    and `.item()` makes the program wait for their answer before it starts the next."""
    if args.planted_bottleneck == "2":
        for gradients in holder.tensors()["gradients"][:1]:
            for row in gradients.flatten().split(ROW):
                if not math.isfinite(row.sum().item()):
                    print("a row of the gradients is not finite", flush=True)
