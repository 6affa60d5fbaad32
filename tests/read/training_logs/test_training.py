"""Forms of training logs that no real log at hand shows, or shows only in part."""

from __future__ import annotations

import pandas as pd
import pytest

from course_lib import read

from .printed import feed, line


def test_fast_decoding_gives_the_same_floats_as_python():
    text = "".join(line(n, 0.1 * n, 10.0 ** (n % 7 - 3) * 1.234567) for n in range(1, 400))
    log = feed(text)
    for row, printed in zip(log.iterations.itertuples(), text.splitlines(), strict=True):
        fields = {
            part.split(":")[0].strip(): part.split(":")[1] for part in printed.split("|")[1:-1]
        }
        assert row.elapsed_ms == float(fields["elapsed time per iteration (ms)"])
        assert row.lm_loss == float(fields["lm loss"])
        assert row.learning_rate == float(fields["learning rate"])


def test_benchmark_lines_with_seconds_and_rank_prefix():
    log = feed(
        "[default3]: iteration       20/ 3125000 | consumed samples: 1920 | elapsed time per "
        "iteration (s): 5.3551 | learning rate: 1.0E-04 | samples per second: 17.927 | "
        "TFLOPs: 137.10 |\n"
    )
    row = log.iterations.iloc[0]
    assert row.elapsed_ms == pytest.approx(5355.1)
    assert (row.samples_per_second, row.tflops_per_device) == (17.927, 137.10)
    assert row.iteration == 20


WHO = {
    # before the word `iteration`: rank, node, time of day
    "[default7]:[rank15]:": (15, None, None),
    "3: ": (3, None, None),
    " 7:": (7, None, None),
    "3: [default7]: ": (31, None, None),
    "[1,15]<stdout>:": (15, None, None),
    "[rank3]: ": (3, None, None),
    "n12: ": (None, "n12", None),
    "10.0.0.3: ": (None, "10.0.0.3", None),
    "(worker pid=12, ip=10.0.0.7) ": (None, "10.0.0.7", None),
    "\x1b[32m0: \x1b[0m": (0, None, None),
    "2024-05-01T10:00:00.123456Z ": (None, None, "2024-05-01 10:00:00.123456"),
    "2024-05-01 10:00:00,123 - INFO - ": (None, None, "2024-05-01 10:00:00.123"),
    "0: 2024-05-01T10:00:01Z [default0]: [2024-05-01 10:00:00] ": (0, None, "2024-05-01 10:00:01"),
    "W0501 10:00:00.1234 55 x.py:5] ": (None, None, None),
    "May 01 10:00:00 node7 python[33]: ": (None, None, None),
}


@pytest.mark.parametrize("before", WHO)
@pytest.mark.parametrize("seconds", [("00", "00"), ("00", "37")])
def test_who_printed_a_line_and_when(before, seconds):
    text = "".join(
        before.replace("10:00:00", f"10:00:{second}") + line(n)
        for n, second in enumerate(seconds, 1)
    )
    table = feed(text).iterations
    assert table["iteration"].tolist() == [1, 2]
    rank, node, time = WHO[before]
    row = table.iloc[0]
    assert (None if pd.isna(row["rank"]) else row["rank"]) == rank
    assert (None if pd.isna(row["node"]) else row["node"]) == node
    assert (None if pd.isna(row.timestamp) else row.timestamp) == (time and pd.Timestamp(time))


def test_first_versions_wrote_no_colon():
    row = feed(
        " iteration      100/  320000 | elapsed time per iteration (ms): 543.2 | learning rate "
        "1.500E-04 | lm loss 6.532E+00 | loss scale 65536.0 |\n"
    ).iterations.iloc[0]
    assert (row.learning_rate, row.lm_loss, row.loss_scale) == (1.5e-4, 6.532, 65536)


def test_progress_bars_and_thousands():
    bar = (
        "Epoch 0: :   1%|#   | 10/1000 [00:33<55:12, v_num=1, reduced_train_loss=10.50, "
        "global_step={n}.000, consumed_samples=80.0, train_step_timing in s=3.210]"
    )
    table = feed("\r".join(bar.format(n=n) for n in (9, 10)) + "\n").iterations
    assert table["iteration"].tolist() == [9, 10]
    assert table.elapsed_ms.tolist() == [3210, 3210]
    row = feed("step: 10  loss: 10.8301  memory: 33.8GiB(35.6%)  tps: 7,290\n").iterations.iloc[0]
    assert (row.lm_loss, row.tokens_per_second_per_device) == (10.8301, 7290)


def test_weather_trainer():
    log = feed(
        "2023-11-09 12:01:02,003 - root - INFO - Memory usage after forward pass: 43.81 GB.\n"
        "2023-11-09 12:01:03,003 - root - INFO - Scaffolding memory high watermark: 55.5 GB.\n"
        "2023-11-09 - root - INFO - Time taken for epoch 1 is 61.425346 sec, "
        "avg 8.335321 samples/sec\n"
        "root - INFO -   Avg train loss=0.578009\n"
        "root - INFO -   Avg val loss=0.42\n"
        "root - INFO -   Total validation time: 6.44 sec\n"
    )
    assert len(log.epochs) == 1
    epoch = log.epochs.iloc[0]
    assert (epoch.elapsed_s, epoch.samples_per_second) == (61.425346, 8.335321)
    assert (epoch.train_loss, epoch.validation_loss, epoch.validation_s) == (0.578009, 0.42, 6.44)
    assert log.memory["allocated_mib"].iloc[0] == pytest.approx(43.81e9 / 2**20)


def test_two_processes_in_one_line_give_two_rows():
    glued = line(5).rstrip("\n") + line(6)
    assert feed(glued).iterations["iteration"].tolist() == [5, 6]
    glued = line(5).rstrip("\n")[:150] + "[default1]:" + line(5)
    log = feed(glued)
    assert log.iterations["iteration"].tolist() == [5]
    assert log.iterations["copies"].tolist() == [2]
    assert log.iterations["lm_loss"].tolist() == [7.44895]


def test_several_ranks_printing_one_iteration_count_once():
    text = "".join(f"{rank}: {line(n)}" for n in range(1, 6) for rank in (3, 7))
    log = feed(text)
    assert log.iterations["iteration"].tolist() == [1, 2, 3, 4, 5]
    assert set(log.iterations["copies"]) == {2}
    assert log.attempts == 1


def test_restart_from_a_checkpoint_keeps_the_later_rows():
    first = "using world size: 4, data-parallel-size: 4 \n" + "".join(
        line(n, 100.0) for n in range(1, 11)
    )
    second = "using world size: 4, data-parallel-size: 4 \n" + "".join(
        line(n, 200.0) for n in range(6, 13)
    )
    log = feed(first + second)
    assert log.iterations["iteration"].tolist() == list(range(1, 13))
    assert log.iterations["elapsed_ms"].tolist() == [100.0] * 5 + [200.0] * 7
    assert log.repeated["iteration"].tolist() == [6, 7, 8, 9, 10]
    assert log.attempts == 2


def test_nan_and_skipped_iterations_are_counted():
    text = (
        line(1).replace("7.448950E+00", "nan").replace("nan iterations:   0", "nan iterations:   1")
    )
    text += line(2).replace("skipped iterations:   0", "skipped iterations:   3")
    log = feed(text)
    assert (log.nan, log.skipped) == (1, 3)
    assert log.iterations["lm_loss"].isna().tolist() == [True, False]


def test_fields_may_come_in_any_order_and_number():
    log = feed(
        "[2024-01-02 03:04:05] iteration 7/9 | mtp_1 loss: 2.5E+00 | "
        "loss scale: 1.0 | lm loss: 1.5 | elapsed time per iteration (ms): 12.5 | strange: yes |\n"
    )
    row = log.iterations.iloc[0]
    assert (row.mtp_1_loss, row.lm_loss, row.elapsed_ms) == (2.5, 1.5, 12.5)
    assert str(row.timestamp) == "2024-01-02 03:04:05"


def test_test_and_validation_losses_are_told_apart():
    log = feed(
        line(10)
        + " validation loss at iteration 10 | lm loss value: 8.0E+00 | lm loss PPL: 3.0E+03 | \n"
        + " validation loss at the end of training for test data | "
        + "lm loss value: 7.0E+00 | lm loss PPL: 1.0E+03 | \n"
    )
    assert log.evaluations["split"].tolist() == ["validation", "test"]
    assert log.evaluations["iteration"].tolist() == [10, 10]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("2.0", "equal in every digit"),
        ("2.0001", "equal up to rounding: they differ by 1.0e-04"),
        ("2.1", "differ by up to 0.1: these runs did NOT do the same work"),
    ],
)
def test_losses_of_two_runs_are_compared_in_words(other, said):
    line = " iteration 1/ 1 | elapsed time per iteration (ms): 5.0 | lm loss: {} |\n"
    one, two = (feed(line.format(loss)) for loss in ("2.0", other))
    assert said in one.losses_beside(two)


@pytest.mark.parametrize(
    ("where", "ranks"),
    [
        ("(tensor, pipeline) model parallel rank (1, 2)", (1, 2)),
        ("(tensor, gtp_weight_remat, pipeline) model parallel rank (1, 0, 2)", (1, 2)),
        ("(tensor, pipeline, expert) model parallel rank (1, 2, 7)", (1, 2)),
    ],
)
def test_parameters_are_told_with_the_axes_of_the_day(tmp_path, where, ranks):
    path = tmp_path / "out.log"
    path.write_text(f" > number of parameters on {where}: 1234\n")
    [row] = read.training_log(path).parameters.itertuples()
    assert (row.tensor_rank, row.pipeline_rank, row.parameters) == (*ranks, 1234)
