"""The board shows names and scores of valid entries, whatever files its folder holds."""

from __future__ import annotations

import json
import os
import socket
import threading
from dataclasses import asdict, replace

import pytest

from course_lib.lab.errors import LabError
from course_lib.lab.workspace import write_json
from course_lib.teach.challenge.board import Board, Entry


@pytest.fixture
def mine(task, finish, judged):
    return task.score(finish())


@pytest.fixture
def put(task):
    """Enter a score from the workspace of another learner."""

    def make(score, name, *, job_id=3, **changes):
        other = Entry(name=name, score=replace(score, job=f"{job_id:016x}", **changes))
        write_json(task.board().folder / other.file_name, asdict(other))

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


def test_the_best_runs_stand_above_and_missed_targets_below(task, mine, put):
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
        task.enter(
            replace(mine, broken_rules=("it has learned from the held-out text",)), name="Ada"
        )


def test_another_workspaces_score_is_not_entered(task, mine):
    with pytest.raises(LabError, match="a run of another workspace"):
        task.enter(replace(mine, job="ef" * 8), name="Ada")


def test_a_name_belongs_to_the_learner_who_came_first(task, mine, put):
    put(mine, "Ada")
    with pytest.raises(LabError, match="the name 'Ada' is already on the board"):
        task.enter(mine, name="Ada")


def test_a_file_in_the_way_is_not_followed(task, mine, tmp_path):
    """A person with write permission may put a link to a learner's file into the folder."""
    private = tmp_path / "private"
    private.write_text("mine alone")
    private.chmod(0o600)
    folder = task.board().folder
    folder.mkdir(parents=True)
    (folder / Entry(name="Ada", score=mine).file_name).symlink_to(private)
    task.enter(mine, name="Ada")
    assert private.read_text() == "mine alone"
    assert private.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in task.board().entries] == ["Ada"]


@pytest.mark.parametrize(
    "name", ["", "a\nb", "a" * 25, " Ada", "\x1b[2J", "a\u202eb", "\ud800", "Ada (you)"]
)
def test_what_is_no_name_is_refused(task, mine, name):
    with pytest.raises(LabError, match="cannot be a name on the board"):
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
    assert path.parent == task.board().folder


def spoilt(folder):
    """Add files that a folder with many writers may contain."""
    empty, several, deep, large, binary, gone, zero, inner, pipe, wide = (
        folder / f"{number:016x}.json" for number in range(10)
    )
    empty.write_text("")
    several.write_text("[]")
    deep.write_text("[" * 10_000)
    large.write_bytes(b"{" + b" " * 50_000_000 + b"}")
    binary.write_bytes(bytes(range(256)))
    gone.symlink_to(folder / "nowhere")
    zero.symlink_to("/dev/zero")
    inner.mkdir()
    os.mkfifo(pipe)
    with wide.open("wb") as file:
        file.truncate(10**12)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(folder / "aaaaaaaaaaaaaaaa.json"))
    (folder / "note.txt").write_text("hello")
    (folder / "<img src=x onerror=alert(1)>.json").write_text("{}")


def test_what_is_no_entry_is_passed_over_and_counted(task, mine, monkeypatch):
    task.enter(mine, name="Ada")
    monkeypatch.chdir(task.board().folder)  # a socket's name may have a hundred letters
    spoilt(task.board().folder)
    found = task.board()
    assert [entry.name for entry in found.entries] == ["Ada"]
    assert found.passed_over == 13
    assert "13 files in" in repr(found)
    assert "13 files in" in found._repr_html_()


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


def test_simultaneous_entries_are_all_kept(task, mine, put):
    def write(number):
        put(mine, f"learner {number}", job_id=number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = task.board()
    assert len(found.entries) == 24
    assert found.passed_over == 0


def test_a_folder_that_is_none_is_told_in_a_sentence(task, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COURSE_BOARD", str(tmp_path / "file"))
    with pytest.raises(LabError, match="cannot be read: Not a directory"):
        task.board()
