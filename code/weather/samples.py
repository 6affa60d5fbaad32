"""Batches from yearly files: pairs of states six hours apart, cropped at random and scaled.

A sample depends only on its number, the epoch and --seed, not on the number of ranks or workers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from process.errors import ArgumentsError, DataError
from process.reading import understood
from weather.files import CURE, YEAR, latitudes_of, opened, shape_of, statistics_of, years_in

# Fields now, fields six hours later, and the first row and column of the crop.
Sample = tuple[Tensor, Tensor, Tensor]
# Epoch and number of a sample.
Key = tuple[int, int]


class ForecastPairs(Dataset[Sample]):
    """Dataset `train` or `valid` of a folder. Crops begin at a patch and continue past the last
    column, whose neighbour is the first."""

    def __init__(self, args: argparse.Namespace, part: str) -> None:
        folder = Path(args.data)
        self.years, self.seed, self.patch = years_in(folder / part), args.seed, args.patch_size
        shapes = [shape_of(path) for path in self.years]
        if len({shape[1:] for shape in shapes}) > 1:
            raise DataError(f"{folder}/{part}: the years differ in fields or grid: {shapes}")
        _, fields, height, width = shapes[0]
        self.channels = min(fields, args.channels)
        # 721 rows, from pole to pole, are one more than a multiple of the patch.
        self.height, self.width = (n // self.patch * self.patch for n in (height, width))
        self.rows, self.columns = args.crop_height or self.height, args.crop_width or self.width
        self.means, self.stds = statistics_of(folder, self.channels)
        self.latitudes = latitudes_of(self.years[0])[: self.height]
        pairs = [(y, t) for y, shape in enumerate(shapes) for t in range(shape[0] - 1)]
        limit = args.train_samples if part == "train" else args.valid_samples
        wanted = limit or len(pairs)
        _check_enough(f"{folder}/{part}", (
            ("--crop-height", self.rows, self.height, "rows"),
            ("--crop-width", self.columns, self.width, "columns"),
            (f"--{part}-samples", wanted, len(pairs), "pairs of states"),
        ))  # fmt: skip
        # Evenly over all years, as the first pairs would be from the same weeks.
        self.pairs = [pairs[n * len(pairs) // wanted] for n in range(wanted)]
        self.part, self.files = part, {}

    # The worker that reads a file opens it: the library must not be open across a fork.
    files: dict[int, h5py.File]

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, key: Key) -> Sample:
        epoch, number = key
        year, time = self.pairs[number]
        row, column = self._corner(epoch if self.part == "train" else 0, number)
        with understood(self.years[year], YEAR, CURE):
            if year not in self.files:
                self.files[year] = opened(self.years[year])
            now, later = (self._piece(year, time + step, row, column) for step in (0, 1))
        return now, later, torch.tensor([row, column])

    def _corner(self, epoch: int, number: int) -> tuple[int, int]:
        random = np.random.default_rng((self.seed, epoch, number))
        row = random.integers(0, (self.height - self.rows) // self.patch + 1)
        whole = self.columns == self.width
        column = 0 if whole else random.integers(0, self.width // self.patch)
        return int(row) * self.patch, int(column) * self.patch

    def _piece(self, year: int, time: int, row: int, column: int) -> Tensor:
        fields, rows = self.files[year]["fields"], slice(row, row + self.rows)
        ends = column + self.columns
        found = fields[time, : self.channels, rows, column : min(ends, self.width)]
        if ends > self.width:
            rest = fields[time, : self.channels, rows, : ends - self.width]
            found = np.concatenate([found, rest], axis=-1)
        found = found.astype(np.float32, copy=False)
        found -= self.means  # in place: with new arrays it takes five times as long
        found /= self.stds
        return torch.from_numpy(found)


def _check_enough(folder: str, sizes: tuple[tuple[str, int, int, str], ...]) -> None:
    """Refuse more samples than the files have; with fewer samples the run would differ."""
    found = [
        f"{flag} {wanted}: {folder} has {there} {what}; give at most {there}, or 0 for all"
        for flag, wanted, there, what in sizes
        if wanted > there
    ]
    if found:
        raise ArgumentsError(*found)


class GlobalBatches:
    """Samples that a rank reads: its share of each global batch. Two ranks with half a batch each
    read the same samples as one rank. Training leaves out an incomplete last batch; validation does
    not."""

    def __init__(
        self, count: int, size: int, rank: int, ranks: int, shuffled_by: int | None
    ) -> None:
        self.count, self.size, self.rank, self.ranks = count, size, rank, ranks
        self.seed, self.epoch = shuffled_by, 0

    def __len__(self) -> int:
        return self.count // self.size if self.seed is not None else -(-self.count // self.size)

    def __iter__(self) -> Iterator[list[Key]]:
        order = np.arange(self.count)
        if self.seed is not None:
            np.random.default_rng((self.seed, self.epoch)).shuffle(order)
        for number in range(len(self)):
            batch = order[number * self.size : (number + 1) * self.size]
            share = -(-len(batch) // self.ranks)
            mine = batch[self.rank * share : (self.rank + 1) * share]
            if len(mine):
                yield [(self.epoch, int(n)) for n in mine]


# Batches of an epoch.
Batches = Callable[[int], Iterator[Sample]]


def make_batches(
    pairs: ForecastPairs, batches: GlobalBatches, args: argparse.Namespace, device: torch.device
) -> Batches:
    """Return batches from PyTorch's loader, or from NVIDIA DALI on the GPU."""
    if args.loader == "dali" and pairs.part == "train":
        from weather.dali_loader import dali_batches

        return dali_batches(pairs, batches, args, device)
    pinned = args.pin_memory and device.type == "cuda"
    more: dict[str, Any] = {}
    if args.num_workers:
        more = {"persistent_workers": args.persistent_workers, "prefetch_factor": args.prefetch}
    loader = DataLoader(
        pairs, batch_sampler=batches, num_workers=args.num_workers, pin_memory=pinned, **more
    )

    def of_epoch(epoch: int) -> Iterator[Sample]:
        batches.epoch = epoch
        try:
            for batch in loader:
                now, later, corner = (t.to(device, non_blocking=pinned) for t in batch)
                yield now, later, corner
        except DataError as error:  # a worker's error includes its traceback
            told = str(error).strip().splitlines()[-1]
            raise DataError(told.removeprefix("process.errors.DataError: ")) from error

    return of_epoch
