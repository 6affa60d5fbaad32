"""Diaries of several ranks: values that must agree, and values that must differ."""

from __future__ import annotations

import json
import math

import pytest

from course_lib import read

RANKS, STEPS, VOCABULARY = 4, 10, 8192
LEFT_OUT = object()


def written(write, change=lambda row, rank, step: None, steps=STEPS, layout=None):
    """Healthy diaries, changed row by row."""
    for rank in range(RANKS):
        axes = layout(rank) if layout else {"tensor": 0, "pipeline": 0, "data": rank}
        head = {"format": "course-diary-1", "rank": rank, "world_size": RANKS,
                "node": f"node{rank // 2 + 1}", "vocabulary": VOCABULARY,
                "layout": axes}  # fmt: skip
        rows = [head]
        for step in range(1, steps + 1):
            row = {
                "iteration": step, "step_ms": 90.0, "own_ms": 40.0 + rank, "grad_norm": 1.4,
                "loss": 9.01 - 0.02 * step + 0.01 * rank, "memory_mib": 56.0 + 0.01 * step,
                "samples": [f"{100 * step + rank:08x}"], "weights": f"{step:08x}", "random": None,
            }  # fmt: skip
            if change(row, rank, step) is not LEFT_OUT:
                rows.append(row)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        path = write(f"run/diary/rank{rank}.jsonl", text)
    return read.diary(path.parent.parent)


def only(diary):
    [found] = diary.findings
    return found


def test_of_a_healthy_run_nothing_is_found(write):
    diary = written(write)
    assert diary.findings == []
    assert diary.vocabulary == VOCABULARY
    assert len(diary.table) == RANKS * STEPS
    assert list(diary.beside("loss").columns) == [0, 1, 2, 3]


def test_weights_that_differ_name_rank_and_first_step(write):
    def change(row, rank, step):
        if rank == 2 and step >= 3:
            row["weights"] = f"{1000 + step:08x}"

    found = only(written(write, change))
    assert (found.kind, found.rank, found.node, found.iteration) == ("weights", 2, "node2", 3)


def test_ranks_that_hold_other_pieces_may_differ(write):
    def change(row, rank, step):
        row["weights"] = f"{rank % 2:08x}"
        row["samples"] = [f"{100 * step + rank // 2:08x}"]

    layout = lambda rank: {"tensor": rank % 2, "pipeline": 0, "data": rank // 2}  # noqa: E731
    assert written(write, change, layout=layout).findings == []


def test_the_same_samples_on_all_data_ranks(write):
    def change(row, rank, step):
        row["samples"] = [f"{step:08x}"]

    assert only(written(write, change)).kind == "same_samples"


def test_the_same_random_numbers(write):
    def change(row, rank, step):
        row["random"] = f"{step:08x}"

    assert only(written(write, change)).kind == "same_random"


def test_the_same_order_in_the_second_epoch(write):
    def change(row, rank, step):
        row["samples"] = [f"{100 * ((step - 1) % 4) + rank:08x}"]

    found = only(written(write, change))
    assert (found.kind, found.iteration) == ("same_order", 5)


def test_a_straggler(write):
    def change(row, rank, step):
        row["own_ms"] *= 3 if rank == 1 else 1

    found = only(written(write, change))
    assert (found.kind, found.rank, found.node) == ("slow", 1, "node1")


def test_a_single_late_step_is_no_straggler(write):
    def change(row, rank, step):
        row["own_ms"] *= 9 if (rank, step) == (1, 6) else 1

    assert written(write, change).findings == []


def test_some_late_steps_of_a_short_run_are_no_straggler(write):
    def change(row, rank, step):
        row["own_ms"] *= 3 if rank == 1 else 1

    assert written(write, change, steps=4).findings == []


def test_every_second_late_step_is_no_straggler(write):
    def change(row, rank, step):
        row["own_ms"] *= 3 if rank == 1 and step % 2 else 1

    assert written(write, change).findings == []


def test_a_slope_of_memory(write):
    def change(row, rank, step):
        row["memory_mib"] += 4.8 * step if rank == 3 else 0

    found = only(written(write, change))
    assert (found.kind, found.rank) == ("memory", 3)
    assert "4.8 MiB each step" in str(found)


def test_one_step_up_is_no_slope(write):
    def change(row, rank, step):
        row["memory_mib"] += 100 if rank == 3 and step >= 5 else 0

    assert written(write, change).findings == []


def test_an_allocator_that_warms_up_has_no_slope(write):
    def change(row, rank, step):
        row["memory_mib"] += 5 * min(step, 4) if rank == 3 else 0

    assert written(write, change).findings == []


def test_the_first_nan_is_that_of_one_rank(write):
    def change(row, rank, step):
        if step == STEPS:
            row["grad_norm"] = "nan"
            row["loss"] = "nan" if rank == 2 else row["loss"]

    found = only(written(write, change))
    assert (found.kind, found.rank, found.iteration) == ("nan", 2, STEPS)
    assert f"{100 * STEPS + 2:08x}" in found.text


def test_a_nan_on_all_ranks_has_no_single_rank(write):
    def change(row, rank, step):
        if step == STEPS:
            row["grad_norm"] = row["loss"] = "nan"

    assert only(written(write, change)).rank is None


def test_a_first_loss_far_from_even(write):
    def change(row, rank, step):
        row["loss"] *= 4

    assert only(written(write, change)).kind == "start"
    assert math.log(VOCABULARY) == pytest.approx(9.01, abs=0.01)


def test_a_step_of_another_life_replaces_the_first(write):
    written(write)
    text = (write("x", "").parent / "run/diary/rank0.jsonl").read_text()
    write("run/diary/rank0.jsonl", text + text)
    assert len(read.diary(write("x", "").parent / "run").beside("loss")) == STEPS


@pytest.mark.parametrize("harm", ["", "{", "[]\n", '{"iteration": 3}\n', "\x00" * 50])
def test_what_is_no_diary_is_passed_over(write, harm):
    path = write("run/diary/rank0.jsonl", harm)
    assert read.diary(path.parent).findings == []


def test_losses_that_leave_their_range_on_all_ranks_name_none(write):
    def change(row, rank, step):
        if step >= 6:
            row["loss"], row["grad_norm"] = 1e5 + rank, "nan"

    found = only(written(write, change, steps=7))
    assert (found.kind, found.rank, found.iteration) == ("diverged", None, 6)


def test_one_hard_sample_is_no_divergence(write):
    def change(row, rank, step):
        if (rank, step) == (2, 6):
            row["loss"] = 200.0

    assert written(write, change).findings == []


def test_a_step_that_one_rank_has_left_out_is_told(write):
    found = only(written(write, lambda row, rank, step: LEFT_OUT if (rank, step) == (2, 5) else 0))
    assert (found.kind, found.rank, found.node, found.iteration) == ("skipped", 2, "node2", 5)
    assert str(found) == "rank 2 (node2) skipped step 5 and continued"


def test_who_ends_earlier_or_begins_later_has_left_out_nothing(write):
    ended = written(write, lambda row, rank, step: LEFT_OUT if rank == 2 and step > 5 else 0)
    assert ended.findings == []
