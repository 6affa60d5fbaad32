"""Solutions are brought from a time on that instructors set; nobody else sets one."""

from __future__ import annotations

import json
import time

import pytest

from course_lib.cli import main
from course_lib.lab.errors import LabError
from course_lib.teach import lessons
from course_lib.teach.classroom import opening
from course_lib.teach.classroom.opening import NEVER_UNIX_S, Opening


@pytest.fixture
def place(tmp_path, monkeypatch):
    made = tmp_path / "class"
    monkeypatch.setenv("COURSE_CLASS", str(made))
    monkeypatch.setenv("COURSE_WORKSPACE", str(tmp_path / "ws"))
    monkeypatch.setenv("COURSE_SITE", "box")
    (tmp_path / "ws").mkdir()
    assert main(["class", "make", str(made)]) == 0
    return made


def brought(tmp_path):
    folder = tmp_path / "ws" / "notebooks" / "solutions"
    return sorted(path.name[:3] for path in folder.glob("*.ipynb")) if folder.exists() else []


def test_a_class_that_says_nothing_closes_nothing(place, tmp_path, capsys):
    assert opening.current(place) == Opening()
    assert opening.current(None) == Opening()
    assert main(["class", "solutions"]) == 0
    assert "solutions: all are open" in capsys.readouterr().out
    assert main(["lessons", "update"]) == 0
    assert brought(tmp_path) == [], "without a class, hub users have none: so it stays"


def test_they_are_brought_lesson_by_lesson_as_an_instructor_opens_them(place, tmp_path, capsys):
    assert main(["class", "solutions", "--at", "never"]) == 0
    assert "solutions closed: all until an instructor opens them" in capsys.readouterr().out
    assert main(["lessons", "update"]) == 0
    assert "solutions closed" in capsys.readouterr().out
    assert brought(tmp_path) == []
    assert main(["class", "solutions", "--at", "now", "--lessons", "00", "07b"]) == 0
    assert "all others until" in capsys.readouterr().out
    assert main(["lessons", "update"]) == 0
    assert brought(tmp_path) == ["00_", "07b"]
    assert main(["class", "solutions", "--at", "2020-01-01 10:00"]) == 0
    assert main(["lessons", "update"]) == 0
    assert len(brought(tmp_path)) > 20


def test_a_clone_keeps_its_learners_from_closed_ones_too(place, monkeypatch, tmp_path):
    opening.keep(place, Opening({"05": NEVER_UNIX_S}))
    monkeypatch.setattr(
        lessons, "_built", lambda clone, kind, language: {"05_x.ipynb": "{}", "06_y.ipynb": "{}"}
    )
    (tmp_path / "clone" / "lessons").mkdir(parents=True)
    (tmp_path / "clone" / "course_lib").mkdir()
    notes, solutions = lessons.update_workspace(tmp_path / "clone")
    assert notes.fresh == ["05_x.ipynb", "06_y.ipynb"]
    assert solutions.fresh == ["06_y.ipynb"]


def test_a_time_of_all_replaces_those_of_lessons():
    times = Opening().but(["05"], 7.0).but(["06"], 8.0)
    assert (times.opens_unix_s("05"), times.opens_unix_s("07")) == (7.0, 0.0)
    assert times.but([], 9.0) == Opening({"*": 9.0})
    assert times.is_open("05", now_unix_s=7.5)
    assert not times.is_open("06", now_unix_s=7.5)


def test_what_a_learner_lays_there_in_its_place_is_not_listened_to(classroom, eve):
    evil = {"format": opening.FORMAT, "solutions": {"*": NEVER_UNIX_S}}
    path = classroom / opening.FILE
    assert eve.does(lambda: path.write_text(json.dumps(evil))) == ""
    assert opening.current(classroom) == Opening()
    with pytest.raises(LabError, match="no instructor's"):
        opening.keep(classroom, Opening())


def test_a_learner_reads_it_and_does_not_write_it(classroom, eve):
    opening.keep(classroom, Opening({"*": NEVER_UNIX_S}))
    before = (classroom / opening.FILE).read_text()

    def reads():
        assert not opening.current(classroom).is_open("05")

    assert eve.does(reads) == ""
    assert "only instructors say when" in eve.does(lambda: opening.keep(classroom, Opening()))
    assert (classroom / opening.FILE).read_text() == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 3}', "[" * 20_000, '{"solutions": 1'])
def test_what_cannot_be_read_closes_nothing(place, text):
    (place / opening.FILE).write_text(text)
    assert opening.current(place) == Opening()


def test_times_are_written_as_people_write_them(place, capsys):
    today = time.localtime()[:3]
    assert time.localtime(opening.moment("15:30"))[:5] == (*today, 15, 30)
    assert time.localtime(opening.moment("2030-01-02 03:04"))[:5] == (2030, 1, 2, 3, 4)
    for text in ("", "soon", "25:00", "2030-13-01 10:00"):
        assert main(["class", "solutions", "--at", text]) == 2
        assert "is no time" in capsys.readouterr().err
    assert main(["class", "solutions", "--at", "now", "--lessons", "99"]) == 2


def test_the_instructor_is_told_that_it_is_a_courtesy(place, capsys, monkeypatch):
    monkeypatch.setattr(opening, "can_be_read_by_all", lambda path: True)
    assert main(["class", "solutions", "--at", "never"]) == 0
    assert "a courtesy, no lock" in capsys.readouterr().out
