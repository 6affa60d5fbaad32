"""Compute the weather of a small planet, as training data that needs no internet.

    python code/make_weather.py                        data/weather, in some seconds
    python code/make_weather.py --height 128 --width 256 --times 1460 --out /scratch/weather

The program writes yearly files of twenty fields every six hours, and their means and standard
deviations (see weather/files.py for the layout, weather/dynamics.py for the equations). Each year
starts where the previous one ended. A second call finds the files and returns at once."""

from __future__ import annotations

import argparse
import fcntl
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import Tensor

from flags.parser import FlagParser
from flags.ranges import TEXT, OneOf, Whole
from process.errors import ArgumentsError, DataError
from process.exit import run_and_exit
from weather.dynamics import Atmosphere
from weather.fields import FIELDS, fields_of, latitudes
from weather.files import opened

FIRST_YEAR = 2001
SPIN_UP_TIMES = 120  # thirty days, until the flow does not depend on the initial state
FOLDERS = ("stats", "valid", "train")
FLAGS = [
    ("--out", TEXT, "data/weather", "folder for the files"),
    ("--height", Whole(16, 4096), 32, "points from south to north"),
    ("--width", Whole(16, 8192), 64, "points around the planet"),
    ("--train-years", Whole(1, 200), 4, "files for training, one per year"),
    ("--valid-years", Whole(1, 200), 1, "files for validation, of the years after them"),
    ("--times", Whole(2, 1464), 132, "states in a file, six hours apart (a year has 1460)"),
    ("--seed", Whole(0, 2**32 - 1), 1, "seed of the random flow at the start"),
    ("--device", OneOf(("auto", "cpu")), "auto", "auto: a GPU if there is one"),
]


def made_with(args: argparse.Namespace) -> dict[str, int]:
    """Return the flags that are stored in the files, to detect weather made with other flags."""
    return {"height": args.height, "width": args.width, "times": args.times, "seed": args.seed}


def years_in(out: Path, args: argparse.Namespace) -> list[Path]:
    parts = ["train"] * args.train_years + ["valid"] * args.valid_years
    return [out / part / f"{FIRST_YEAR + number}.h5" for number, part in enumerate(parts)]


def is_ready(out: Path, args: argparse.Namespace) -> bool:
    """Tell whether the files exist. The folders appear only when they are complete."""
    if not any((out / name).exists() for name in FOLDERS):
        return False
    years = years_in(out, args)
    there = {*out.glob("train/*.h5"), *out.glob("valid/*.h5")}
    if there != {*years}:
        raise DataError(
            f"{out} has other years, or not all of them; give its --train-years and "
            "--valid-years, or another --out"
        )
    with opened(years[0]) as file:
        found = {name: file.attrs.get(name, -1) for name in made_with(args)}
    if found != made_with(args):
        flags = " ".join(f"--{name} {value}" for name, value in found.items())
        raise DataError(
            f"{out} was computed with other flags ({flags}); give these, or another --out"
        )
    return True


def make_year(
    path: Path, atmosphere: Atmosphere, state: Tensor, args: argparse.Namespace
) -> tuple[Tensor, np.ndarray]:
    """Write a year that follows `state`; return the final state, and means of the fields and of
    their squares."""
    total = np.zeros((2, len(FIELDS)))
    with h5py.File(path, "w") as file:
        shape = (args.times, len(FIELDS), args.height, args.width)
        fields = file.create_dataset("fields", shape, dtype="f4")
        for number in range(args.times):
            state = atmosphere.advance(state)
            now = fields_of(atmosphere, state).double().cpu().numpy()
            if not np.isfinite(now).all():
                raise DataError("the wind grows without limit; give another --seed")
            fields[number] = now
            total += [now.mean((1, 2)), (now**2).mean((1, 2))]
        file["latitude"] = latitudes(args.height).numpy()
        file.attrs.update(made_with(args))
        file.attrs["names"] = ",".join(FIELDS)
    print(f"{path.stem} is made", flush=True)
    return state, total / args.times


def write_statistics(folder: Path, of_years: list[np.ndarray]) -> None:
    """Write mean and standard deviation over all points and times of the training years."""
    means, squares = np.mean(of_years, axis=0)
    for name, values in (("means", means), ("stds", np.sqrt(squares - means**2))):
        np.save(folder / f"global_{name}.npy", values.astype(np.float32).reshape(1, -1, 1, 1))


def make(args: argparse.Namespace) -> None:
    """Write all files into a temporary folder and move them into place at the end."""
    out, count = Path(args.out), args.train_years + args.valid_years
    if is_ready(out, args):
        print(f"weather is ready in {out}")
        return
    gpu = args.device == "auto" and torch.cuda.is_available()
    atmosphere = Atmosphere(args.height, args.width, "cuda" if gpu else "cpu")
    began = time.perf_counter()
    size_mb = 4e-6 * len(FIELDS) * args.height * args.width * args.times * count
    print(f"making {count} years of weather ({size_mb:.0f} MB) in {out} …", flush=True)
    state = atmosphere.initial(args.seed)
    for _ in range(SPIN_UP_TIMES):
        state = atmosphere.advance(state)
    with tempfile.TemporaryDirectory(dir=out, prefix=".making-") as making:
        for name in FOLDERS:
            (Path(making) / name).mkdir()
        of_years = []
        for path in years_in(Path(making), args):
            state, means = make_year(path, atmosphere, state, args)
            of_years.append(means)
        write_statistics(Path(making) / "stats", of_years[: args.train_years])
        for name in FOLDERS:
            (Path(making) / name).rename(out / name)
    print(f"{count} years of {args.times} states of {len(FIELDS)} fields, {args.height} × "
          f"{args.width}, in {out} ({time.perf_counter() - began:.1f} s)")  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    args = FlagParser(__doc__.splitlines()[0], {"flags": FLAGS}).parse_all(argv)
    if args.height % 2 or args.width % 2:
        raise ArgumentsError("--height and --width: give even numbers")
    torch.set_num_threads(1)  # small transforms: more threads would only wait for each other
    torch.set_flush_denormal(True)
    out = Path(args.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a second call waits, then finds the files
            make(args)
    except OSError as error:
        raise DataError(f"--out {out}: {error}") from error
    return 0


if __name__ == "__main__":
    run_and_exit(main)
