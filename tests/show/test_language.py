"""All text of a figure is in the reader's language, including the names of ticks."""

from __future__ import annotations

import re

import pytest
from matplotlib.text import Text

from course_lib import show
from course_lib.show.picture import shown
from course_lib.show.style import fonts_with_korean


def words_of(picture) -> set[str]:
    return {text.get_text() for text in picture.figure.findobj(Text)} - {""}


def test_a_figure_is_korean_if_the_language_is_korean(monkeypatch):
    assert {"you guessed", "time (ms)"} <= words_of(show.guess(2, 5.2, unit="ms", what="time"))
    monkeypatch.setenv("COURSE_LANGUAGE", "ko")
    korean = words_of(show.guess(2, 5.2, unit="ms", what="time"))
    assert {"예측", "시간 (ms)", "5.20 ms"} <= korean


@pytest.mark.parametrize(
    ("name", "korean"),
    [
        ("slow, rank 2", "느림, 랭크 2"),
        ("communication: gradients", "통신: 그래디언트"),
        ("node1, in", "node1, 수신"),
        ("mine: yours", "mine: yours"),
    ],
)
def test_the_parts_of_a_name_are_korean(monkeypatch, name, korean):
    monkeypatch.setenv("COURSE_LANGUAGE", "ko")
    assert shown(name) == korean


def test_frames_of_a_moving_picture_are_korean_as_well(monkeypatch):
    monkeypatch.setenv("COURSE_LANGUAGE", "ko")
    story = show.moving.ddp_step()
    assert "레이어 2의 역전파, 레이어 3의 all-reduce" in story.heading(3)
    html = story.stepper()
    assert "랭크 0" in html
    assert re.findall('aria-label="(한 장면 뒤로|장면|속도)"', html) == [
        "한 장면 뒤로",
        "장면",
        "속도",
    ]
    assert "❚❚ 멈춤" in html
    assert "▶ play" not in html


STORIES = (
    lambda: show.moving.collective("all-reduce"),
    lambda: show.moving.collective("all-to-all"),
    show.moving.ddp_step,
    show.moving.fsdp_step,
    show.moving.tensor_parallel_mlp,
    show.moving.loss_scaling,
    show.moving.pipeline,
    lambda: show.moving.pipeline(schedule="1f1b"),
)
SMALL = re.compile(r"[a-z]{2,} [a-z]{2,}")


@pytest.mark.parametrize("story", STORIES)
def test_no_sentence_of_a_frame_stays_english(monkeypatch, story):
    monkeypatch.setenv("COURSE_LANGUAGE", "ko")
    told = story()
    said = [f"{told.heading(number)}: {frame.text}" for number, frame in enumerate(told.frames)]
    assert [words for words in said if SMALL.search(words)] == []


def test_letters_of_korean_come_from_a_font_that_has_them(monkeypatch, recwarn, lacking):
    if not fonts_with_korean():
        lacking("no font with Korean letters")
    monkeypatch.setenv("COURSE_LANGUAGE", "ko")
    show.guess(2, 5.2, unit="ms", what="time")
    assert [str(one.message) for one in recwarn if "missing from font" in str(one.message)] == []
