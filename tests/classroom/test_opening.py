"""Learners get the solutions that instructors open, and only instructors open or close them."""

from __future__ import annotations

import pytest

from course_lib.classroom import lessons, opening
from course_lib.cli import main
from course_lib.lab.errors import LabError

from . import learners


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
    assert opening.opened(place) is None
    assert opening.opened(None) is None
    assert main(["class", "solutions"]) == 0
    assert "no instructor has opened or closed" in capsys.readouterr().out
    assert main(["lessons", "update"]) == 0
    assert brought(tmp_path) == [], "without a class, hub users have none: so it stays"


def test_they_are_brought_lesson_by_lesson_as_an_instructor_opens_them(place, tmp_path, capsys):
    assert main(["class", "solutions", "--open", "none"]) == 0
    assert main(["lessons", "update"]) == 0
    assert brought(tmp_path) == []
    assert main(["class", "solutions", "--open", "00", "07b"]) == 0
    assert "solutions open: 00, 07b" in capsys.readouterr().out
    assert main(["lessons", "update"]) == 0
    assert brought(tmp_path) == ["00_", "07b"]
    assert main(["class", "solutions", "--open", "all"]) == 0
    assert main(["lessons", "update"]) == 0
    assert len(brought(tmp_path)) > 20
    assert main(["class", "solutions", "--open", "99"]) == 2


def test_a_clone_keeps_its_learners_from_closed_ones_too(place, tmp_path):
    opening.keep(place, ["06"])
    for folder in ("lessons", "course_lib", "notebooks", "solutions"):
        (tmp_path / "clone" / folder).mkdir(parents=True)
        (tmp_path / "clone" / folder / "05_x.ipynb").write_text("{}")
        (tmp_path / "clone" / folder / "06_y.ipynb").write_text("{}")
    _folder, [copies, solutions] = lessons.update_workspace(tmp_path / "clone")
    assert copies.startswith("05_x.ipynb, 06_y.ipynb copied to")
    assert solutions.startswith("06_y.ipynb copied to")


def test_a_learner_reads_it_and_neither_writes_nor_replaces_it(classroom, eve):
    opening.make(classroom)
    opening.keep(classroom, ["00"])

    def reads():
        assert opening.opened(classroom) == {"00"}

    assert eve.does(reads) == ""
    assert "only instructors open" in eve.does(lambda: opening.keep(classroom, ["all"]))
    folder = classroom / opening.FOLDER
    assert "Permission" in eve.does(lambda: (folder / opening.FILE).write_text("none\n"))
    assert "not permitted" in eve.does(lambda: folder.rename(classroom / "mine"))
    assert opening.opened(classroom) == {"00"}


def test_a_second_instructor_changes_what_the_first_has_opened(classroom, enrol):
    opening.make(classroom)
    opening.keep(classroom, ["00"])
    assert (classroom / opening.FOLDER).stat().st_gid == learners.INSTRUCTORS
    colleague = enrol(2)

    def closes():
        opening.keep(classroom, ["none"])

    assert colleague.does(closes, learners.INSTRUCTORS) == ""
    assert opening.opened(classroom) == {"none"}


def test_a_folder_of_an_older_course_is_made_again_first(classroom):
    with pytest.raises(LabError, match="has no folder instructors/; `course class make"):
        opening.keep(classroom, ["00"])
