"""Makes weather to learn from, without internet: a small planet's atmosphere, computed.

    python code/make_weather.py                        data/weather, in some seconds
    python code/make_weather.py --height 128 --width 256 --times 1460 --out /scratch/weather

writes yearly files of twenty fields every six hours, with means and standard deviations beside
them (see weather/files.py for the layout, weather/dynamics.py for what moves the air). A year
begins where the year before it ended. What is there already is kept: after a break the same command
goes on.
"""

from __future__ import annotations

import argparse
import fcntl
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent))  # `python -P` leaves it out

from flags.parser import FlagParser
from flags.ranges import TEXT, OneOf, Whole
from process.errors import ArgumentsError, DataError
from process.failing import run_and_exit
from weather.dynamics import Atmosphere
from weather.fields import FIELDS, fields_of, latitudes

FIRST_YEAR = 2001
SPIN_UP_TIMES = 120  # thirty days, until the flow has forgotten how it began
TELL_S = 3.0
FLAGS = [
    ("--out", TEXT, "data/weather", "folder"),
    ("--height", Whole(16, 4096), 32, "points from south to north"),
    ("--width", Whole(16, 8192), 64, "points around the planet, as far apart"),
    ("--train-years", Whole(1, 200), 4, "files to learn from"),
    ("--valid-years", Whole(1, 200), 1, "files to compare with, which follow them"),
    ("--times", Whole(2, 1464), 132, "states in a year, six hours apart (a whole one: 1460)"),
    ("--seed", Whole(0, 2**32 - 1), 1, "of the first, random flow"),
    ("--device", OneOf(("auto", "cpu")), "auto", "auto: a GPU if there is one"),
]


class Teller:
    """Says now and then how far the work is."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.began = self.told = time.perf_counter()

    def one_more(self, what: str) -> None:
        self.done += 1
        now = time.perf_counter()
        if now - self.told > TELL_S:
            self.told, left_s = now, (now - self.began) / self.done * (self.total - self.done)
            print(f"{what}: {self.done} of {self.total} states, {left_s:.0f} s to go", flush=True)


def made_with(args: argparse.Namespace) -> dict[str, int]:
    """What two years must have in common to belong together."""
    return {"height": args.height, "width": args.width, "times": args.times, "seed": args.seed}


def is_done(path: Path, args: argparse.Namespace) -> bool:
    """Files appear under their name when they are whole."""
    if not path.exists():
        return False
    try:
        with h5py.File(path, "r") as file:
            found = {name: int(file.attrs.get(name, -1)) for name in made_with(args)}
    except OSError as error:
        raise DataError(
            f"{path} is damaged; remove it, and the same command makes it anew"
        ) from error
    if found != made_with(args):
        flags = " ".join(f"--{name} {value}" for name, value in found.items() if value >= 0)
        raise DataError(
            f"{path} was made with other flags ({flags or 'by another program'}); give these, or "
            "another folder with --out"
        )
    return True


def end_of(path: Path, atmosphere: Atmosphere) -> Tensor:
    with h5py.File(path, "r") as file:
        return torch.from_numpy(file["last_state"][:]).to(atmosphere.y_m)


def make_year(path: Path, atmosphere: Atmosphere, state: Tensor, args: argparse.Namespace,
              teller: Teller) -> None:  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.unfinished")
    total = np.zeros((2, len(FIELDS)))
    with h5py.File(unfinished, "w") as file:
        shape = (args.times, len(FIELDS), args.height, args.width)
        fields = file.create_dataset("fields", shape, dtype="f4")
        for number in range(args.times):
            state = atmosphere.advance(state)
            now = fields_of(atmosphere, state).double().cpu().numpy()
            if not np.isfinite(now).all():
                raise DataError(f"{path}: the wind grew without end; take another --seed")
            fields[number] = now
            total += [now.mean((1, 2)), (now**2).mean((1, 2))]
            teller.one_more(path.stem)
        file["latitude"] = latitudes(args.height).numpy()
        file["last_state"] = state.cpu().numpy()
        file["sums"] = total / args.times
        file.attrs.update(made_with(args))
        file.attrs["names"] = ",".join(FIELDS)
    unfinished.replace(path)


def write_statistics(out: Path, years: list[Path]) -> None:
    """Over all points and times of the training years."""
    sums = []
    for path in years:
        with h5py.File(path, "r") as file:
            sums.append(file["sums"][:])
    means, squares = np.mean(sums, axis=0)
    folder = out / "stats"
    folder.mkdir(exist_ok=True)
    for name, values in (("means", means), ("stds", np.sqrt(squares - means**2))):
        unfinished = folder / f".global_{name}.npy"
        np.save(unfinished, values.astype(np.float32).reshape(1, -1, 1, 1))
        unfinished.replace(folder / f"global_{name}.npy")


def make(args: argparse.Namespace) -> None:
    out = Path(args.out)
    numbers = range(FIRST_YEAR, FIRST_YEAR + args.train_years + args.valid_years)
    parts = ["train"] * args.train_years + ["valid"] * args.valid_years
    years = [out / part / f"{year}.h5" for part, year in zip(parts, numbers, strict=True)]
    strange = {*out.glob("train/*.h5"), *out.glob("valid/*.h5")} - {*years}
    if strange:
        raise DataError(f"{min(strange)} is not of these years; give another folder with --out")
    done = [is_done(path, args) for path in years]
    if all(done) and all((out / "stats" / f"global_{n}.npy").is_file() for n in ("means", "stds")):
        print(f"weather is ready in {out}")
        return
    gpu = args.device == "auto" and torch.cuda.is_available()
    atmosphere = Atmosphere(args.height, args.width, "cuda" if gpu else "cpu")
    began, teller = time.perf_counter(), Teller(args.times * done.count(False) + SPIN_UP_TIMES)
    size_mb = 4e-6 * len(FIELDS) * args.height * args.width * args.times * done.count(False)
    print(f"making {done.count(False)} years of weather ({size_mb:.0f} MB) in {out} …", flush=True)
    for number, path in enumerate(years):
        if done[number]:
            continue
        if number:
            state = end_of(years[number - 1], atmosphere)
        else:
            state = atmosphere.initial(args.seed)
            for _ in range(SPIN_UP_TIMES):
                state = atmosphere.advance(state)
                teller.one_more("before the first year")
        make_year(path, atmosphere, state, args, teller)
    write_statistics(out, years[: args.train_years])
    print(f"{len(years)} years of {args.times} states of {len(FIELDS)} fields, {args.height} × "
          f"{args.width}, in {out} ({time.perf_counter() - began:.1f} s)")  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    args = FlagParser(__doc__.splitlines()[0], {"flags": FLAGS}).parse_all(argv)
    if args.height % 2 or args.width % 2:
        raise ArgumentsError(["--height and --width: give even numbers"])
    torch.set_num_threads(1)  # small transforms: more threads would only wait for each other
    torch.set_flush_denormal(True)
    out = Path(args.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a second call waits, then finds all done
            make(args)
    except OSError as error:
        raise DataError(f"--out {out}: {error}") from error
    return 0


if __name__ == "__main__":
    run_and_exit(main)
