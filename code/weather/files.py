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

MAKE = "python code/make_weather.py --out {}"
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
        times, fields, height, width = file["fields"].shape
    return times, fields, height, width


def opened(path: Path) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except OSError as error:
        why = "is not an HDF5 file, or is incomplete" if path.is_file() else "does not exist"
        raise DataError(f"{path} {why} ({error}); {CURE}") from error


def latitudes_of(path: Path) -> np.ndarray:
    """Return the degrees of the rows."""
    with opened(path) as file:
        height = file["fields"].shape[2]
        if "latitude" in file:
            return np.asarray(file["latitude"], dtype=np.float64)
    return np.linspace(90, -90, height)


def statistics_of(folder: Path, fields: int) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations, as [fields, 1, 1]."""
    means, stds = (
        _numbers(folder / "stats" / f"global_{name}.npy", fields) for name in ("means", "stds")
    )
    if not (stds > 0).all():
        raise DataError(
            f"{folder}/stats/global_stds.npy has a zero: a field that never changes cannot be "
            "scaled"
        )
    return means, stds


def _numbers(path: Path, fields: int) -> np.ndarray:
    try:
        values = np.load(path, allow_pickle=False).astype(np.float32)
    except (OSError, ValueError, EOFError) as error:
        why = "does not exist" if not path.is_file() else "is not a NumPy file, or is incomplete"
        raise DataError(f"{path} {why}; {CURE}") from error
    return values.reshape(-1)[:fields, None, None]
