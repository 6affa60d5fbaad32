"""The weather model learns, by one process or by two, and prints lines that the readers know."""

from __future__ import annotations

import re

import pytest
from one_forecast import program

from process.errors import AskedError
from weather.configuration import parse

ALL = ["--train-samples", "0", "--valid-samples", "0"]
SMALL = [*ALL, "--embed-dim", "32", "--depth", "2", "--num-heads", "4"]
NUMBER = r"(\d+(?:\.\d+)?(?:e-?\d+)?)"
LINES = {
    "epoch": rf"INFO - Time taken for epoch (\d+) is {NUMBER} sec, avg {NUMBER} samples/sec$",
    "train": rf"INFO -   Avg train loss={NUMBER}$",
    "valid": rf"INFO -   Avg val loss={NUMBER}$",
    "validation": rf"INFO -   Total validation time: {NUMBER} sec$",
    "forward": rf"INFO - Memory usage after forward pass: {NUMBER} GB\.$",
    "scaffolding": rf"INFO - Scaffolding memory high watermark: {NUMBER} GB\.$",
    "wind": rf"INFO -   RMSE of the 10 m wind={NUMBER} m/s, of persistence={NUMBER} m/s$",
}


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def printed(worlds, weather, run_folder):
    flags = ["--data", str(weather), *SMALL, "--epochs", "4"]
    profile = ["--profile", "--profile-step-start", "2", "--profile-step-end", "4"]
    return worlds(1).run(program, [*flags, *profile], {"COURSE_RUN_DIR": str(run_folder)})[0]


@pytest.fixture(scope="module")
def told(printed):
    return {name: re.findall(line, printed, re.MULTILINE) for name, line in LINES.items()}


def test_the_lines_of_an_epoch_are_those_that_readers_know(told):
    assert [int(number) for number, _, _ in told["epoch"]] == [1, 2, 3, 4]
    for _, seconds, speed in told["epoch"]:
        assert float(seconds) * float(speed) == pytest.approx(128, rel=1e-4)  # 130, less the rest
    losses = [float(loss) for loss in told["train"]]
    assert len(told["valid"]) == len(told["validation"]) == len(losses) == 4
    assert losses[-1] < losses[0]
    assert len(told["forward"]) == len(told["scaffolding"]) == 1


def test_the_reader_of_logs_makes_a_table_of_them(printed, tmp_path):
    from course_lib.read.training_logs.reader import training_log

    (tmp_path / "out.log").write_text(printed)
    log = training_log(tmp_path / "out.log")
    assert log.epochs["epoch"].tolist() == [1, 2, 3, 4]
    for column in ("elapsed_s", "samples_per_second", "train_loss", "validation_loss"):
        assert log.epochs[column].notna().all()
    assert (log.epochs["wind_rmse_m_s"] < log.epochs["persistence_rmse_m_s"]).all()
    assert log.world.world_size == 1
    assert log.parameter_count


def test_a_run_leaves_scalars_and_a_profile(printed, run_folder):
    assert list((run_folder / "tensorboard").glob("events.*"))
    assert list((run_folder / "profile").glob("rank0.*.pt.trace.json.gz"))


@pytest.mark.parametrize("mode", ["fp16", "bf16"])
def test_halves_learn_too(mode, worlds, weather):
    flags = ["--data", str(weather), *SMALL, "--amp-mode", mode, "--fused-optimizer", "true"]
    text = worlds(1).run(program, [*flags, "--epochs", "2"])[0]
    (forecast, persistence) = re.findall(LINES["wind"], text, re.MULTILINE)[-1]
    assert float(forecast) < float(persistence)


def test_every_configuration_is_one():
    for name in ("base", "short", "bs64_opt", "bs256_opt", "bs1024_opt", "mp", "tiny"):
        args = parse(["--config", name], 1)
        assert args.embed_dim == {"mp": 1024, "tiny": 128}.get(name, 384)
    assert parse(["--config", "bs256_opt"], 4).amp_mode == "bf16"
    assert parse(["--config", "short", "--lr", "1"], 1).lr == 1


@pytest.mark.parametrize(("scaling", "rate"), [("none", 1e-3), ("sqrt", 2e-3), ("linear", 4e-3)])
def test_the_learning_rate_grows_with_the_batch_as_asked(scaling, rate):
    from train_vit import schedule_of

    flags = ["--lr", "1e-3", "--lr-batch-size", "16", "--global-batch-size", "64"]
    args = parse([*flags, "--lr-scaling", scaling], 1)
    assert schedule_of(args, 100).lr == pytest.approx(rate)


@pytest.mark.parametrize(
    ("flags", "ranks", "told"),
    [
        (["--config", "large"], 1, "--config large: configurations.yaml has base, short"),
        (["--global-batch-size", "6"], 4, "divided by 4 data ranks; use 4"),
        (["--crop-width", "30"], 1, "no multiple of --patch-size 4"),
        (["--config-file", "/nowhere.yaml"], 1, "does not exist"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(flags, ranks, told):
    with pytest.raises(AskedError, match=told):
        parse(flags, ranks)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tiny: {depth: many, widht: 3}", r"depth many: give .*there is no key widht"),
        ("tiny: {depth: 2}", "has no value for --data"),
        ("tiny: [", "cannot be read"),
        ("tiny: [1]", "cannot be read"),
        ("[tiny]", "cannot be read"),
        ("a: &a [1]\ntiny: {depth: *a}", "depth .*: give one value"),
    ],
)
def test_a_configuration_file_with_mistakes_is_told_in_words(text, told, tmp_path):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(AskedError, match=told):
        parse(["--config-file", str(tmp_path / "mine.yaml")], 1)
