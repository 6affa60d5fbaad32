"""Any number of ranks and workers reads the same samples from the yearly files."""

from __future__ import annotations

import shutil
from itertools import chain

import h5py
import numpy as np
import pytest
import torch

from process.errors import ArgumentsError, DataError
from weather.configuration import parse
from weather.files import latitudes_of
from weather.samples import ForecastPairs, GlobalBatches, make_batches

ALL = ["--train-samples", "0", "--valid-samples", "0"]


def arguments(folder, *more):
    return parse(["--data", str(folder), *ALL, *more], 1)


def test_a_sample_is_a_state_and_the_next_one_scaled(weather):
    pairs = ForecastPairs(arguments(weather), "train")
    now, later, _ = pairs[1, 7]
    assert len(pairs) == 2 * 65
    assert torch.equal(pairs[1, 8][0], later)
    with h5py.File(weather / "train" / "2001.h5") as file:
        raw = file["fields"][7]
    assert np.allclose(now.numpy() * pairs.stds + pairs.means, raw, rtol=1e-4, atol=1e-3)


def test_pieces_begin_where_patches_do_and_run_on_past_the_last_column(weather):
    crop = ["--crop-height", "8", "--crop-width", "16"]
    whole = ForecastPairs(arguments(weather), "train")
    pairs = ForecastPairs(arguments(weather, *crop), "train")
    corners = set()
    for epoch in range(1, 30):
        now, _, corner = pairs[epoch, 5]
        row, column = corner.tolist()
        corners.add((row, column))
        rolled = whole[1, 5][0].roll(-column, -1)
        assert torch.equal(now, rolled[:, row : row + 8, :16])
    assert {row for row, _ in corners} == {0, 4, 8}
    assert any(column > 16 for _, column in corners)
    assert pairs[1, 5][2].tolist() == pairs[1, 5][2].tolist()


def test_workers_change_nothing(weather):
    found = []
    for workers in ("0", "2"):
        args = arguments(weather, "--num-workers", workers, "--crop-width", "16")
        pairs = ForecastPairs(args, "train")
        batches = GlobalBatches(len(pairs), 16, 0, 1, 1)
        of_epoch = make_batches(pairs, batches, args, torch.device("cpu"))
        found.append([torch.cat([now for now, _, _ in of_epoch(epoch)]) for epoch in (1, 2)])
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
    assert not torch.equal(found[0][0], found[0][1])


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_share_each_batch_between_them(ranks):
    shares = [list(GlobalBatches(50, 8, rank, ranks, 1)) for rank in range(ranks)]
    alone = list(GlobalBatches(50, 8, 0, 1, 1))
    assert [[*chain(*parts)] for parts in zip(*shares, strict=True)] == alone
    judged = [
        key for rank in range(ranks) for b in GlobalBatches(9, 8, rank, ranks, None) for key in b
    ]
    assert sorted(judged) == [(0, n) for n in range(9)]


def test_files_of_the_whole_planet_need_no_latitudes(tmp_path):
    """Files like the reanalysis: 721 rows from pole to pole, and `fields` alone."""
    for part, year in (("train", 1990), ("valid", 2017)):
        (tmp_path / part).mkdir()
        with h5py.File(tmp_path / part / f"{year}.h5", "w") as file:
            file["fields"] = np.random.rand(3, 20, 17, 32).astype("f4")
    (tmp_path / "stats").mkdir()
    for name in ("means", "stds"):  # of one field more, as there are
        np.save(tmp_path / "stats" / f"global_{name}.npy", np.ones((1, 21, 1, 1)))
    pairs = ForecastPairs(arguments(tmp_path), "valid")
    assert pairs[0, 1][0].shape == (20, 16, 32)
    assert latitudes_of(tmp_path / "valid" / "2017.h5")[[0, 8, 16]].tolist() == [90, 0, -90]


def changed(shape):
    """Return a function that replaces the fields of a file by none, or by others."""

    def change(weather):
        with h5py.File(weather / "valid" / "2003.h5", "r+") as file:
            del file["fields"]
            if shape:
                file.create_dataset("fields", shape, "f4")

    return change


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda w: (w / "valid" / "2003.h5").unlink(), r"no yearly files .* make some with"),
        (lambda w: np.save(w / "stats" / "global_stds.npy", np.zeros(20)), "never changes"),
        (lambda w: np.save(w / "stats" / "global_stds.npy", ["high"] * 20), "cannot be read as"),
        (lambda w: np.save(w / "stats" / "global_means.npy", np.full(20, np.nan)), "not finite"),
        (lambda w: np.save(w / "stats" / "global_means.npy", np.ones(3)), "some are missing"),
        (changed(None), "cannot be read as a year of weather"),
        (changed((1, 20, 16, 32)), "cannot be read as a year of weather"),
        (changed((66, 20, 16)), "cannot be read as a year of weather"),
        (changed((10**7, 20, 16, 32)), "was never written"),
        (lambda w: (w / "valid" / "2003.h5").write_bytes(b"x"), "cannot be read as a year"),
    ],
)
def test_files_that_are_missing_or_damaged_are_told_in_a_sentence(damage, told, weather, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(weather, copy)
    damage(copy)
    with pytest.raises(DataError, match=told):
        ForecastPairs(arguments(copy), "valid")


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_file_that_goes_while_it_is_needed_is_told_in_one_line(workers, weather, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(weather, copy)
    args = arguments(copy, "--num-workers", workers)
    pairs = ForecastPairs(args, "valid")
    (copy / "valid" / "2003.h5").unlink()
    batches = make_batches(pairs, GlobalBatches(16, 8, 0, 1, 1), args, torch.device("cpu"))
    with pytest.raises(DataError) as told:
        next(batches(1))
    assert str(told.value).startswith(f"{copy}/valid/2003.h5 does not exist (")
    assert "\n" not in str(told.value)


def test_more_than_there_is_is_refused_with_what_there_is(weather):
    flags = ["--crop-height", "20", "--crop-width", "36", "--train-samples", "131"]
    with pytest.raises(ArgumentsError) as refused:
        ForecastPairs(arguments(weather, *flags), "train")
    assert [problem.split(";")[1] for problem in refused.value.problems] == [
        f" give at most {there}, or 0 for all" for there in (16, 32, 130)
    ]
