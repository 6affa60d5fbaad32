"""The picture on the first screen of README.md shows the lesson and the recorded runs of today."""

from __future__ import annotations

import importlib.util

from PIL import Image

MOST_BYTES = 200_000


def test_the_picture_of_a_lesson_is_light_and_not_stale(repository):
    place = repository / "images" / "lesson.py"
    spec = importlib.util.spec_from_file_location("lesson_picture", place)
    lesson = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lesson)
    assert Image.open(lesson.PICTURE).info[lesson.DIGEST] == lesson.digest(), "run `make picture`"
    assert lesson.PICTURE.stat().st_size < MOST_BYTES
