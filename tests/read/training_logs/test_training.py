"""Forms of training logs that no real log at hand shows, or shows only in part."""

from __future__ import annotations

import gzip

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from course_lib import read

LINE = (
    " iteration {n:8d}/     100 | consumed samples: {samples:12d} | "
    "elapsed time per iteration (ms): {ms:.1f} | learning rate: 5.822E-05 | "
    "global batch size:     8 | lm loss: {loss:.6E} | "
    "loss scale: 1.0 | grad norm: 1.303 | number of skipped iterations:   0 | "
    "number of nan iterations:   0 |\n"
)


def line(n: int, ms: float = 537.3, loss: float = 7.44895) -> str:
    return LINE.format(n=n, samples=8 * n, ms=ms, loss=loss)


def feed(text: str | bytes, piece_bytes: int | None = None) -> read.TrainingLog:
    data = text.encode() if isinstance(text, str) else text
    reader = read.TrainingReader()
    for start in range(0, len(data), piece_bytes or len(data) or 1):
        reader.feed(data[start : start + (piece_bytes or len(data))])
    reader.finish()
    return reader.result()


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
    assert log.memory["printed_gb"].tolist() == [43.81, 55.5]
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


def test_folder_of_per_rank_files_is_one_run(write, tmp_path):
    for rank in range(12):
        text = "using world size: 12, data-parallel-size: 12 \n" if rank == 0 else "nothing\n"
        text += "".join(line(n) for n in range(1, 4)) if rank in (10, 11) else ""
        write(f"run/attempt_0/{rank}/stdout.log", text)
    log = read.training_log(tmp_path / "run")
    assert len(log.files) == 12
    assert log.iterations["iteration"].tolist() == [1, 2, 3]
    assert log.iterations["copies"].tolist() == [2, 2, 2]
    assert log.iterations["rank"].tolist() == [10, 10, 10]
    assert log.world.world_size == 12


def test_run_folder_is_read_from_its_out_log(write, tmp_path):
    write("runs/a/out.log", line(1))
    write("runs/a/other.log", line(2))
    assert read.training_log(tmp_path / "runs" / "a").last_iteration == 1


def test_growing_file_gives_whole_lines_only(tmp_path):
    path = tmp_path / "out.log"
    reader = read.TrainingReader()
    assert reader.poll(path) is False
    text = (line(1) + line(2)).encode()
    half = len(line(1)) + 130
    path.write_bytes(text[:half])
    assert reader.poll(path) is True
    assert reader.result().iterations["iteration"].tolist() == [1]
    with path.open("ab") as file:
        file.write(text[half:])
    reader.poll(path)
    assert reader.result().iterations["iteration"].tolist() == [1, 2]
    assert reader.poll(path) is False
    assert reader.result().lines == 2


@pytest.mark.parametrize("cut", [10, 60, 110, 125, 180, 230])
def test_number_cut_at_the_end_of_a_file_is_not_believed(write, cut):
    log = read.training_log(write("a.log", line(1) + line(2, 999.9)[:cut]))
    row = log.iterations.iloc[-1]
    if row.iteration == 2:
        assert row.elapsed_ms in (999.9,) or row.elapsed_ms != row.elapsed_ms


def test_gzip_is_read_whatever_its_name_and_even_if_cut(write):
    data = gzip.compress("".join(line(n) for n in range(1, 2001)).encode())
    assert read.training_log(write("a.log", data)).last_iteration == 2000
    assert (read.training_log(write("b.gz", data[: len(data) // 2])).last_iteration or 0) < 2000


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


def test_missing_file_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="give a log file"):
        read.training_log(tmp_path / "none.log")


def test_memory_is_bounded_by_results_not_by_a_line_without_end(tmp_path):
    path = tmp_path / "a.log"
    with path.open("wb") as file:
        for _ in range(20):
            file.write(b"x" * (1 << 20))
        file.write(b"\n" + line(1).encode())
    assert read.training_log(path).last_iteration == 1


PIECES = [
    line(1),
    line(2)[:90],
    "\n",
    "0: [default1]:",
    "\x1b[31m",
    "validation loss at iteration 5 | lm loss value: x |",
    "[Rank 1] (after 5 iterations) memory (MB) | allocated: 1..2 | max allocated: 3",
    "iteration 9/",
    "using world size: 99999999999999999999",
    "- arguments ---",
    "  a .... b\n",
    "time across ranks (ms):\n",
    "    x ....: (1, 2.2.2)\n",
    "OVERFLOW! Rank 1 Skipping step. Attempted loss scale: 1e, reducing to 5\n",
    "{'loss': 1e, 'learning_rate': 5}",
    "step: 5 loss: 1.2.3",
    "Avg val loss=nan",
    "elapsed time per iteration (ms): 1e999 |",
    "iteration 1/2 | elapsed time per iteration (ms): 9e22 | lm loss: 99999999999999999999.5 |\n",
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.one_of(st.sampled_from(PIECES).map(str.encode), st.binary(max_size=60)), max_size=12
    ),
    st.integers(1, 200),
)
def test_no_bytes_raise(pieces, size):
    log = feed(b"".join(pieces), size)
    str(log)
    assert log.lines >= 0
    assert (log.finished, log.skipped, log.nan, log.parameter_count) is not None


def test_an_iteration_called_infinite_is_no_place_for_other_lines(tmp_path):
    path = tmp_path / "a.log"
    path.write_text(
        "\n" * 40 + " iteration   7/ 10 | elapsed time per iteration (ms): 5.0 | lm loss: 2.0 |\n"
        " iteration inf/ 10 | elapsed time per iteration (ms): 5.0 | lm loss: 2.0 |\n"
        "validation loss at iteration 3 | lm loss value: 2.5E+00 | lm loss PPL: 1.2E+01 |\n"
        "[Rank 0] (after 3 iterations) memory (MB) | allocated: 5.0 | max allocated: 6.0 |\n"
        "found inf in the gradients\nsaving checkpoint at iteration 3 to here\n"
    )
    log = read.training_log(path)
    assert len(log.evaluations) == 1


def test_a_line_of_another_form_at_the_end_of_a_block_is_read_too(tmp_path):
    """Its bars are where a longer one of the same form has names."""
    long = "a name of a field that is longer than any that a program would print to anybody"
    line = " iteration {n}/ 9 | elapsed time per iteration (ms): 5.0 | {name}: 2.0 |\n"
    path = tmp_path / "a.log"
    lines = [line.format(n=1, name=long), line.format(n=2, name="a"), "x" * 33 + "\n"]
    path.write_text("\n" * 40 + "".join(lines))
    assert read.training_log(path).iterations["iteration"].tolist() == [1, 2]


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
