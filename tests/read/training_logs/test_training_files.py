"""Training logs as files: folders, growing, cut, packed, broken."""

from __future__ import annotations

import gzip

import pytest

from course_lib import read

from .printed import line


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
    """The separators of this line are at the places of names in a longer line of the same form."""
    long = "a name of a field that is longer than any that a program would print to anybody"
    line = " iteration {n}/ 9 | elapsed time per iteration (ms): 5.0 | {name}: 2.0 |\n"
    path = tmp_path / "a.log"
    lines = [line.format(n=1, name=long), line.format(n=2, name="a"), "x" * 33 + "\n"]
    path.write_text("\n" * 40 + "".join(lines))
    assert read.training_log(path).iterations["iteration"].tolist() == [1, 2]
