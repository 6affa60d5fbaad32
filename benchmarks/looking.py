"""Cost of recording: steps with a memory trace, and with a profile, compared with plain steps.

    python benchmarks/looking.py --rounds 7

One process, size S of engine.py. Recorded and plain steps take turns; the medians of processor time
are printed as ratios. Writing the files is not part of a step."""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import code_on_path  # noqa: F401
import torch


def make_training() -> Any:
    from engine import SIZES
    from timed_steps.ours_and_plain import flags_of

    from flags.arguments import parse_arguments
    from parallel.layout import make_layout
    from parallel.layout_checks import grid_from
    from pretrain_gpt import build, prepare
    from process.device import start

    args = parse_arguments(flags_of(SIZES["S"]))
    grid = grid_from(args, 1)
    prepare(args, grid)
    device = start(args)
    return build(args, make_layout(grid, 0), device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    from checkpoints.checkpoint import Progress
    from pretrain_gpt import train_step

    training, progress = make_training(), Progress()

    def step_seconds() -> float:
        began = time.process_time()
        train_step(training, progress)
        return time.process_time() - began

    times: dict[str, list[float]] = {"plain": [], "memory trace": [], "profile": []}
    step_seconds()
    for _ in range(rounds):
        times["plain"] += [step_seconds() for _ in range(3)]
        for name, shapes in (("memory trace", False), ("profile", True)):
            with torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU],
                record_shapes=shapes,
                profile_memory=True,
            ):
                step_seconds()
                times[name] += [step_seconds() for _ in range(2)]
    base = statistics.median(times["plain"])
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:14} {median * 1e3:8.1f} ms per step  {median / base:.3f} × plain")


if __name__ == "__main__":
    main()
