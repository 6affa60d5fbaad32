"""Lesson 01: each wrong answer is met by the hint for that mistake."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from course_lib.lab.job.recipes import program, shell
from course_lib.publish.building.source import read_lesson
from course_lib.teach.checks import lesson01

from .answers_to_try import hold, nonsense, told
from .finished_runs import hint_of

SHAPE = (40, 20, 32, 64)
LOG = """\
2026-01-01 10:00:00,000 - root - INFO - Time taken for epoch {number} is 1.0 sec, avg {speed} \
samples/sec
2026-01-01 10:00:00,000 - root - INFO -   Avg train loss=0.5
2026-01-01 10:00:01,000 - root - INFO -   Avg val loss=0.5
2026-01-01 10:00:01,000 - root - INFO -   Total validation time: 0.1 sec
2026-01-01 10:00:01,000 - root - INFO -   RMSE of the 10 m wind=1.0 m/s, of persistence={wind} m/s
"""


def log(speed, wind=3.25, epochs=3):
    return "".join(LOG.format(number=n, speed=speed, wind=wind) for n in range(1, epochs + 1))


def training(data, name="fitted", **more):
    return program.recipe(name, "train_vit.py", data=str(data), epochs=3, **more)


@pytest.fixture
def files(tmp_path):
    """`files(chunks)` is a folder with a year that is packed so."""

    def packed(chunks, compression="gzip"):
        folder = tmp_path / f"weather-{chunks}"
        (folder / "train").mkdir(parents=True, exist_ok=True)
        with h5py.File(folder / "train" / "2001.h5", "w") as file:
            file.create_dataset("fields", SHAPE, "f4", chunks=chunks, compression=compression)
        return folder

    return packed


@pytest.fixture
def before(finished, files):
    recipe = training(files((32, 1, 32, 64)), "as-written", profile=True, profile_step_start=3)
    return finished(recipe, log(30))


@pytest.mark.parametrize(
    "chunks", [(1, 20, 32, 64), (1, 1, 32, 64), (1, 10, 32, 32), (1, 4, 16, 32), (1, 20, 8, 64)]
)
def test_chunks_of_one_time_pass(finished, files, before, chunks, capsys):
    lesson01.ex01_chunks(finished(training(files(chunks)), log(60)), before)
    assert "✓ it is faster than as-written" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        ((32, 1, 32, 64), "A chunk holds 32 times"),
        ((1, 1, 4, 4), "lies in 2560 chunks"),
        ((1, 14, 32, 64), "not a multiple"),
    ],
)
def test_chunks_that_do_not_fit_meet_their_hint(finished, files, before, chunks, words):
    run = finished(training(files(chunks)), log(60))
    assert words in hint_of(lesson01.ex01_chunks, run, before)


def test_a_run_that_is_another_one_meets_its_hint(finished, files, before):
    good = files((1, 20, 32, 64))
    plain = files((1, 20, 16, 64), compression=None)
    for recipe, printed, words in (
        (training(plain), log(60), "This run read different files"),
        (training(good, num_workers=2), log(60), "These flags differ: --num-workers"),
        (training(good), log(60, wind=3.5), "the weather is different"),
        (training(good), log(33), "It made 33 samples per second, the other 30"),
        (training(good), log(60, epochs=1), "trained for two epochs or more"),
        (training(good), "nothing\n", "trained for two epochs or more"),
        (training(good / "nowhere"), log(60), "Run the lesson from its top"),
        (shell.recipe("hello", "echo hello"), "hello\n", "started something else"),
    ):
        assert words in hint_of(lesson01.ex01_chunks, finished(recipe, printed), before)


def candidates():
    path = Path(__file__).resolve().parents[2] / "lessons" / "01_one_device.py"
    [text] = [cell.text for cell in read_lesson(path).cells if cell.id == "ex2-gap"]
    known: dict[str, list[str]] = {}
    exec(text.partition("### BEGIN")[0], known)
    return known["candidates"]


RIGHT = list(lesson01.OUTSIDE)


def test_the_lesson_offers_what_the_check_knows():
    assert sorted(candidates()) == sorted([*lesson01.RECORDED, *lesson01.OUTSIDE])


@pytest.mark.parametrize(
    "answer",
    [
        RIGHT[::-1], set(RIGHT), np.array(RIGHT), pd.Series(RIGHT),
        [f" {text.upper()}." for text in RIGHT], [RIGHT[:2], RIGHT[2:]],
    ],
)  # fmt: skip
def test_what_stays_outside_is_taken_in_any_form(workspace, answer):
    lesson01.ex01_outside(answer)


@pytest.mark.parametrize("text", lesson01.RECORDED)
def test_what_can_be_recorded_is_told_so(workspace, text):
    assert lesson01.RECORDED[text] in hint_of(lesson01.ex01_outside, [*RIGHT, text])


@pytest.mark.parametrize("text", lesson01.OUTSIDE)
def test_what_cannot_be_recorded_is_told_so(workspace, text):
    less = [other for other in RIGHT if other != text]
    assert lesson01.OUTSIDE[text] in hint_of(lesson01.ex01_outside, less)


def test_what_is_no_choice_is_refused_with_a_sentence(workspace):
    for answer in (*nonsense(5), [...], [RIGHT[0], ...], [0, 4, 5, 6], ["graph"], count()):
        said = told(lesson01.ex01_outside, answer)
        assert said
        assert len(said.splitlines()[-1].strip()) > 10


def test_the_balance_holds_against_all_kinds_of_answers(workspace):
    right = 1 / (1 / 8.8 - 1 / 12.6 + 1 / 53.2)
    speeds = {
        37.16: "Reading does not get faster", 53.2: "which hide the reading",
        49.4: "subtracted speeds", 8.8: "Work with the seconds", 7.551: "Subtract it first",
    }  # fmt: skip
    workers = {
        1.82: "not a whole number", 1: "in 34 ms", 6.05: "1/8.8 s is more", 7: "1/8.8 s is more",
        4: "the smallest number",
    }  # fmt: skip
    hold("without_workers", lambda speed: lesson01.ex01_balance(speed, 2), right, speeds)
    hold("workers_needed", lambda count: lesson01.ex01_balance(18.84, count), 2, workers)
