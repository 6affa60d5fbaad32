"""Weather files in the layout of the reanalysis (ERA5) for training:

    train/2001.h5 …  valid/2005.h5    a file per year: `fields` [times, fields, height, width], a
                                      state every six hours, rows from north to south
    stats/global_means.npy            [1, fields, 1, 1], over the training years
    stats/global_stds.npy

A file without `latitude` covers the whole planet, from 90° to -90°."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from process.errors import DataError
from process.reading import understood

MAKE = "python code/make_weather.py --out {}"
YEAR = "a year of weather, `fields` [times, fields, height, width]"
CURE = f"copy it again, or make weather in another folder with `{MAKE.format('FOLDER')}`"


def years_in(folder: Path) -> list[Path]:
    """Return the yearly files of a folder such as data/weather/train, in order."""
    found = sorted(folder.glob("*.h5"))
    if not found:
        raise DataError(
            f"no yearly files (*.h5) in {folder}; make some with `{MAKE.format(folder.parent)}`, "
            "or give --data a folder with train, valid and stats"
        )
    return found


def shape_of(path: Path) -> tuple[int, int, int, int]:
    """Return times, fields, height and width."""
    with opened(path) as file:
        return file["fields"].shape


def opened(path: Path) -> h5py.File:
    with understood(path, YEAR, CURE):
        file = h5py.File(path, "r")
        fields = file["fields"]
        times, *sizes = fields.shape
        if times < 2 or len(sizes) != 3 or 0 in sizes or fields.dtype.kind not in "fiu":
            raise ValueError(f"it has {fields}")
        if fields.nbytes > 1000 * fields.id.get_storage_size():  # no compression packs more
            raise ValueError("most of `fields` was never written")
        return file


def latitudes_of(path: Path) -> np.ndarray:
    """Return the degrees of the rows."""
    with understood(path, YEAR, CURE), opened(path) as file:
        height = file["fields"].shape[2]
        if "latitude" not in file:
            return np.linspace(90, -90, height)
        degrees = np.asarray(file["latitude"], dtype=np.float64)
        if degrees.shape != (height,) or not (abs(degrees) <= 90).all():
            raise ValueError("`latitude` is not a number from -90 to 90 for each row")
        return degrees


def statistics_of(folder: Path, fields: int) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations, as [fields, 1, 1]."""
    found = []
    for name in ("means", "stds"):
        path = folder / "stats" / f"global_{name}.npy"
        with understood(path, f"{fields} finite numbers of a NumPy file", CURE):
            values = np.lib.format.open_memmap(path, mode="r").reshape(-1)[:fields]
            values = values.astype(np.float32, casting="same_kind")
            if len(values) < fields or not np.isfinite(values).all():
                raise ValueError("some are missing, or are not finite")
            if name == "stds" and not (values > 0).all():
                raise ValueError("a field that never changes cannot be scaled")
        found.append(values[:, None, None])
    return found[0], found[1]
