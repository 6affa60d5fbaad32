"""A lesson asks for guesses, keeps the first ones, and compares them with measurements."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from course_lib import guesses, predict, show
from course_lib.mistakes.errors import ArgumentError, CourseError
from course_lib.teach import predictions
from course_lib.teach.predictions import FILE


@pytest.fixture(autouse=True)
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path))
    monkeypatch.delenv("COURSE_GUESSES", raising=False)
    return tmp_path


@pytest.mark.parametrize("missing", [..., None])
def test_a_missing_guess_is_asked_for_kindly(missing):
    with pytest.raises(CourseError, match="samples seen") as told:
        predict("03: samples seen", missing)
    assert "in the cell above" in str(told.value)
    assert "%env COURSE_GUESSES=skip" in str(told.value)
    assert guesses().empty


@pytest.mark.parametrize(
    ("options", "clicks", "says", "guess"),
    [
        ({"unit": "samples"}, [" 80"], "Your guess is 80 samples. Now run this cell again.", 80),
        ({}, ["about 80", "0"], "Your guess is 0. Now run this cell again.", 0),
        ({"choices": ("4", "8")}, [None, "8"], "Your guess is &#x27;8&#x27;.", "8"),
        ({"choices": ("4", "8"), "several": True}, [("8", "4")], "Your guess is", ["4", "8"]),
        ({"choices": ("4", "8"), "several": True}, [()], "Your guess is none of them.", []),
    ],
)
def test_a_notebook_offers_a_field_for_a_guess_and_takes_it(
    monkeypatch, capsys, options, clicks, says, guess
):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    monkeypatch.setattr(predictions, "interactive", lambda: True)
    with pytest.raises(CourseError, match="in the cell above"):
        predict("03: seen", ..., **options)
    (box,) = shown
    said, row = box.children
    field, _unit, done = row.children
    for number, value in enumerate(clicks):
        assert box.children == (said, row), f"after click {number}: {said.value}"
        field.value = value
        done.click()
    assert said.value.startswith(says)
    assert box.children == (said,)
    assert predict("03: seen", ..., **options).guess == guess
    assert predict("03: seen", None, **options).guess == guess


def test_a_reader_goes_on_without_a_guess(monkeypatch, capsys, workspace):
    monkeypatch.setenv("COURSE_GUESSES", "skip")
    predict("03: samples seen", ..., unit="samples").compare(320)
    assert capsys.readouterr().out == "samples seen: it was 320 samples (no guess)\n"
    assert guesses().empty


@pytest.mark.parametrize(
    ("guess", "measured", "said"),
    [
        (80, 320, "you guessed 80 samples, it was 320 samples: 4 times as much"),
        (np.int64(640), 320, "640 samples, it was 320 samples: the guess was 2 times as much"),
        (Fraction(639, 2), 320, "you guessed 320 samples, it was 320 samples: well guessed"),
        (np.float32(0), 320, "you guessed 0 samples, it was 320 samples"),
        (pd.Series([80]), np.array(320), "you guessed 80 samples, it was 320 samples: 4 times as"),
        (3, -2.5, "you guessed 3 samples, it was -2.5 samples"),
    ],
)
def test_numbers_of_every_type_are_set_beside_the_measurement(capsys, guess, measured, said):
    predict("03: samples seen", guess, unit="samples").compare(measured)
    assert said in capsys.readouterr().out


def test_a_choice_is_right_or_shown(capsys):
    choices = ("stage 0", "stage 1")
    asked = predict("07: the stage that waits", "stage 1", choices=choices)
    asked.compare("stage 0")
    asked.compare("stage 1")
    wrong, right = capsys.readouterr().out.splitlines()
    assert wrong == "the stage that waits: you guessed 'stage 1', it was 'stage 0'"
    assert right.endswith("it was 'stage 1': right")


def test_several_answers_are_a_set(capsys):
    several = predict("08: spoiled", ["300", "1.001"], choices=("300", "1.001", "65535"))
    several.compare(("1.001", "300"))
    assert capsys.readouterr().out.endswith(": right\n")
    predict("08: none", [], choices=("300",)).compare(["300"])
    assert "you guessed none of them, it was '300'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("guess", "choices", "says"),
    [
        ("about 80", None, "without quotation marks"),
        ("the gpu", ("the network", "the arithmetic"), "use 'the network', 'the arithmetic'"),
        (True, None, "write one finite number"),
        ([6], None, r"It is \[6\] now; write one finite number"),
        (float("nan"), None, "It is nan now; write one finite number"),
        (["300", "301"], ("300",), "'301' is not one of the answers"),
    ],
)
def test_what_is_no_guess_is_said(guess, choices, says):
    with pytest.raises(ArgumentError, match=says):
        predict("05: the cause", guess, choices=choices)
    assert guesses().empty


def test_the_first_guess_counts_and_broken_lines_are_passed_over(workspace):
    predict("03: samples", 80).compare(320)
    predict("03: samples", 320).compare(320)
    predict("06: first batch that fails", 16)
    with (workspace / FILE).open("ab") as file:
        file.write(b'\xff\n[]\n{"question": 3}\n{"learner": "somebody", "question": "03: x"}\n')
    (only,) = guesses().to_dict("records")
    assert (only["lesson"], only["guess"], only["measured"], only["times_off"]) == (
        "03",
        80,
        320,
        4,
    )


def test_a_picture_shows_how_the_guesses_became_better():
    for lesson, guess in (("03", 10), ("04", 40), ("14", 99)):
        predict(f"{lesson}: something", guess).compare(100)
    predict("04: which", "a", choices=("a", "b")).compare("b")
    picture = show.guesses(guesses())
    assert "03: 1 numbers, 0 choices; 04: 1 numbers, 1 choices" in picture.alt
    with pytest.raises(ArgumentError, match="run a lesson first"):
        show.guesses(guesses().iloc[:0])


def test_above_the_columns_of_a_whole_course_stand_numbers_that_do_not_touch():
    names = [f"{number:02d}" for number in range(22)]
    for lesson in names:
        predict(f"{lesson}: which", "a", choices=("a", "b")).compare("a")
        predict(f"{lesson}: how many", 10).compare(20)
    figure = show.guesses(guesses()).figure
    figure.draw_without_rendering()
    (axes,) = figure.axes
    boxes = [text.get_window_extent() for text in (*axes.texts, *axes.get_xticklabels())]
    assert len(axes.texts) == len(names)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_what_was_not_measured_is_said_and_not_kept(capsys):
    predict("03: samples", 80).compare(float("nan"))
    assert capsys.readouterr().out == "samples: nothing was measured\n"
    assert guesses().empty


def test_a_question_begins_with_its_lesson():
    with pytest.raises(ArgumentError, match="number of a lesson"):
        predict("samples seen", 3)
