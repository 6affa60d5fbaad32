"""Loader and training loop of train_vit.py beside a plain PyTorch script of the same model.

    python benchmarks/weather_loop.py --ranks 2

The plain script has the elements of a good tutorial: a Dataset of the HDF5 file, DataLoader,
sampler, PyTorch's encoder layers, DDP, Adam. Both read the same generated weather, in turns within
one run. The plain one runs twice: unchanged, and in processes whose C library keeps freed memory,
like the program's. Medians over rounds are printed; the goal is equal speed, 1.0."""

from __future__ import annotations

import argparse
import statistics
import tempfile
from contextlib import ExitStack

import code_on_path  # noqa: F401
from timed_steps.weather_steps import seconds_per_step
from worlds import Worlds

from make_weather import main as make_weather

SIDES = {"program": (False, True), "plain": (True, False), "plain, keeps memory": (True, True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=16)
    asked = parser.parse_args()
    found: dict[str, list[list[float]]] = {name: [] for name in SIDES}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        make_weather(["--out", folder, "--train-years", "1", "--times", "65"])
        argv = f"--data {folder} --train-samples 0 --valid-samples 0 --epochs 100"
        flags = [*argv.split(), "--global-batch-size", str(asked.batch)]
        worlds = [stack.enter_context(Worlds(keep_groups=True))(asked.ranks) for _ in SIDES]
        for _ in range(asked.rounds):
            for world, (name, side) in zip(worlds, SIDES.items(), strict=True):
                found[name].append(max(world.run(seconds_per_step, flags, *side, asked.steps)))
    ours = found["program"]
    for name, rounds in found.items():
        pairs = zip(rounds, ours, strict=True)
        clock, processor = zip(*((a[0] / b[0], a[1] / b[1]) for a, b in pairs), strict=True)
        print(
            f"{name:20} {asked.batch / statistics.median(each[0] for each in rounds):6.1f} "
            f"samples/s; the program is {statistics.median(clock):.2f} times as fast, and by "
            f"processor time {statistics.median(processor):.2f}; last loss {rounds[-1][2]:.3f}"
        )


if __name__ == "__main__":
    main()
