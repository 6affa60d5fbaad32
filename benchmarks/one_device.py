"""Ladder of lesson 01 on one device: the effect of each change in the weather model's training.

    python benchmarks/one_device.py --out /tmp/ladder
    python benchmarks/one_device.py --out /tmp/ladder --height 16 --width 32 --size tiny

The program generates weather once, then trains with one more change on each rung. Rounds take
turns; the medians of samples per second after the first epoch are printed. GPU-only changes are
left out without a GPU. On a GPU it also prints the losses of a recorded and a computed step, and
leaves a profile of each rung in the folder."""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import torch

CODE = Path(__file__).resolve().parents[1] / "code"
SIZES = {
    "tiny": {"embed_dim": 32, "depth": 2, "num_heads": 4},
    "small": {"embed_dim": 256, "depth": 6, "num_heads": 8},
    "base": {"embed_dim": 384, "depth": 12, "num_heads": 8},
}
LADDER = {
    "as written": {"tf32": "false"},
    "4 workers": {"num_workers": 4},
    "TF32": {"tf32": "true"},
    "bf16": {"amp_mode": "bf16"},
    "fused Adam": {"fused_optimizer": "true"},
    "compiled": {"torch_compile": "true"},
    "CUDA graph": {"torch_compile": "false", "cuda_graphs": "true"},
}
ON_GPU = ("TF32", "CUDA graph")
EPOCH = re.compile(r"Time taken for epoch (\d+) is \S+ sec, avg ([\d.]+) samples/sec")
LOSS = re.compile(r"Avg train loss=([\d.]+)")


def run(program: str, flags: dict[str, object], folder: Path | None = None) -> str:
    words = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
    environment = os.environ | ({"COURSE_RUN_DIR": str(folder)} if folder else {})
    recording = ["--profile"] if folder else []
    command = [sys.executable, str(CODE / program), *words, *recording]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--height", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    weather = args.out / "weather"
    shape = {"height": args.height, "width": args.width, "train_years": 2}
    run("make_weather.py", {"out": weather, **shape})
    samples = {"train_samples": 16 * args.batch, "valid_samples": args.batch, "epochs": 4}
    window = {"profile_step_start": 8, "profile_step_end": 12}
    same = {"data": weather, "global_batch_size": args.batch, **samples, **window}
    flags: dict[str, object] = {**same, **SIZES[args.size]}
    rungs = {}
    for name, change in LADDER.items():
        if name not in ON_GPU or torch.cuda.is_available():
            flags = {**flags, **change}
            rungs[name] = flags
    speeds: dict[str, list[float]] = {name: [] for name in rungs}
    losses: dict[str, list[str]] = {}
    for _ in range(args.rounds):
        for name, chosen in rungs.items():
            text = run("train_vit.py", chosen, args.out / name.replace(" ", "-"))
            speeds[name] += [float(speed) for epoch, speed in EPOCH.findall(text) if epoch != "1"]
            losses[name] = LOSS.findall(text)
    base = statistics.median(speeds["as written"])
    for name, found in speeds.items():
        speed = statistics.median(found)
        print(f"{name:12} {speed:10.1f} samples/s  {speed / base:6.2f} × as written")
    if "CUDA graph" in losses:
        print("losses, fused:   ", *losses["fused Adam"])
        print("losses, recorded:", *losses["CUDA graph"])


if __name__ == "__main__":
    main()
