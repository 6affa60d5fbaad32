"""make_weather.py makes weather that moves, has structure, and is the same every time."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

import make_weather
from make_weather import main
from process.errors import DataError
from weather.fields import FIELDS

SHORT = ["--height", "16", "--width", "32", "--train-years", "1", "--times", "3"]


def fields(path):
    with h5py.File(path) as file:
        return file["fields"][:]


@pytest.fixture(scope="module")
def scaled(weather):
    means, stds = (np.load(weather / "stats" / f"global_{n}.npy") for n in ("means", "stds"))
    return (fields(weather / "valid" / "2003.h5") - means) / stds


def test_means_and_deviations_are_those_of_the_training_years(weather):
    values = np.concatenate([fields(weather / "train" / f"{y}.h5") for y in (2001, 2002)])
    means, stds = (np.load(weather / "stats" / f"global_{n}.npy") for n in ("means", "stds"))
    by_field = values.astype(np.float64).transpose(1, 0, 2, 3).reshape(20, -1)
    assert means.ravel() == pytest.approx(by_field.mean(1), rel=1e-5, abs=1e-5)
    assert stds.ravel() == pytest.approx(by_field.std(1), rel=1e-3)


def test_a_field_changes_within_six_hours_but_is_not_lost(scaled):
    wind = scaled[:, FIELDS.index("v850")]
    after = [np.corrcoef(wind[:-n].ravel(), wind[n:].ravel())[0, 1] for n in (1, 4, 40)]
    assert 0.8 < after[0] < 0.99
    assert after[0] > after[1] > after[2]
    assert abs(after[2]) < 0.5


def test_wind_blows_along_the_lines_of_equal_height(scaled, weather):
    """This is geostrophic balance, which independent fields would not have."""
    values = fields(weather / "valid" / "2003.h5")
    height, wind = values[:, FIELDS.index("z850")], values[:, FIELDS.index("v850")]
    eastward = np.roll(height, -1, -1) - np.roll(height, 1, -1)
    assert np.corrcoef(eastward.ravel(), wind.ravel())[0, 1] > 0.98


@pytest.fixture
def hasty(monkeypatch):
    """Make files of the right form without simulating the weather."""
    monkeypatch.setattr(make_weather, "SPIN_UP_TIMES", 4)


def test_the_same_seed_makes_the_same_and_another_one_does_not(hasty, tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        main(["--out", str(tmp_path / name), "--seed", str(seed), *SHORT])
    a, b, c = (fields(tmp_path / name / "train" / "2001.h5") for name in "abc")
    assert np.array_equal(a, b)
    assert not np.allclose(a, c)


def test_a_second_call_keeps_what_is_there(hasty, tmp_path, capsys):
    flags = ["--out", str(tmp_path), *SHORT]
    main(flags)
    kept = (tmp_path / "train" / "2001.h5").stat().st_mtime_ns
    main(flags)
    assert (tmp_path / "train" / "2001.h5").stat().st_mtime_ns == kept
    assert "weather is ready" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "stats", "train", "valid"]


def test_other_flags_do_not_mix_into_a_folder(hasty, tmp_path):
    main(["--out", str(tmp_path), *SHORT])
    with pytest.raises(DataError, match=r"computed with other flags .*--seed 1"):
        main(["--out", str(tmp_path), *SHORT, "--seed", "2"])
    (tmp_path / "train" / "2001.h5").unlink()
    with pytest.raises(DataError, match="has other years, or not all"):
        main(["--out", str(tmp_path), *SHORT])
