"""Loader and training loop of train_vit.py beside a plain PyTorch script of the same model.

    python benchmarks/weather_loop.py --ranks 2 --workers 1

The plain script has what a good tutorial has: a Dataset of the HDF5 file, DataLoader, sampler,
PyTorch's encoder layers, DDP, Adam. Both read the same made weather, in turns within one run. The
plain one runs twice: as it is, and in processes whose C library keeps freed memory, as the
program's does. Printed are medians over rounds; goal: as fast, 1.0.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile

import code_on_path  # noqa: F401
from timed_steps.weather_steps import seconds_per_step
from worlds import Worlds

from make_weather import main as make_weather

SIDES = {"program": (False, True), "plain": (True, False), "plain, keeps memory": (True, True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=16)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        Worlds(True) as one,
        Worlds(True) as two,
        Worlds(True) as tre,
    ):
        make_weather(["--out", folder, "--train-years", "1", "--times", "65"])
        argv = f"--data {folder} --train-samples 0 --valid-samples 0 --num-workers {asked.workers}"
        flags = [*argv.split(), "--global-batch-size", str(asked.batch), "--epochs", "100"]
        worlds = [world(asked.ranks) for world in (one, two, tre)]
        seconds: dict[str, list[float]] = {name: [] for name in SIDES}
        losses = dict.fromkeys(SIDES, 0.0)
        for _ in range(asked.rounds):
            for world, (name, side) in zip(worlds, SIDES.items(), strict=True):
                found = world.run(seconds_per_step, flags, *side, asked.steps)
                seconds[name].append(max(each for each, _ in found))
                losses[name] = found[0][1]
    for name, each in seconds.items():
        ratios = [other / ours for other, ours in zip(each, seconds["program"], strict=True)]
        print(
            f"{name:20} {asked.batch / statistics.median(each):7.1f} samples/s, the program is "
            f"{statistics.median(ratios):.2f} times as fast; last loss {losses[name]:.3f}"
        )


if __name__ == "__main__":
    main()
