"""The board shows names and figures of those who may stand there, whatever lies in its folder."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace

import pytest

from course_lib.lab.errors import LabError
from course_lib.teach.challenge import board
from course_lib.teach.challenge.board import Board


@pytest.fixture
def mine(task, finish, judged):
    return task.score(finish())


@pytest.fixture
def put(task):
    """Puts the entry of somebody else's workspace there, as that one would."""

    def make(score, name, *, workspace="cd" * 8, job_id=3, **changes):
        other = replace(score, workspace=workspace, job=f"{job_id:016x}", **changes)
        board.enter(replace(task.board(), mine=workspace), other, name)
        return task.board().folder / board.file_name(other)

    return make


def test_who_is_entered_stands_there_with_the_figures_and_nothing_else(task, mine, capsys):
    task.enter(mine, name="Ada")
    assert "Ada: entered" in capsys.readouterr().out
    found = task.board()
    assert isinstance(found, Board)
    assert list(found.table()["name"]) == ["Ada (you)"]
    assert list(found.table()["score"]) == [22.0]
    [path] = found.folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o644, "others of a class read it"
    text = path.read_text()
    assert str(task.lab.workspace.folder) not in text


def test_an_empty_board_says_so(task):
    assert repr(task.board()) == "nobody is on the board yet"


def test_the_best_stand_above_and_who_missed_the_target_below(task, mine, put):
    put(mine, "slow", seconds=40.0, foreseen=40.0, job_id=1)
    put(mine, "missed", loss=5.2, job_id=2)
    put(mine, "vague", seconds=15.0, foreseen=60.0, job_id=4)
    task.enter(mine, name="Ada")
    names = list(task.board().table()["name"])
    assert names == ["Ada (you)", "slow", "vague", "missed"]
    assert list(task.board().table().index) == ["1", "2", "3", "–"]


def test_a_run_stands_there_once_under_its_newest_name(task, mine):
    task.enter(mine, name="Ada")
    task.enter(mine, name="Countess")
    assert [entry.name for entry in task.board().entries] == ["Countess"]


def test_another_task_has_a_board_of_its_own(task, mine, put):
    put(mine, "easier", target=6.0)
    put(mine, "another text", digest="ff" * 8, job_id=4)
    assert task.board().entries == ()


def test_a_class_shares_the_folder_that_the_setting_names(task, mine, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_BOARD", str(tmp_path / "of the class"))
    task.enter(mine, name="Ada")
    assert len(list((tmp_path / "of the class").iterdir())) == 1


def test_a_score_that_does_not_count_is_not_entered(task, mine):
    with pytest.raises(LabError, match="does not count: it has learned"):
        task.enter(replace(mine, noticed=("it has learned from the held-out text",)), name="Ada")


def test_another_workspaces_score_is_not_entered(task, mine):
    with pytest.raises(LabError, match="made in another workspace"):
        task.enter(replace(mine, workspace="ef" * 8), name="Ada")


def test_a_name_belongs_to_who_came_first(task, mine, put):
    put(mine, "Ada")
    with pytest.raises(LabError, match="somebody else stands on the board as 'Ada'"):
        task.enter(mine, name="Ada")


def test_two_who_took_the_same_name_at_once_are_both_told(task, mine, put, monkeypatch):
    path = put(mine, "Ada")
    kept = path.read_bytes()
    path.unlink()
    task.enter(mine, name="Ada")
    path.write_bytes(kept)
    assert set(task.board().table()["note"]) == {"two workspaces use this name"}


@pytest.mark.parametrize(
    "name",
    ["", " ", "a\nb", "a" * 25, " Ada", "Ada\t", "\x1b[2J", "a\u202eb", "\0", "\ud800", "a\rb"],
)
def test_what_is_no_name_is_refused(task, mine, name):
    with pytest.raises(LabError, match="is no name for the board"):
        task.enter(mine, name=name)


@pytest.mark.parametrize(
    "name", ["../../etc/x", "<script>alert(1)</script>"[:24], "a; rm -rf *", "Ångström", "아다"]
)
def test_a_name_is_shown_and_never_taken_for_a_path_or_for_html(task, mine, name):
    task.enter(mine, name=name)
    found = task.board()
    assert name in repr(found)
    assert "<script" not in found._repr_html_()
    [path] = found.folder.iterdir()
    assert path.name == board.file_name(mine)


def test_an_edited_entry_is_known_by_its_seal(task, mine):
    task.enter(mine, name="Ada")
    [path] = task.board().folder.iterdir()
    table = json.loads(path.read_text())
    table["score"]["seconds"] = 1.0
    path.write_text(json.dumps(table))
    row = task.board().table().iloc[0]
    assert row["note"] == "edited: the file does not fit its seal"
    assert task.board().table().index[0] == "–"


def spoilt(folder):
    """Whatever may lie in a folder that many can write to."""
    (folder / "empty.json").write_text("")
    (folder / "list.json").write_text("[]")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "large.json").write_bytes(b"{" + b" " * 50_000_000 + b"}")
    (folder / "binary.json").write_bytes(bytes(range(256)))
    (folder / "gone.json").symlink_to(folder / "nowhere")
    (folder / "zero.json").symlink_to("/dev/zero")
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    (folder / "note.txt").write_text("hello")


def test_what_is_no_entry_is_passed_over_and_counted(task, mine):
    task.enter(mine, name="Ada")
    spoilt(task.board().folder)
    found = task.board()
    assert [entry.name for entry in found.entries] == ["Ada"]
    assert found.passed_over == 10
    assert "10 files in" in repr(found)
    assert "10 files in" in found._repr_html_()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "a\nb"}, {"name": ""}, {"name": 5}, {"format": "another"}, {"score": None},
        {"score": {"seconds": -1}}, {"score": {"seconds": 1e300}}, {"score": {"devices": 0}},
        {"score": {"loss": "low"}}, {"score": {"loss": None}}, {"score": {"job": "another"}},
    ],
)  # fmt: skip
def test_an_entry_with_senseless_values_is_passed_over(task, mine, change):
    task.enter(mine, name="Ada")
    [path] = task.board().folder.iterdir()
    table = json.loads(path.read_text())
    inner = change.get("score")
    table |= {**change, "score": {**table["score"], **inner}} if isinstance(inner, dict) else change
    path.write_text(json.dumps(table))
    assert task.board().entries == ()
    assert task.board().passed_over == 1


def test_a_copy_under_another_file_name_is_passed_over(task, mine):
    task.enter(mine, name="Ada")
    [path] = task.board().folder.iterdir()
    (path.parent / "copy.json").write_bytes(path.read_bytes())
    assert len(task.board().entries) == 1


def test_many_who_write_at_once_lose_nothing(task, mine, put):
    def write(number):
        put(mine, f"learner {number}", workspace=f"{number:016x}", job_id=number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = task.board()
    assert len(found.entries) == 24
    assert found.passed_over == 0


def test_an_entry_is_judged_again_by_who_has_the_run(task, mine, put):
    task.enter(mine, name="Ada")
    assert task.verify("Ada") == mine
    put(mine, "Bob")
    for name in ("Bob", "nobody"):
        with pytest.raises(LabError, match="only who has the run can have"):
            task.verify(name)


@pytest.mark.parametrize(
    ("folder", "words"),
    [("file", "cannot be read: Not a directory"), ("~nobody-of-this-name/x", "no such home")],
)
def test_a_folder_that_is_none_is_told_in_a_sentence(task, monkeypatch, tmp_path, folder, words):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COURSE_BOARD", folder if "~" in folder else str(tmp_path / folder))
    with pytest.raises(LabError, match=words):
        task.board()


def test_a_folder_that_is_not_there_yet_is_an_empty_board(task, mine, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_BOARD", str(tmp_path / "new" / "board"))
    assert task.board().entries == ()
    task.enter(mine, name="Ada")
    assert len(task.board().entries) == 1
